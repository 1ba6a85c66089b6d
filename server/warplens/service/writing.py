# SPDX-License-Identifier: Apache-2.0
"""Writes over a file of the user's: whole or not at all, and only over the bytes that were read."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path

from warplens_tools.errors import InputError

_MARK = ".warplens-"


def replace_file(path: Path, expected: bytes, data: bytes) -> None:
    """Put `data` in place of `expected` by renaming a complete file over it.

    A symbolic link stays one: the file that it means is written. Owner, mode and, where the file system lets
    it, extended attributes and access lists are kept. Killed at any point, this leaves the old file or the
    new one, and at most a temporary file beside it, which the next call for the same file removes.

    Raises:
        InputError: the file no longer holds `expected`, must not be written, or cannot be; it is as it was.
    """
    target = Path(os.path.realpath(path))
    try:
        before = target.stat()
        _refuse(path, target, before)
        _remove_abandoned(target)
        temporary = target.with_name(f".{target.name}{_MARK}{os.getpid()}-{secrets.token_hex(4)}")
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            try:
                _fill(handle, data)
                _keep_attributes(handle, target, before)
                os.fsync(handle)
            finally:
                os.close(handle)
            if target.read_bytes() != expected:
                raise InputError(f"{path} changed since it was read", remedy="run the command again")
            os.replace(temporary, target)  # noqa: PTH105
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        _sync_folder(target.parent)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}; it is as it was") from error


def _refuse(path: Path, target: Path, before: os.stat_result) -> None:
    """What a rename would do to the file although nobody agreed to it."""
    if not stat.S_ISREG(before.st_mode):
        raise InputError(f"cannot write {path}: it is no regular file")
    if not before.st_mode & 0o222 or not os.access(target, os.W_OK):
        raise InputError(f"cannot write {path}: it is read-only", remedy=f"chmod u+w {path}")
    if before.st_nlink > 1:
        raise InputError(
            f"cannot write {path}: the file has {before.st_nlink} hard links, and the others would keep the old text",
            remedy="take the edits as a patch: warplens check --diff",
        )


def _fill(handle: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]


def _keep_attributes(handle: int, target: Path, before: os.stat_result) -> None:
    made = os.fstat(handle)
    if (made.st_uid, made.st_gid) != (before.st_uid, before.st_gid):
        try:
            os.fchown(handle, before.st_uid, before.st_gid)
        except PermissionError as error:
            raise InputError(
                f"cannot write {target}: it belongs to another user or group, which a new file would not"
            ) from error
    os.fchmod(handle, stat.S_IMODE(before.st_mode))
    with contextlib.suppress(OSError):
        for name in os.listxattr(target):
            with contextlib.suppress(OSError):
                os.setxattr(handle, name, os.getxattr(target, name))


def _sync_folder(folder: Path) -> None:
    """Make the new name last through a loss of power; the data does so already."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _remove_abandoned(target: Path) -> None:
    """Temporary files of killed processes, beside the file they were for."""
    prefix = f".{target.name}{_MARK}"
    for name in os.listdir(target.parent):  # noqa: PTH208
        owner = name.removeprefix(prefix).partition("-")[0] if name.startswith(prefix) else ""
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            with contextlib.suppress(OSError):
                (target.parent / name).unlink()
