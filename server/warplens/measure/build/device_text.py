# SPDX-License-Identifier: Apache-2.0
"""What a candidate's device code asks of the place, the time and the compiler, once its macros are expanded.

Names that are pasted from pieces, or stand in a header's macro, are plain in the text that the device's compiler is
given: the place and the time as literals, all else by its own name.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from warplens_tools.evidence import BinaryEvidence
from warplens_tools.toolchain.compile import DEVICE_TEXT

#: `# 12 "header.h" 1 3`: the line and the file that what follows is from; 3 says that it is the system's.
_LINE_MARKER = re.compile(r'^#[ \t]*\d+[ \t]*(?:"([^"\n]*)")?([^\n]*)\n', re.MULTILINE)
#: What is left of __TIME__, __DATE__ and __TIMESTAMP__.
_TIME = re.compile(r'"(?:\w{3} )?\w{3} [ \d]\d (?:\d\d:\d\d:\d\d )?\d{4}\\?"|"\d\d:\d\d:\d\d\\?"')
#: Asked of the compiler's front end, which no preprocessor expands.
_ASKING = re.compile(
    r"\b(?:__builtin_(?:FILE|FILE_NAME|LINE|FUNCTION|COLUMN)|source_location|__nv_\w*source_loc\w*)\b"
)
#: Within the comments that nvcc writes around inline assembler: in a literal they would make a stretch of it look
#: like the compiler's own.
_AROUND_ASSEMBLER = "inline asm"
#: Between two literals that the compiler makes one of, raw ones too.
_JOINT = re.compile(r'(?:\)[^()\\\s"]{0,16})?"\s*(?:u8|[uUL])?(?:R"[^()\\\s"]{0,16}\(|")')
_ESCAPE = re.compile(r"\\(?:x([\da-fA-F]+)|([0-7]{1,3})|[uU]([\da-fA-F]{4,8})|\n)")


#: Where the toolkit, the host compiler and the system have their headers: what these ask is not the edit's.
_SYSTEM = ("/usr/", "/opt/", "/nix/store/", "/gnu/store/")


class DeviceText(msgspec.Struct, frozen=True):
    """A unit's preprocessed device text, without line markers and headers of the system, and the names of its file."""

    text: str
    names: tuple[str, ...]


def device_text(evidence: BinaryEvidence, source: str, system: Sequence[str] = ()) -> DeviceText:
    """The text a unit was compiled from; `evidence` is of a compilation that kept it, `source` the edited file,
    `system` folders of headers beside the usual ones: where the toolkit lies."""
    folder = Path(evidence.cubin_path).parent
    paths = sorted(Path(evidence.ptx_path or folder).parent.glob(DEVICE_TEXT))
    names = (Path(evidence.path).name, Path(source).name)
    texts = [_own_of(path, path.stat().st_mtime_ns, names, (*_SYSTEM, *system)) for path in paths]
    return DeviceText("".join(texts), (*names, str(folder)))


# the baseline's is asked for with every candidate, and reading one takes a tenth of a second of this process alone
@functools.lru_cache(maxsize=8)
def _own_of(path: Path, written: int, names: tuple[str, ...], system: tuple[str, ...]) -> str:
    """What of a file, as it was `written` last (in ns), is not from headers of the system."""
    del written
    return _own(path.read_text(errors="replace"), names, system)


def _own(text: str, names: Sequence[str], system: tuple[str, ...]) -> str:
    """What of a preprocessed text is not from headers of the system; files of these `names` are the user's."""
    kept, at, ours = [], 0, True
    # a text has thousands of markers of a few hundred files
    known: dict[tuple[str, str], bool] = {}
    for marker in _LINE_MARKER.finditer(text):
        if ours:
            kept.append(text[at : marker.start()])
        at = marker.end()
        file, flags = marker[1], marker[2]
        if file is None:
            continue
        if (file, flags) not in known:
            theirs = file.startswith(system) or "3" in flags.split()
            known[file, flags] = not theirs or file.rpartition("/")[2] in names
        ours = known[file, flags]
    return "".join([*kept, text[at:] if ours else ""])


def asks_more(before: DeviceText, after: DeviceText) -> str:
    """What a candidate's text asks that its baseline's does not, in words; "" if nothing."""
    if before.text == after.text:
        return ""
    more = _asked(after) - _asked(before)
    if more:
        return f"the edit asks where, when or by what it is built: {next(iter(more))}"
    if _marks(after.text) > _marks(before.text):
        return "the edit's inline assembler looks like the compiler's own"
    return ""


def _asked(unit: DeviceText) -> Counter[str]:
    found = Counter(_ASKING.findall(unit.text))
    found["the time (__TIME__, __DATE__, __TIMESTAMP__)"] = len(_TIME.findall(unit.text))
    found["the file's name (__FILE__, __BASE_FILE__)"] = max(unit.text.count(name) for name in unit.names)
    return found


def _marks(text: str) -> int:
    return _ESCAPE.sub(_character, _JOINT.sub("", text)).count(_AROUND_ASSEMBLER)


def _character(escape: re.Match[str]) -> str:
    groups = zip(escape.groups(), (16, 8, 16), strict=True)
    value = next((int(digits, base) for digits, base in groups if digits), 0)
    return chr(value) if 0 < value < 0x110000 else ""
