# SPDX-License-Identifier: Apache-2.0
"""`check --fix`, `--fix-all` and `--diff`: what is written, what is said, and what stays the user's."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from warplens.cli.main import run

WARPLENS = [sys.executable, "-P", "-m", "warplens"]
#: Two doubles in a float kernel: a fix that changes results, so it carries a caveat.
HALF = "__global__ void half_of(float *x)\n{\n    x[threadIdx.x] = x[threadIdx.x] * 0.5 + 0.25;\n}\n"
#: A tile read by columns: a fix that changes no result.
TILE = (
    "__global__ void turn(float *out)\n{\n    __shared__ float t[32][32];\n"
    "    t[threadIdx.y][threadIdx.x] = out[threadIdx.x];\n    __syncthreads();\n"
    "    out[threadIdx.x] = t[threadIdx.x][threadIdx.y];\n}\n"
    "void f(float *o) { turn<<<1, dim3(32, 32)>>>(o); }\n"
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of a source-tier check."""
    status = run(["check", "--tier", "source", *arguments])
    out, err = capfd.readouterr()
    return status, out, err


def test_bytes_of_another_encoding_are_kept(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data = b"// caf\xe9, \xb5s\r\n" + TILE.replace("\n", "\r\n").encode() + b"\xff\xfe no newline at the end"
    (here / "k.cu").write_bytes(data)
    assert check(capfd, "k.cu", "--fix")[0] == 0
    assert (here / "k.cu").read_bytes() == data.replace(b"t[32][32]", b"t[32][32 + 1]")


def test_a_file_under_two_names_is_edited_once(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (here / "a").mkdir()
    (here / "k.cu").write_text(HALF)
    (here / "link.cu").symlink_to("k.cu")
    for paths in (["k.cu", "link.cu", "a/../k.cu", "."], ["k.cu", "--arch", "sm_80", "--arch", "sm_90"]):
        (here / "k.cu").write_text(HALF)
        assert check(capfd, *paths, "--fix-all")[0] == 0
        assert (here / "k.cu").read_text() == HALF.replace("0.5", "0.5f").replace("0.25", "0.25f")
    assert (here / "link.cu").is_symlink()


def test_only_edits_that_change_no_result_go_without_asking(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (here / "k.cu").write_text(HALF + TILE)
    status, out, _ = check(capfd, "k.cu", "--fix")
    assert status == 0
    assert (here / "k.cu").read_text() == HALF + TILE.replace("t[32][32]", "t[32][32 + 1]")
    assert "(applied, unproven)" in out
    assert "results may change" in out and "--fix-all takes it" in out
    check(capfd, "k.cu", "--fix-all")
    assert "0.5f" in (here / "k.cu").read_text()


def test_the_report_is_of_the_text_before(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (here / "k.cu").write_text(TILE)
    _, out, _ = check(capfd, "k.cu", "--fix", "--format", "json")
    (finding,) = [f for f in json.loads(out)["files"][0]["findings"] if f["fixes"]]
    assert finding["fixes"][0]["applied"] is True
    (here / "k.cu").write_text(TILE)
    _, out, _ = check(capfd, "k.cu", "--fix")
    assert "| out[threadIdx.x] = t[threadIdx.x][threadIdx.y];" in out
    assert "1 finding fixed (unproven); the lines above are of the text before" in out


def test_what_was_fixed_no_longer_counts(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (here / "k.cu").write_text(TILE)
    assert check(capfd, "k.cu", "--fail-on", "warning", "--diff")[0] == 1
    assert check(capfd, "k.cu", "--fail-on", "warning", "--fix")[0] == 0


@pytest.mark.parametrize("where", [".", "sub", "../elsewhere"])
def test_a_patch_is_taken_from_anywhere(
    here: Path, where: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    folder = here / "deep" / "project"
    (folder / "sub").mkdir(parents=True)
    (here / "deep" / "elsewhere").mkdir()
    names = {
        folder / "two words.cu": b"\r\n",
        folder / "sub" / 'odd"name.cu': b"\n",
        folder / "plain.cu": b"\r",
    }
    texts = {path: b"// \xe9\n" + TILE.encode().replace(b"\n", end) for path, end in names.items()}
    for path, data in texts.items():
        path.write_bytes(data)
    os.chdir(folder / where)
    status = run(["check", "--tier", "source", "--fix", "--diff", *map(str, texts)])
    patch, told = capfdbinary.readouterr()
    err = told.decode()
    assert status == 0, err
    assert all(path.read_bytes() == data for path, data in texts.items())
    root = "." if "patch -p1 -d" not in err else err.rsplit("patch -p1 -d ", 1)[1].strip()
    os.chdir(folder / where)
    done = subprocess.run(
        ["patch", "-p1", "-d", root],
        input=patch,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert all(
        path.read_bytes() == data.replace(b"t[32][32]", b"t[32][32 + 1]") for path, data in texts.items()
    )


def test_what_cannot_be_written_is_said_and_the_rest_written(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("a.cu", "b.cu"):
        (here / name).write_text(TILE)
    (here / "a.cu").chmod(0o444)
    status, out, _ = check(capfd, ".", "--fix")
    assert status == 2
    assert "failed: fixes of a.cu: cannot write a.cu: it is read-only" in out
    assert "shared-bank-conflicts" in out
    assert (here / "a.cu").read_text() == TILE
    assert "[32 + 1]" in (here / "b.cu").read_text()
    assert stat.S_IMODE((here / "a.cu").stat().st_mode) == 0o444


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes into any folder")
def test_a_folder_that_cannot_be_written(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = here / "locked"
    folder.mkdir()
    (folder / "k.cu").write_text(TILE)
    folder.chmod(0o555)
    status, out, _ = check(capfd, "locked", "--fix")
    folder.chmod(0o755)
    assert (status, (folder / "k.cu").read_text()) == (2, TILE)
    assert "Permission denied" in out


def test_an_edit_of_a_line_with_undecodable_bytes_is_left_out(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data = HALF.replace("0.25;", "0.25; // half\xe9").encode("latin-1")
    (here / "k.cu").write_bytes(data)
    check(capfd, "k.cu", "--fix-all")
    assert (here / "k.cu").read_bytes() == data.replace(b"0.5", b"0.5f").replace(b"0.25", b"0.25f")


def test_standard_input_gives_a_patch_and_is_never_written() -> None:
    command = [*WARPLENS, "check", "--tier", "source", "-"]
    done = subprocess.run([*command, "--fix"], input=TILE.encode(), capture_output=True, check=False)
    assert done.returncode == 2 and b"cannot be fixed" in done.stderr
    done = subprocess.run(
        [*command, "--fix", "--diff"], input=TILE.encode(), capture_output=True, check=False
    )
    assert b"+    __shared__ float t[32][32 + 1];" in done.stdout
    done = subprocess.run(command, input=TILE.encode(), capture_output=True, check=False)
    assert b"stdin.cu" in done.stdout and b"t[threadIdx.x][threadIdx.y]" in done.stdout


def test_what_was_written_is_said_where_the_answer_cannot_be(here: Path) -> None:
    (here / "k.cu").write_text(HALF)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*WARPLENS, "check", "--tier", "source", "k.cu", "--fix-all"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert "already changed: k.cu" in done.stderr
    assert (here / "k.cu").read_text() != HALF


@pytest.mark.parametrize("option", ["--fix", "--diff"])
def test_edits_that_need_consent_are_counted_where_nothing_else_is(
    here: Path, capfd: pytest.CaptureFixture[str], option: str
) -> None:
    (here / "k.cu").write_text(HALF)
    _, _, err = check(capfd, "k.cu", option)
    assert "no edits without a caveat; " in err
    assert " with --fix-all" in err
    assert "no edits" not in check(capfd, "k.cu", option, "--fix-all")[2]


def test_files_without_edits_do_not_move_the_start_of_a_patch(
    here: Path, tmp_path_factory: pytest.TempPathFactory, capfd: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path_factory.mktemp("other") / "o.cu"
    other.write_text("__global__ void nothing() {}\n")
    (here / "k.cu").write_text(TILE)
    _, out, err = check(capfd, "k.cu", str(other), "--diff")
    assert "--- a/k.cu" in out
    assert "patch -p1 -d" not in err
