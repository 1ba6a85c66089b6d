# SPDX-License-Identifier: Apache-2.0
"""Reads files into rows, in this process or in several."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing.connection import wait as wait_connections
from pathlib import Path

import msgspec

from warplens_cutlass.extract.file import extract_file
from warplens_cutlass.index_settings import IndexSettings
from warplens_cutlass.model import Skipped
from warplens_cutlass.store.rows import FileRows, WorkResult, rows_of
from warplens_cutlass.store.walk import FoundFile
from warplens_tools.decode import from_msgpack
from warplens_tools.process.task import Task

#: Bytes of source in one unit of work: small enough to balance and to task, large enough to be worth a message.
_BATCH_BYTES = 400_000


def read_files(
    root: Path, files: Sequence[FoundFile], settings: IndexSettings, task: Task
) -> Iterator[WorkResult]:
    """Rows of all files, batch by batch, in no fixed order."""
    batches = _batches(files)
    workers = settings.processes or min(os.cpu_count() or 1, 4)
    if workers < 2 or len(files) < settings.parallel_from:
        for batch in batches:
            task.check()
            yield from_msgpack(_read_batch(str(root), batch), WorkResult)
        return
    yield from _read_parallel(root, batches, workers, task)


def _read_parallel(root: Path, batches: list[list[str]], workers: int, task: Task) -> Iterator[WorkResult]:
    """At most two batches a worker are in flight, which bounds memory."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_end_with_parent)
    pending: set[Future[bytes]] = set()
    queue = iter(batches)
    try:
        while True:
            while len(pending) < workers * 2 and (batch := next(queue, None)) is not None:
                pending.add(pool.submit(_read_batch, str(root), batch))
            if not pending:
                return
            done, pending = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
            task.check()
            for future in done:
                yield from_msgpack(future.result(), WorkResult)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _batches(files: Sequence[FoundFile]) -> list[list[str]]:
    """Largest first, so that no long file is left to the end."""
    batches: list[list[str]] = []
    room = 0
    for file in sorted(files, key=lambda f: -f.size):
        if room < file.size or not batches:
            batches.append([])
            room = _BATCH_BYTES
        batches[-1].append(file.path)
        room -= file.size
    return batches


def _read_batch(root: str, paths: list[str]) -> bytes:
    """Runs in a worker: the result crosses as MessagePack, which is smaller and faster than pickled structs."""
    files: list[FileRows] = []
    skipped: list[Skipped] = []
    for path in paths:
        try:
            data = Path(root, path).read_bytes()
        except OSError as error:
            skipped.append(Skipped(path, f"unreadable: {error.strerror}"))
            continue
        try:
            facts = extract_file(path, data)
        except (RecursionError, ValueError, MemoryError) as error:
            skipped.append(Skipped(path, f"could not be read: {type(error).__name__}"))
            continue
        if isinstance(facts, Skipped):
            skipped.append(facts)
        else:
            files.append(rows_of(facts))
    return msgspec.msgpack.encode(WorkResult(tuple(files), tuple(skipped)))


def _end_with_parent() -> None:
    """A killed parent must not leave workers behind, which would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        wait_connections([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
