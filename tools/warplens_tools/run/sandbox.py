# SPDX-License-Identifier: Apache-2.0
"""Runs a compiler, or a program, nobody vouches for: no sockets, other people's files closed, bounded resources.

As a script (`python -I -S sandbox.py OPTIONS -- COMMAND...`, standard library only) it closes the process in and
becomes the command. What closes it in are the kernel's own means, which need no privilege: seccomp(2) refuses
sockets, Landlock (landlock(7)) everything outside the named folders, setrlimit(2) bounds the rest. Where the kernel
lacks one of them the command runs without it; `--abilities` says beforehand which there are.

It stands before every compiler that a candidate needs: json, re, signal and contextlib would be a third of its time.
"""

from __future__ import annotations

import ctypes
import os
import resource
import struct
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Signals that Python ignores, SIGPIPE and SIGXFSZ, which a program must not inherit.
_IGNORED_HERE = (13, 25)
_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2
#: AUDIT_ARCH and the calls that are refused, by machine: socket, ptrace, process_vm_readv and _writev, io_uring_setup
#: (which makes sockets too), keyctl.
_CALLS = {
    "x86_64": (0xC000003E, (41, 101, 310, 311, 425, 250)),
    "aarch64": (0xC00000B7, (198, 117, 270, 271, 425, 219)),
}
#: What a program could leave for its next run: shmget, semget, msgget, mq_open, add_key, request_key; and bpf,
#: perf_event_open, which watch others.
_LASTING = {
    "x86_64": (29, 64, 68, 240, 248, 249, 321, 298),
    "aarch64": (194, 190, 186, 180, 217, 218, 280, 241),
}
#: By which a local socket would reach somebody: connect, accept, accept4, sendto, sendmsg, sendmmsg.
_REACHING = {
    "x86_64": (42, 43, 288, 44, 46, 307),
    "aarch64": (203, 202, 242, 206, 211, 269),
}
_AF_UNIX = 1
#: Classic BPF: load a word of the call's data, compare, return; refused calls fail with EACCES, those to reach
#: somebody with ECONNREFUSED, as where nobody is.
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _REFUSE, _NOBODY = 0x7FFF0000, 0x00050000 | 13, 0x00050000 | 111
#: Where the data of a call holds its architecture, number, and (the low half of) its first argument.
_ARCHITECTURE, _NUMBER, _FIRST = 4, 0, 16
_X32 = 0x40000000

_CREATE_RULESET, _ADD_RULE, _RESTRICT = 444, 445, 446
#: Landlock's rights of its first version, of versions 2 and 3; those that a file (no folder) can have.
_RIGHTS, _REFER, _TRUNCATE = (1 << 13) - 1, 1 << 13, 1 << 14
_READ_DIR = 1 << 3
#: Version 6: no signals to processes outside, and no abstract sockets.
_SCOPES = 0b11
#: prctl(2): drop a capability for good. There are some 41 of them.
_DROP, _CAPABILITIES = 24, 64
_READ = 1 << 0 | 1 << 2
_OF_FILES = 1 << 0 | 1 << 1 | 1 << 2 | _TRUNCATE
#: Files that a program's standard output and errors go to.
OUTPUTS = ("stdout", "stderr")
#: What any program needs to start and to write nowhere.
_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random", "/dev/full")


def main(words: list[str]) -> None:
    """Close in and become the command; with `--abilities`, print them as JSON.

    Options are pairs of words: `write` and a place that may be changed, where the first is a folder that takes what a
    program prints; `read` and a place, where without any all may be read; `limit` and NAME=VALUE; `program` and "".
    """
    if words == ["--abilities"]:
        sys.stdout.write(str(abilities()).replace("'", '"').lower())
        return
    end = words.index("--")
    options, command = list(zip(words[:end:2], words[1:end:2], strict=True)), words[end + 1 :]
    program, read, write = ("program", "") in options, [*_of(options, "read")], [*_of(options, "write")]
    # files, which have a limit that pipes have not; opened while they can be
    outputs = [open_output(write[0], name) for name in OUTPUTS] if program else []
    set_limits({name: int(most) for name, _, most in (o.partition("=") for o in _of(options, "limit"))})
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    if program:
        give_up_privileges(libc)
    close_files(libc, read or None, write, program=program)
    close_calls(libc, program=program)
    if program:
        # all that its errors' pipe ever carries: from here on the time is the program's
        os.write(2, f"{time.monotonic_ns()}\n".encode())
        redirect(outputs)
    for number in _IGNORED_HERE:
        libc.signal(number, None)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]} cannot be run: {error.strerror}\n".encode())
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def _of(options: Sequence[tuple[str, str]], name: str) -> Iterator[str]:
    return (value for option, value in options if option == name)


def open_output(folder: str, name: str) -> int:
    """A new file for what a program prints."""
    return os.open(
        f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600
    )


def redirect(outputs: Sequence[int]) -> None:
    """Make files of the standard output and errors."""
    for handle, output in enumerate(outputs, 1):
        os.dup2(output, handle)


def set_limits(limits: dict[str, int]) -> None:
    """Lower the limits named as in `resource`, e.g. {"RLIMIT_CPU": 300}; none is raised."""
    for name, most in limits.items():
        _, hard = resource.getrlimit(getattr(resource, name))
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(getattr(resource, name), (value, value))


def give_up_privileges(libc: ctypes.CDLL) -> None:
    """Drop every capability with the coming exec, root's too, and be the first to go when memory runs out."""
    for capability in range(_CAPABILITIES):
        libc.prctl(_DROP, capability, 0, 0, 0)
    try:
        with open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123
            file.write("1000")
    except OSError:
        pass


def close_calls(libc: ctypes.CDLL, *, program: bool = False) -> bool:
    """Refuse sockets from here on; False where the kernel cannot.

    A program may make local ones, which reach nobody: libcuda binds one and gives up where it cannot. It may
    leave nothing that outlives it either.
    """
    machine = os.uname().machine
    if machine not in _CALLS:
        return False
    architecture, calls = _CALLS[machine]
    steps = [(_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _REFUSE)]
    steps += [(_LOAD, 0, 0, _NUMBER), (_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _REFUSE)]
    if program:
        steps += _answer(_REACHING[machine], _NOBODY) + _answer(_LASTING[machine], _REFUSE)
        local = [(_LOAD, 0, 0, _FIRST), (_EQUAL, 0, 1, _AF_UNIX), (_RETURN, 0, 0, _ALLOW)]
        steps += [(_EQUAL, 0, len(local) + 1, calls[0]), *local, (_RETURN, 0, 0, _REFUSE)]
    steps += [*_answer(calls, _REFUSE), (_RETURN, 0, 0, _ALLOW)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    header = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code))
    return bool(libc.prctl(_SECCOMP, _FILTER, ctypes.create_string_buffer(header), 0, 0) == 0)


def _answer(calls: Sequence[int], answer: int) -> list[tuple[int, int, int, int]]:
    """Steps that answer these calls at once, and go on with others."""
    return [step for number in calls for step in ((_EQUAL, 0, 1, number), (_RETURN, 0, 0, answer))]


def close_files(
    libc: ctypes.CDLL, read: Sequence[str] | None, write: Sequence[str], *, program: bool = False
) -> bool:
    """Leave only `read` (None: everything) to be read and `write` to be changed; False where the kernel cannot.

    A program, other than a compiler, may not list other folders either, nor send signals out.
    """
    version = landlock_version(libc)
    if version < 1:
        return False
    rights = _RIGHTS | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    if read is None:
        rights &= ~(_READ_DIR | _READ)
    elif not program:
        rights &= ~_READ_DIR
    scopes = _SCOPES if program and version >= 6 else 0
    wanted = struct.pack("QQQ", rights, 0, scopes) if scopes else struct.pack("Q", rights)
    ruleset = libc.syscall(_CREATE_RULESET, ctypes.create_string_buffer(wanted, len(wanted)), len(wanted), 0)
    if ruleset < 0:
        return False
    for path in read or ():
        _allow(libc, ruleset, path, rights & (_READ | _READ_DIR))
    for path in (*write, *_DEVICES):
        _allow(libc, ruleset, path, rights)
    done = bool(libc.syscall(_RESTRICT, ruleset, 0) == 0)
    os.close(ruleset)
    return done


def landlock_version(libc: ctypes.CDLL) -> int:
    """The version of Landlock that the kernel speaks; below 1 for none."""
    return int(libc.syscall(_CREATE_RULESET, None, 0, 1))


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, rights: int) -> None:
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        # what is not there cannot be reached either
        return
    if not os.path.isdir(path):  # noqa: PTH112
        rights &= _OF_FILES
    rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, handle))
    libc.syscall(_ADD_RULE, ruleset, 1, rule, 0)
    os.close(handle)


def abilities() -> dict[str, bool]:
    """What the kernel can close, found by closing this process in."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    signals = landlock_version(libc) >= 6
    files = close_files(libc, ["/usr"], [])
    return {"files": files, "network": close_calls(libc), "signals": files and signals}


if __name__ == "__main__":
    main(sys.argv[1:])
