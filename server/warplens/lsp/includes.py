# SPDX-License-Identifier: Apache-2.0
"""Whether a unit includes a file, as far as its text says: for units that were never compiled."""

from __future__ import annotations

import re
from pathlib import Path

_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)', re.MULTILINE)
#: Bytes read of a file: include lines stand at the top.
_MOST_BYTES = 200_000
#: Files followed for one question.
_MOST_FILES = 400


def includes(unit: Path, changed: Path, root: Path) -> bool:
    """Whether `unit` names `changed`, there or gone, in an include line of its own or of a file that it includes.

    Files are followed where they stand beside the including one, in `root` or in its `include` folder; conditions
    are not evaluated.
    """
    seen: set[Path] = set()
    waiting = [unit]
    end = f"/{changed.name}"
    while waiting and len(seen) < _MOST_FILES:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        for target in _targets(file):
            named = "/" + target.replace("\\", "/").lstrip("./")
            if named.endswith(end) and changed.as_posix().endswith(named):
                return True
            folders = (file.parent, root, root / "include")
            waiting += [path for path in ((folder / target) for folder in folders) if path.is_file()][:1]
    return False


def _targets(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES)
    except OSError:
        return []
    return [(quoted or angled).decode("utf-8", "replace") for quoted, angled in _INCLUDE.findall(data)]
