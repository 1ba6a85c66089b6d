# SPDX-License-Identifier: Apache-2.0
"""A fenced-in process really tries to get out."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from tests.patience import PATIENCE

from warplens_tools.process.guard import die_with_parent
from warplens_tools.process.run import Completed, run
from warplens_tools.run.confine import Abilities, Confinement, Limits, abilities, confined, readable

SMALL = Limits(cpu_seconds=30, memory_bytes=4 << 30, file_bytes=1 << 20)
#: A Python that the fence lets be read: the test environment's own may lie anywhere.
PYTHON = (sys.base_prefix, sys.prefix, str(Path(sys.executable).resolve().parents[1]))
#: Prints what a try comes to: its result, or the error's name.
TRY = """
import ctypes, os, socket, sys, pathlib
def tried(what):
    try:
        return what()
    except BaseException as error:
        return type(error).__name__
"""


def inside(code: str, folder: Path, *, limits: Limits = SMALL, read: bool = True) -> Completed:
    confinement = Confinement((str(folder),), PYTHON if read else None, limits)
    return run(confined((sys.executable, "-I", "-c", TRY + code), confinement), cwd=folder, timeout=PATIENCE)


@pytest.fixture
def listener() -> Iterator[int]:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield server.getsockname()[1]


needs_network = pytest.mark.skipif(not abilities().network, reason="this system has no seccomp")
needs_files = pytest.mark.skipif(not abilities().files, reason="this kernel has no Landlock")


@needs_network
def test_no_socket_opens(tmp_path: Path, listener: int) -> None:
    socket.create_connection(("127.0.0.1", listener)).close()
    code = f"""
print(tried(lambda: socket.create_connection(("127.0.0.1", {listener}))))
print(tried(lambda: socket.socket(socket.AF_UNIX)))
print(tried(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)))
print(ctypes.CDLL(None).syscall(425, 8, None))
"""
    assert inside(code, tmp_path).stdout.split() == ["PermissionError"] * 3 + ["-1"]


@needs_files
def test_other_peoples_files_are_closed(tmp_path: Path) -> None:
    secret, own = tmp_path / "secret", tmp_path / "own"
    own.mkdir()
    secret.write_text("the key")
    (own / "link").symlink_to(secret)
    code = f"""
print(tried(lambda: open({str(secret)!r}).read()))
print(tried(lambda: open("link").read()))
print(tried(lambda: open("/etc/passwd").read()))
print(tried(lambda: open("/proc/{os.getpid()}/environ").read()))
print(tried(lambda: open({str(secret)!r}, "w")))
print(tried(lambda: os.rename("link", {str(tmp_path / "moved")!r})))
print(tried(lambda: os.unlink({str(secret)!r})))
print(tried(lambda: os.truncate({str(secret)!r}, 0)))
print(tried(lambda: open("mine", "w").write("four")))
"""
    assert inside(code, own).stdout.split() == ["PermissionError"] * 8 + ["4"]
    assert secret.read_text() == "the key"
    assert not (tmp_path / "moved").exists()


@needs_files
def test_reading_may_be_free_while_writing_is_not(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (tmp_path / "source").write_text("text")
    code = f"""
print(tried(lambda: open({str(tmp_path / "source")!r}).read()))
print(tried(lambda: open({str(tmp_path / "made")!r}, "w")))
"""
    assert inside(code, own, read=False).stdout.split() == ["text", "PermissionError"]


def test_memory_time_and_files_are_bounded(tmp_path: Path) -> None:
    assert inside("print(tried(lambda: bytearray(8 << 30)))", tmp_path).stdout == "MemoryError\n"
    spin = inside("while True: pass", tmp_path, limits=Limits(cpu_seconds=1))
    assert spin.status in (-9, -24)
    code = "f = open('big', 'wb'); print(tried(lambda: [f.write(bytes(1 << 20)) and f.flush() for _ in range(8)]))"
    assert inside(code, tmp_path).stdout == "OSError\n"
    assert (tmp_path / "big").stat().st_size <= 1 << 20


def test_a_command_that_is_not_there_is_said(tmp_path: Path) -> None:
    done = run(confined(("/no/such/tool",), Confinement((str(tmp_path),))))
    assert done.status == 127
    assert "/no/such/tool cannot be run" in done.stderr


def test_what_the_system_cannot_hold_is_named() -> None:
    assert Abilities(files=True, network=True).unknown() == ()
    named = [unknown.what for unknown in Abilities(files=False, network=False).unknown()]
    assert named == ["builds without network", "builds in their own folder"]


def test_a_tools_installation_is_readable(tmp_path: Path) -> None:
    tool, header = tmp_path / "cuda/bin/nvcc", tmp_path / "project/a.h"
    for path in (tool, header):
        path.parent.mkdir(parents=True)
        path.touch()
    assert readable([tool], [header]) == (str(tmp_path / "cuda"), str(header))


@needs_files
@pytest.mark.compiler
def test_a_host_compiler_inside_reads_and_writes_only_what_it_may(tmp_path: Path) -> None:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    own, secret = tmp_path / "own", tmp_path / "secret.h"
    own.mkdir()
    secret.write_text('const char* key = "swordfish";\n')
    tries = {
        "include": (f'#include "{secret}"\n', ()),
        "relative": ('#include "../secret.h"\n', ()),
        "incbin": (f'asm(".incbin \\"{secret}\\"");\n', ()),
        "option": ("", ("-include", str(secret))),
        "response file": ("", (f"@{secret}",)),
        "dependency": ("", ("-MD", "-MF", str(tmp_path / "outside.d"))),
        "harmless": ("int x;\n", ()),
    }
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(own)}
    status = {}
    for name, (text, options) in tries.items():
        (own / "a.cpp").write_text(text)
        command = (compiler, "-c", *options, "a.cpp", "-o", "a.o")
        done = run(
            confined(command, Confinement((str(own),), (), SMALL)),
            cwd=own,
            env={"PATH": os.environ["PATH"], "TMPDIR": str(own)},
        )
        status[name] = done.status == 0
        assert "swordfish" not in done.stdout + done.stderr
    assert status == {name: name == "harmless" for name in tries}
    # a plug-in is a shared object that the compiler runs: built outside, loaded inside, it opens nothing
    plugin = tmp_path / "plugin.so"
    (tmp_path / "plugin.c").write_text(
        f'#include <stdio.h>\n__attribute__((constructor)) void f(void) {{ FILE* s = fopen("{secret}", "r");'
        f' FILE* t = fopen("{tmp_path}/stolen", "w"); printf("%d %d\\n", !!s, !!t); }}\nint plugin_is_GPL_compatible;\n'
    )
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", plugin, tmp_path / "plugin.c"], check=True)
    command = (compiler, f"-fplugin={plugin}", "-c", "a.cpp", "-o", "a.o")
    done = run(confined(command, Confinement((str(own),), (str(plugin),), SMALL)), cwd=own, env=environment)
    assert done.stdout.startswith("0 0\n")
    assert not (tmp_path / "stolen").exists()


needs_scopes = pytest.mark.skipif(not abilities().signals, reason="this kernel's Landlock has no scopes")


def as_program(code: str, folder: Path, environment: dict[str, str]) -> Completed:
    confinement = Confinement((str(folder),), PYTHON, Limits(30, None, 1 << 20), program=True)
    command = die_with_parent(confined((sys.executable, "-I", "-c", TRY + code), confinement))
    done = run(command, cwd=folder, env=environment, timeout=PATIENCE)
    assert done.stdout == ""
    printed = [(folder / name).read_text() for name in ("stdout", "stderr")]
    return msgspec.structs.replace(done, stdout=printed[0], stderr=done.stderr + printed[1])


@needs_network
@needs_scopes
def test_a_program_reaches_no_secret_no_process_and_leaves_nothing_for_its_next_run(tmp_path: Path) -> None:
    own, secret = tmp_path / "own", tmp_path / "home/.ssh/id"
    own.mkdir()
    secret.parent.mkdir(parents=True)
    secret.write_text("the key")
    code = f"""
import threading
libc, done = ctypes.CDLL(None), threading.Event()
print(tried(lambda: open("/proc/sys/kernel/core_pattern", "w")))
print(tried(lambda: open({str(secret)!r}).read()))
print(tried(lambda: os.listdir({str(secret.parent)!r})))
print(tried(lambda: open("/proc/{os.getpid()}/environ").read()))
print(tried(lambda: os.kill({os.getpid()}, 0)))
print(tried(lambda: open("/dev/shm/kept", "w")))
print(tried(lambda: open("/tmp/kept", "w")))
print(tried(lambda: socket.socket()))
mine = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
mine.bind("\\0of-its-own")
mine.listen()
print(tried(lambda: socket.socket(socket.AF_UNIX).connect({str(tmp_path / "service")!r})))
datagram = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
print(tried(lambda: datagram.sendto(b"out", {str(tmp_path / "mailbox")!r})))
print(tried(lambda: datagram.sendmsg([b"out"], [], 0, {str(tmp_path / "mailbox")!r})))
print(libc.shmget(4711, 4096, 0o1600), libc.syscall(248, b"user", b"kept", b"1", 1, -3))
print("THE_KEY" in os.environ, bool(open("/proc/self/maps").read()), open("mine", "w").write("four"))
threading.Thread(target=done.wait, daemon=True).start()
(thread,) = (name for name in os.listdir("/proc/self/task") if int(name) != os.getpid())
with open("/proc/self/task/" + thread + "/comm", "w") as comm:
    comm.write("named")
print(open("/proc/self/task/" + thread + "/comm").read())
done.set()
"""
    with (
        closing(socket.socket(socket.AF_UNIX)) as service,
        closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as mailbox,
    ):
        service.bind(str(tmp_path / "service"))
        service.listen()
        mailbox.bind(str(tmp_path / "mailbox"))
        done = as_program(code, own, {"PATH": "/usr/bin"})
    words = done.stdout.split()
    assert words[:8] == ["PermissionError"] * 8, done
    assert words[8:11] == ["ConnectionRefusedError"] * 3
    assert words[11:] == ["-1", "-1", "False", "True", "4", "named"]


def test_a_program_begins_when_it_says(tmp_path: Path) -> None:
    before = time.monotonic_ns()
    first, _, rest = as_program("sys.stderr.write('mine\\n')", tmp_path, {}).stderr.partition("\n")
    assert before < int(first) < time.monotonic_ns()
    assert rest == "mine\n"


@needs_files
def test_root_keeps_no_capability_in_a_program(tmp_path: Path) -> None:
    code = "print([l.split()[1] for l in open('/proc/self/status') if l.startswith(('CapEff', 'CapBnd'))])"
    done = as_program(code, tmp_path, {})
    if os.getuid() == 0:
        assert done.stdout == f"{['0' * 16] * 2}\n"


def test_what_the_system_cannot_hold_a_program_to_is_named() -> None:
    assert Abilities(files=True, network=True, signals=True).unknown_of_programs() == ()
    assert len(Abilities(files=True, network=False).unknown_of_programs()) == 2
    (named,) = Abilities(files=False, network=True).unknown_of_programs()
    assert "read and change the user's files" in named.why
