# SPDX-License-Identifier: Apache-2.0
"""Puts the wheel the extension carries into `extension/bundled/`, with what the consent question says about it.

`constraints.txt` holds the versions of `requirements.lock`, so that a user's environment is the tested one.
"""

from __future__ import annotations

import email
import hashlib
import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUNDLED = ROOT / "extension" / "bundled"


def build() -> Path:
    """Build the wheel into an emptied `bundled/`; the build back end of this environment is used."""
    shutil.rmtree(BUNDLED, ignore_errors=True)
    command = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(BUNDLED),
        str(ROOT),
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = BUNDLED.glob("warplens-*.whl")
    return wheel


def constraints(lock: str) -> str:
    """The lock's versions with their markers and without its hashes, which pip would demand of the wheel too."""
    return "\n".join(re.findall(r"^[\w.\-\[\]]+==[^\\\n]+?(?= *\\?$)", lock, re.MULTILINE)) + "\n"


def describe(wheel: Path) -> dict[str, object]:
    """What the extension needs to know of the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
    required = [text for text in metadata.get_all("Requires-Dist", []) if "extra ==" not in text]
    return {
        "version": metadata["Version"],
        "wheel": wheel.name,
        "constraints": "constraints.txt",
        "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "requires": [re.split(r"[^\w.\-]", text)[0] for text in required],
    }


def main() -> None:
    """Build, and write `bundle.json` and `constraints.txt` beside the wheel."""
    wheel = build()
    lock = (ROOT / "requirements.lock").read_text("utf-8")
    (BUNDLED / "constraints.txt").write_text(constraints(lock), "utf-8")
    (BUNDLED / "bundle.json").write_text(json.dumps(describe(wheel), indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
