# SPDX-License-Identifier: Apache-2.0
"""A file of the user's is replaced whole or not at all."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from warplens.service.writing import replace_file
from warplens_tools.errors import InputError

OLD, NEW = b"old\n" * 500, b"new text\n" * 700
#: The system calls of one replacement that a full disk or a kill may meet.
CALLS = ("open", "write", "fchmod", "fsync", "replace")

KILLED = """
import os, signal, sys
from pathlib import Path
from warplens.service.writing import replace_file
name, number = sys.argv[2], int(sys.argv[3])
true, seen = getattr(os, name), 0
def dies(*arguments, **named):
    global seen
    seen += 1
    if seen == number:
        if name == "write":
            true(arguments[0], bytes(arguments[1])[:100])
        os.kill(os.getpid(), signal.SIGKILL)
    return true(*arguments, **named)
setattr(os, name, dies)
path = Path(sys.argv[1])
replace_file(path, path.read_bytes(), b"new text\\n" * 700)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "src" / "k.cu"
    path.parent.mkdir()
    path.write_bytes(OLD)
    return path


def test_the_file_keeps_its_mode_and_attributes(file: Path) -> None:
    file.chmod(0o751)
    try:
        os.setxattr(file, "user.note", b"mine")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    replace_file(file, OLD, NEW)
    assert file.read_bytes() == NEW
    assert stat.S_IMODE(file.stat().st_mode) == 0o751
    assert os.getxattr(file, "user.note") == b"mine"
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_the_file_keeps_its_owner(file: Path) -> None:
    os.chown(file, 1234, 4321)
    replace_file(file, OLD, NEW)
    assert (file.stat().st_uid, file.stat().st_gid) == (1234, 4321)


def test_a_link_stays_one(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.cu"
    link.symlink_to(file)
    replace_file(link, OLD, NEW)
    assert link.is_symlink()
    assert file.read_bytes() == NEW


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda f: f.write_bytes(b"somebody else's"), "changed since"),
        (lambda f: f.chmod(0o444), "read-only"),
        (lambda f: os.link(f, f.with_name("other.cu")), "hard links"),
        (lambda f: f.unlink(), "No such file"),
    ],
    ids=["changed", "read-only", "hard link", "gone"],
)
def test_what_must_not_be_written_is_not(file: Path, spoil: Callable[[Path], object], says: str) -> None:
    spoil(file)
    before = {p.name: p.read_bytes() for p in file.parent.iterdir()}
    with pytest.raises(InputError, match=says):
        replace_file(file, OLD, NEW)
    assert {p.name: p.read_bytes() for p in file.parent.iterdir()} == before


@pytest.mark.parametrize("name", CALLS)
def test_a_disk_that_fills_at_any_call_costs_nothing(
    file: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_arguments: object, **_named: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, name, full)
    with pytest.raises(InputError, match="No space left") as caught:
        replace_file(file, OLD, NEW)
    monkeypatch.undo()
    assert str(file) in str(caught.value)
    assert {p.name: p.read_bytes() for p in file.parent.iterdir()} == {"k.cu": OLD}


@pytest.mark.parametrize("name", CALLS)
def test_a_kill_at_any_call_leaves_the_old_text_or_the_new(file: Path, name: str) -> None:
    before = "os.fsync" if name == "fsync" else name
    for number in (1, 2) if before == "os.fsync" else (1,):
        file.write_bytes(OLD)
        done = subprocess.run([sys.executable, "-c", KILLED, str(file), name, str(number)], check=False)
        assert done.returncode == -signal.SIGKILL
        # the second flush is of the folder, after the new file has its name
        assert file.read_bytes() == (NEW if number == 2 else OLD)
    replace_file(file, file.read_bytes(), OLD)
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
def test_a_disk_that_is_truly_full(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(disk)], check=False, capture_output=True
    )
    if made.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        file = disk / "k.cu"
        file.write_bytes(OLD)
        (disk / "ballast").write_bytes(b"x" * 60_000)
        with pytest.raises(InputError, match="No space left"):
            replace_file(file, OLD, NEW * 10)
        assert file.read_bytes() == OLD
        assert sorted(p.name for p in disk.iterdir()) == ["ballast", "k.cu"]
    finally:
        subprocess.run(["umount", str(disk)], check=True)
