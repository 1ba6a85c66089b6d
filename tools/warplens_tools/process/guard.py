# SPDX-License-Identifier: Apache-2.0
"""Runs a program that may not outlive whoever asked for it, however that ends.

`die_with_parent` puts this file, as a script, in front of a command. It starts the program and waits for it and for
the asking process at once: when the latter is gone, killed by force too, it kills its own process group, the
program and its children with it. What a program leaves behind when it ends, in a session of its own too, is killed
as well. As a script it uses only the standard library (`python -I -S guard.py`).
"""

from __future__ import annotations

import ctypes
import os
import select
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: What a shell answers for a command that is not there, and for one that cannot be run.
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
#: prctl(2).
_CHILD_SUBREAPER = 36
#: SIGINT and SIGKILL, by number: the module of their names takes long to import.
_INTERRUPT, _KILL = 2, 9
#: Signals that Python itself ignores, SIGPIPE and SIGXFSZ, which a program must not inherit.
_IGNORED_HERE = (13, 25)


def die_with_parent(command: Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    """The command with the guard in front; to be started in a session of its own."""
    return (sys.executable, "-I", "-S", os.path.abspath(__file__), str(os.getpid()), *map(str, command))  # noqa: PTH100


def main(parent: int, command: list[str]) -> None:
    """Run `command` to its end, which becomes this process's own, or to the end of `parent`."""
    try:
        watched = os.pidfd_open(parent)
    except OSError:
        _end_group()
        return
    # orphans below become this process's children, wherever they went
    libc = ctypes.CDLL(None)
    libc.prctl(_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        program = os.posix_spawnp(command[0], command, os.environ, setsigdef=_IGNORED_HERE)
    except FileNotFoundError:
        _leave(f"{command[0]} was not found", _NOT_FOUND)
    except OSError as error:
        _leave(f"{command[0]} cannot be run: {error.strerror}", _NOT_EXECUTABLE)
    ended = os.pidfd_open(program)
    poll = select.poll()
    poll.register(watched, select.POLLIN)
    poll.register(ended, select.POLLIN)
    if any(handle == watched for handle, _ in poll.poll()):
        _end_group()
    _, status = os.waitpid(program, 0)
    _kill_below()
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        if -code in (_INTERRUPT, *_IGNORED_HERE):
            libc.signal(-code, None)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _kill_below() -> None:
    """Kill every descendant; what is started meanwhile is found in the next round."""
    # mostly there is none, which the kernel says at once; looking through all processes takes as long as starting one
    if _childless() and _childless():
        return
    while found := _below(os.getpid()):
        for process in found:
            try:  # noqa: SIM105 - contextlib, as signal, takes as long to import as all else here
                os.kill(process, _KILL)
            except (ProcessLookupError, PermissionError):
                pass
        for process in found:
            # only those: an orphan that was adopted meanwhile still lives, and waits for the next round
            try:  # noqa: SIM105
                os.waitpid(process, 0)
            except ChildProcessError:
                pass


def _childless() -> bool:
    """Whether the kernel says that this process, of one thread, has no child; not where it does not list them. A child
    that ends meanwhile may hide another one from it."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:  # noqa: PTH123
            return not file.read().strip()
    except OSError:
        return False


def _below(root: int) -> list[int]:
    """The descendants of a process, from the fourth field of /proc/PID/stat."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
        try:
            with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                # the second field is a name in parentheses that may hold anything
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(name))
    found, waiting = [], [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _end_group() -> None:
    _kill_below()
    os.killpg(os.getpgid(0), _KILL)


def _leave(message: str, status: int) -> None:
    os.write(2, f"{message}\n".encode())
    os._exit(status)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
