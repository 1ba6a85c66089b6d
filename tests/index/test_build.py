# SPDX-License-Identifier: Apache-2.0
import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.patience import PATIENCE

from warplens_cutlass.corpus import Corpus, corpora, find_corpus, index_folder
from warplens_cutlass.engine import search
from warplens_cutlass.index_settings import IndexSettings
from warplens_cutlass.store.build import build, remove, update
from warplens_cutlass.store.generation import current_index
from warplens_cutlass.store.status import corpus_status, status
from warplens_tools.errors import CancelledError, InputError
from warplens_tools.process.task import Task


def names(corpus: Corpus) -> set[str]:
    database = current_index(corpus)
    assert database is not None
    with sqlite3.connect(database) as connection:
        return {
            row[0]
            for row in connection.execute("SELECT n.name FROM symbols s JOIN names n ON n.id = s.name_id")
        }


def test_a_folder_is_built_and_registered(mini: Corpus) -> None:
    assert corpora() == (mini,)
    assert {"SM80_CP_ASYNC_CACHEGLOBAL", "gemm_device", "Swizzle"} <= names(mini)
    state = corpus_status(mini)
    assert (state.state, state.files, state.examples) == ("ready", 7, 2)
    assert state.header_share == 1.0 and state.skipped == ()


def test_an_open_index_sees_an_update(mini: Corpus, folder: Path) -> None:
    def line() -> int:
        return search("cp_async_wait").results[0].line

    before = line()
    header = folder / "include/mini/arch/copy_sm80.hpp"
    header.write_text("\n\n\n" + header.read_text())
    update(mini)
    assert line() == before + 3


def test_who_includes_a_file_is_counted_and_kept_fresh(mini: Corpus, folder: Path) -> None:
    assert included(mini) == {"include/mini/arch/copy_sm80.hpp": 1, "include/mini/arch/mma_sm80.hpp": 1,
                              "include/mini/layout.hpp": 1}  # fmt: skip
    (folder / "examples/02_async_copy/more.cu").write_text(
        '#include "../../include/mini/layout.hpp"\nint x;\n'
    )
    (folder / "examples/01_tiled_gemm/tiled_gemm.cu").write_text("int nothing;\n")
    update(mini)
    assert included(mini) == {"include/mini/arch/copy_sm80.hpp": 1, "include/mini/layout.hpp": 1}


def included(corpus: Corpus) -> dict[str, int]:
    database = current_index(corpus)
    assert database is not None
    with contextlib.closing(sqlite3.connect(database)) as connection:
        return dict(connection.execute("SELECT path, included FROM files WHERE included > 0"))


def test_an_update_reads_only_what_changed(mini: Corpus, folder: Path) -> None:
    assert update(mini).files_read == 0
    header = folder / "include/mini/layout.hpp"
    header.write_text(header.read_text().replace("make_layout", "make_ordered_layout"))
    (folder / "examples/02_async_copy/async_copy.cu").unlink()
    report = update(mini)
    assert (report.files_read, report.files_removed, report.rebuilt) == (1, 1, False)
    assert "make_ordered_layout" in names(mini) and not {"make_layout", "copy_kernel"} & names(mini)
    assert search("make_ordered_layout").results[0].symbol == "mini::make_ordered_layout"


def test_a_file_that_could_not_be_read_is_tried_again_when_it_changes(mini: Corpus, folder: Path) -> None:
    odd = folder / "odd.h"
    odd.write_bytes(b"\0\0")
    assert [s.reason for s in update(mini).skipped] == ["binary file"]
    assert [s.path for s in update(mini).skipped] == ["odd.h"]
    odd.write_text("struct Mended {};")
    assert update(mini).skipped == () and "Mended" in names(mini)


def test_hostile_folders_are_skipped_with_reasons(home: Path, folder: Path) -> None:  # noqa: ARG001
    (folder / "big.h").write_bytes(b"int x;\n" * 10)
    os.truncate(folder / "big.h", 50_000_000)
    (folder / "loop").symlink_to(folder, target_is_directory=True)
    (folder / "gone.h").symlink_to(folder / "nowhere.h")
    (folder / "deep.cu").write_text("{" * 3000)
    (folder / "latin.h").write_bytes(b"// caf\xe9\nstruct Latin {};\n")
    os.mkfifo(folder / "pipe.h")
    report = build(folder, name="hostile")
    reasons = {s.path: s.reason for s in report.skipped}
    assert reasons == {
        "big.h": "larger than 8 MB",
        "loop": "a link to a folder already read",
        "gone.h": "not a regular file",
        "deep.cu": "brackets nested too deeply",
        "pipe.h": "not a regular file",
    }
    assert "Latin" in names(report.corpus)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_folder_is_skipped(mini: Corpus, folder: Path) -> None:
    secret = folder / "secret"
    secret.mkdir(mode=0)
    assert [s.path for s in update(mini).skipped] == ["secret"]
    secret.chmod(0o700)


def test_a_damaged_index_rebuilds_itself(mini: Corpus) -> None:
    database = current_index(mini)
    assert database is not None
    data = bytearray(database.read_bytes())
    data[4096:] = os.urandom(len(data) - 4096)
    database.write_bytes(bytes(data))
    assert search("Swizzle").results[0].symbol == "mini::Swizzle"
    database = current_index(mini)
    assert database is not None
    database.write_bytes(b"not a database")
    assert search("Swizzle").results[0].symbol == "mini::Swizzle"


def test_cancelling_keeps_the_index_there_was(mini: Corpus, folder: Path) -> None:
    before = current_index(mini)
    task = Task()
    task.token.cancel()
    with pytest.raises(CancelledError):
        build(folder, name="mini", task=task)
    assert current_index(mini) == before
    assert sorted(p.name for p in index_folder(mini).iterdir()) == sorted(
        [before.name if before else "", "current"]
    )


def test_two_processes_build_one_index(mini: Corpus, folder: Path) -> None:
    code = (
        "from pathlib import Path; from warplens_cutlass.store.build import build; import sys\n"
        "if __name__ == '__main__': build(Path(sys.argv[1]), name='mini')"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(folder)]) for _ in range(2)]
    assert [p.wait(PATIENCE) for p in running] == [0, 0]
    assert "Swizzle" in names(mini)
    assert len(list(index_folder(mini).glob("index-*"))) == 1


@pytest.mark.parametrize("delay", [0.05, 0.25, 0.4, 0.6])
def test_a_killed_build_leaves_the_index_that_was(mini: Corpus, folder: Path, delay: float) -> None:
    for number in range(60):
        (folder / f"many{number}.h").write_text(f"struct Many{number} {{ int x; }};\n" * 30)
    code = (
        "from pathlib import Path; from warplens_cutlass.store.build import build; import sys\n"
        "if __name__ == '__main__': build(Path(sys.argv[1]), name='mini')"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(folder)], start_new_session=True)
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    process.wait(PATIENCE)
    assert search("Swizzle").results[0].symbol == "mini::Swizzle"
    update(mini)
    assert "Many59" in names(mini)


def test_several_processes_give_the_same_index(home: Path, folder: Path) -> None:  # noqa: ARG001
    alone = build(folder, name="mini", settings=IndexSettings(processes=1))
    expected = names(alone.corpus)
    together = build(folder, name="mini", settings=IndexSettings(processes=2, parallel_from=1))
    assert names(together.corpus) == expected and together.symbols == alone.symbols


def test_corpora_are_found_removed_and_missed(mini: Corpus, folder: Path) -> None:
    assert find_corpus("mini") == find_corpus(str(folder)) == mini
    remove(mini)
    assert corpora() == () and status() == () and folder.is_dir()
    with pytest.raises(InputError):
        find_corpus("mini")
    with pytest.raises(InputError):
        build(folder / "nowhere")
    with pytest.raises(InputError):
        search("Swizzle")


def test_two_corpora_are_searched_together(mini: Corpus, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.h").write_text("/// My own swizzle.\nstruct Swizzle { int bits; };\n")
    build(other, name="mine")
    answer = search("Swizzle")
    assert {r.corpus for r in answer.results} >= {"mini", "mine"}
    assert answer.root == "" and [c.name for c in answer.corpora] == [mini.name, "mine"]
