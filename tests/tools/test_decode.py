# SPDX-License-Identifier: Apache-2.0
"""Types are read by several threads at once, and by one way alone."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from tests.patience import PATIENCE

from warplens_tools.decode import from_builtins, from_json, from_msgpack, from_toml

ROOT = Path(__file__).parents[2]
PACKAGES = ("server/warplens", "tools/warplens_tools", "cutlass_index/warplens_cutlass")

#: What works out a type, by the name it has in msgspec.
_READS = {"convert", "decode", "Decoder"}
_NAME = re.compile(r"[\w.]+")

#: Forty types, each made of the one before. Read by six threads without a lock, four processes of five crash.
_MADE = (
    "from __future__ import annotations\nimport msgspec\nclass C0(msgspec.Struct):\n    leaf: int = 0\n"
    + "".join(
        f"class C{n}(msgspec.Struct):\n"
        + "".join(f"    f{m}: tuple[C{n - 1}, ...] | None = None\n" for m in range(4))
        for n in range(1, 40)
    )
)
_READ = """
import sys, threading
import made
from warplens_tools.decode import from_builtins, from_json, from_msgpack, from_toml
sys.setswitchinterval(1e-6)
barrier = threading.Barrier(6)
read = []
def whole():
    barrier.wait()
    read.append(from_json(b'{"f1": [{"f2": [{}]}]}', made.C39).f1[0].f2[0])
def parts():
    barrier.wait()
    read.append(from_builtins({"f1": [{}]}, made.C20).f1[0])
    read.append(from_toml("f1 = [{}]", made.C30).f1[0])
    read.append(from_msgpack(b"\\x81\\xa2f1\\x91\\x80", made.C39).f1[0])
threads = [threading.Thread(target=each) for each in (whole, parts) * 3]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(read) == 12, read
"""


def test_threads_may_read_types_that_share_others_for_the_first_time_at_once(tmp_path: Path) -> None:
    (tmp_path / "made.py").write_text(_MADE)
    script = tmp_path / "read.py"
    script.write_text(_READ)
    for _ in range(5):
        done = subprocess.run([sys.executable, script], check=False, timeout=PATIENCE, capture_output=True)
        assert (done.returncode, done.stderr) == (0, b"")


class Point(msgspec.Struct):
    x: int
    y: float = 0.0


def test_each_form_is_read_and_what_does_not_fit_is_refused() -> None:
    point = Point(3, 0.5)
    assert from_json('{"x": 3, "y": 0.5}', Point) == from_json(b'{"x": 3, "y": 0.5}', Point) == point
    assert from_msgpack(msgspec.msgpack.encode(point), Point) == from_toml("x = 3\ny = 0.5", Point) == point
    assert from_builtins({"x": 3, "y": 0.5}, Point) == point
    assert from_builtins({"x": "3", "y": "0.5"}, Point, strict=False) == point
    assert from_json("[1, null]", tuple[int | None, ...]) == (1, None)
    with pytest.raises(msgspec.ValidationError, match=r"`\$\.x`"):
        from_builtins({"x": "3"}, Point)
    with pytest.raises(msgspec.DecodeError):
        from_json("{", Point)


def _reads(tree: ast.Module) -> list[int]:
    """Lines that name what works out a type: `msgspec.json.decode`, `msgspec.convert`, or an import of one."""
    modules = {"msgspec"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {
                (a.asname or a.name).split(".")[0] for a in node.names if a.name.startswith("msgspec")
            }
    lines = list[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "msgspec":
            lines += [
                node.lineno for a in node.names if a.name in _READS | {"json", "msgpack", "toml", "yaml"}
            ]
        elif isinstance(node, ast.Attribute) and node.attr in _READS:
            name = ast.unparse(node.value)
            lines += [node.lineno] if _NAME.fullmatch(name) and name.split(".")[0] in modules else []
    return lines


@pytest.mark.parametrize(
    "text",
    [
        "import msgspec\nmsgspec.json.decode(data, type=int)",
        "import msgspec\nread = msgspec.convert",
        "import msgspec as m\nm.msgpack.Decoder(int)",
        "import os\nfrom msgspec.json import decode",
        "import os\nfrom msgspec import Struct, json",
        "import msgspec.toml as t\nt.decode(b'')",
    ],
)
def test_a_read_past_the_one_way_is_found(text: str) -> None:
    assert _reads(ast.parse(text)) == [2]


def test_nothing_else_reads_a_type() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if path != ROOT / "tools/warplens_tools/decode.py"
        if "msgspec" in (text := path.read_text("utf-8"))
        for line in _reads(ast.parse(text))
    ]
    assert not found, f"read it with warplens_tools.decode: {', '.join(found)}"
