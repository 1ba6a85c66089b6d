# SPDX-License-Identifier: Apache-2.0
"""Programs with edited host code are really built, fenced, run, compared and timed; only the device is played.

The test program stands for one that uses a GPU: it fails where none is to be seen, and tells what its device
would have done on its standard error, where the tests' tracer reads it.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import socket
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.program.device_work import DeviceWork
from warplens.measure.program.effects import RunEffects
from warplens.measure.program.examine import Rejected, same
from warplens.measure.program.outside import OutsideJudge
from warplens.measure.program.rounds import Rounds, gain_of, timings_of
from warplens.measure.program.whole import ProgramRun, run_program
from warplens.measure.session import Session
from warplens.measure.timing import overall
from warplens.measure.verdict import Candidate, Verdict
from warplens_tools.arch.load import load_architecture
from warplens_tools.errors import TimeLimitError
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.run.confine import abilities
from warplens_tools.run.probe.visit import Command
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText, TextEdit
from warplens_tools.toolchain.locate import resolve_toolchain

PROGRAM = """\
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <fcntl.h>
static int present() {
    const char* seen = getenv("CUDA_VISIBLE_DEVICES");
    return !seen || strcmp(seen, "-1");
}
static double launch(const double* in, int n) {
    double sum = 0;
    for (int i = 0; i < n; ++i) sum += in[i % 1000] / (1 + i);
    fprintf(stderr, "device 1 %d %d\\n", n, 8);
    return sum;
}
int main(int argc, char** argv) {
    if (!present()) return 3;
    double in[1000];
    FILE* file = fopen("input.bin", "rb");
    if (!file || fread(in, 8, 1000, file) != 1000) return 4;
    fclose(file);
    usleep(60000);
    double sum = launch(in, atoi(argv[1]));
    printf("sum %.6f in %d us\\n", sum, getpid());
    FILE* out = fopen("result.bin", "wb");
    for (int i = 0; i < 64; ++i) { double x = sum * (i + 1); fwrite(&x, 8, 1, out); }
    return fclose(out);
}
"""
QUICK = MeasureSettings(outside_rounds=3, outside_traces=1, outside_repeats=2, outside_file_bytes=64 << 20)
GONE, SUM = "    usleep(60000);\n", "    double sum = launch(in, atoi(argv[1]));\n"
needs_fence = pytest.mark.skipif(
    not (abilities().files and abilities().network), reason="this kernel has no Landlock or no seccomp"
)
pytestmark = [
    pytest.mark.compiler,
    pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler"),
]


def played(
    command: Command, folder: Path, time_limit: float, task: Task
) -> tuple[ProgramRun, DeviceWork | None]:
    """Traces what the program says its device did."""
    assert folder.is_dir()
    run = run_program(command, time_limit, task)
    said = (folder.parent / "stderr").read_text()
    told = [[int(n) for n in line.split()[1:]] for line in said.splitlines() if line.startswith("device ")]
    kernels, busy, back = (sum(column) for column in zip(*told, strict=True)) if told else (0, 0, 0)
    return run, DeviceWork(kernels, float(busy), back)


class Bench:
    """One project with its judge."""

    def __init__(self, root: Path, text: str = PROGRAM, *arguments: str) -> None:
        self.root, self.folder = root / "project", root / "judge"
        self.home = root / "home"
        for path in (self.root, self.folder, self.home / ".ssh"):
            path.mkdir(parents=True)
        (self.home / ".ssh/id").write_text("swordfish 4711.25")
        self.source = self.root / "program.cpp"
        self.source.write_text(text)
        numbers = random.Random(7)
        (self.root / "input.bin").write_bytes(
            b"".join(struct.pack("d", numbers.uniform(1, 2)) for _ in range(1000))
        )
        self.workload = Workload(
            str(self.source),
            str(self.source),
            build=("g++", "-O0", "{source}", "-o", "{output}"),
            arguments=arguments or ("100000",),
            time_limit=20.0,
            root=str(self.root),
        )
        self.session = Session(
            workload=self.workload,
            toolchain=resolve_toolchain(),
            arch="sm_90",
            gpu=load_architecture("sm_90"),
            settings=QUICK,
            folder=self.folder,
        )
        # the run leaves its results where the user's files are: a cheat might leave them as they are
        original = SourceText.read(self.source)
        self.judge = OutsideJudge(self.session, self.folder / "outside", original, self.plain(), played)

    def plain(self) -> ProgramRun:
        program = self.session.build(self.folder / "plain", None, UNATTENDED)
        return run_program(Command((str(program), *self.workload.arguments), str(self.root)), 60)

    def verdict(self, *pairs: tuple[str, str]) -> Verdict:
        return self.judge.judge(self.candidate(*pairs))

    def candidate(self, *pairs: tuple[str, str]) -> Candidate:
        text, edits = SourceText.read(self.source), []
        for old, new in pairs:
            assert text.text.count(old) == 1
            start = text.text.index(old)
            edits.append(TextEdit(text.span(start, start + len(old)), new))
        return Candidate(repr(pairs), str(self.source), "", tuple(edits))


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    made = Bench(tmp_path_factory.mktemp("outside"))
    assert (made.root / "result.bin").is_file()
    return made


@pytest.mark.slow
def test_a_true_gain_is_found_confirmed_and_said_to_be_judged_from_outside(tmp_path: Path) -> None:
    """Far more than any other load of the machine makes of it: it waits, and the candidate does not."""
    gone = GONE.replace("60000", "300000")
    bench = Bench(tmp_path, PROGRAM.replace(GONE, gone))
    before = (bench.root / "result.bin").stat().st_mtime_ns
    verdict = bench.verdict((gone, ""))
    assert verdict.state == "faster", verdict.reason
    assert [t.span for t in verdict.timings] == ["process", "device"]
    process = verdict.timings[0]
    assert process.baseline_ns.median > 3e8
    assert verdict.reason.startswith("judged from outside the program: ")
    assert verdict.outside is not None
    assert verdict.outside.compared == (
        "exit status 0",
        "1 lines of output with 1 numbers",
        "1 files of 512 bytes (result.bin)",
    )
    assert "times and rates that it prints of itself" in verdict.outside.left_out
    # both the argument and the input file were varied
    assert not any("remembered" in doubt for doubt in verdict.outside.not_ruled_out)
    assert any("CUPTI" in doubt for doubt in verdict.outside.not_ruled_out)
    again = bench.judge.confirm(bench.candidate((gone, "")))
    assert again.verdict.state == "faster"
    assert again.verdict.timings != verdict.timings
    assert again.program is not None
    assert again.program.baseline_seconds.median > 0.3
    # nothing was written where the user's files are
    assert (bench.root / "result.bin").stat().st_mtime_ns == before
    assert sorted(p.name for p in bench.root.iterdir()) == ["input.bin", "program.cpp", "result.bin"]


CHEATS = {
    "leaves early": ((GONE, "    return 0;\n"), "wrong", "prints 0 lines"),
    "another result": ((SUM, SUM.replace(";", " * 1.001;")), "wrong", "prints 'sum"),
    "rounds otherwise": ((SUM, SUM.replace(";", " * (1 + 1e-9);")), "timed", ""),
    "other bytes in the file alone": (("sum * (i + 1)", "sum * (i + 1) * (i == 63 ? 1.01 : 1)"), "wrong", "result.bin"),
    "leaves the earlier file": (('fopen("result.bin", "wb")', 'fopen("/dev/null", "wb")'), "wrong", "result.bin"),
    "a link instead of the file": (
        ("    return fclose(out);", '    fclose(out); rename("result.bin", "x"); return symlink("x", "result.bin");'),
        "wrong",
        "writes x",
    ),
    "prints without end": (
        (GONE, "    for (;;) fwrite(stdout, 1, 200, stdout);\n"), "crashed", "signal 25"
    ),
    "removes its output": ((GONE, '    unlink("../stdout");\n' + GONE), "wrong", "prints 0 lines"),
    "a fault": ((GONE, "    abort();\n"), "crashed", "signal 6"),
    "another exit status": (("return fclose(out);", "return fclose(out) + 1;"), "wrong", "exits with 1"),
    "the right result for this size only": (
        (SUM, SUM + "    if (atoi(argv[1]) != 100000) sum = 1;\n"),
        "wrong",
        "with argument 50000 instead of 100000",
    ),
    "the right result for this input only": (
        (SUM, SUM + "    if (in[0] != {first}) sum = 1;\n"),
        "wrong",
        "with other numbers in input.bin",
    ),
    "no device work": (("    fprintf(stderr, ", "    if (0) fprintf(stderr, "), "unproven", "launches no kernel"),
    "little device work": (("n, 8);", "n / 100, 8);"), "unproven", "busy"),
    "fewer bytes back": (("n, 8);", "n, 4);"), "unproven", "brings fewer results back"),
    "the same without a device": (("    if (!present()) return 3;\n", ""), "unproven", "no GPU"),
    "what does not compile": ((GONE, "    nothing();\n"), "not_built", "does not build"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", CHEATS)
def test_cheats_and_faults(bench: Bench, name: str) -> None:
    (old, new), state, said = CHEATS[name]
    verdict = bench.verdict((old, new.replace("{first}", repr(_first(bench)))))
    if state == "timed":
        assert verdict.state in ("same", "faster", "slower"), verdict.reason
    else:
        assert verdict.state == state, verdict.reason
    assert said in verdict.reason


def _first(bench: Bench) -> float:
    return float(struct.unpack_from("d", (bench.root / "input.bin").read_bytes())[0])


@pytest.mark.slow
def test_an_edit_that_spells_the_result_is_refused(bench: Bench) -> None:
    printed = re.search(r"sum (\S+)", bench.plain().stdout)
    assert printed is not None
    verdict = bench.verdict((SUM, f"    double sum = {printed[1]};\n"))
    assert verdict.state == "refused"
    assert printed[1] in verdict.reason


@pytest.fixture
def listener() -> Iterator[int]:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield server.getsockname()[1]


@needs_fence
@pytest.mark.slow
def test_what_a_program_tries_beside_its_work_fails(
    bench: Bench, listener: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each try that succeeds makes the program exit with another status, and its verdict wrong."""
    del listener
    monkeypatch.setenv("THE_API_KEY", "swordfish")
    monkeypatch.setenv("HOME", str(bench.home))
    secret, outside = bench.home / ".ssh/id", tmp_path / "written"
    kept = bench.folder / "outside/kept/baseline/program"
    tries = f"""
    if (fopen("{secret}", "r")) return 10;
    if (fopen("{bench.root}/result.bin", "r")) return 11;
    if (fopen("{outside}", "w")) return 12;
    if (fopen("/tmp/kept", "w") || fopen("/dev/shm/kept", "w")) return 13;
    if (fopen("{kept}", "r") || fopen("{kept}", "r+")) return 14;
    if (fopen("/proc/self/exe", "r+") || fopen(argv[0], "r+")) return 15;
    if (socket(AF_INET, SOCK_STREAM, 0) >= 0 || socket(AF_NETLINK, SOCK_RAW, 0) >= 0) return 16;
    if (getenv("THE_API_KEY")) return 17;
    char parent[64];
    snprintf(parent, 64, "/proc/%d/environ", getppid());
    if (fopen("/proc/{os.getpid()}/environ", "r") || fopen(parent, "r")) return 18;
    if (strstr(getenv("HOME"), "{bench.home}")) return 20;
"""
    verdict = bench.verdict((GONE, GONE + tries))
    assert verdict.state in ("same", "faster", "slower"), verdict.reason
    assert not outside.exists()


@pytest.mark.slow
def test_what_a_program_leaves_running_is_killed(bench: Bench) -> None:
    forked = """
    if (fork() == 0) {
        setsid();
        prctl(15, "wl-linger", 0, 0, 0);
        if (fork() == 0) sleep(600);
        _exit(0);
    }
"""
    verdict = bench.verdict(
        ("#include <cstdio>", "#include <cstdio>\n#include <sys/prctl.h>"), (GONE, GONE + forked)
    )
    assert verdict.state in ("same", "faster", "slower"), verdict.reason
    assert not [p for p in psutil.process_iter(["name"]) if p.info["name"] == "wl-linger"]


@pytest.mark.slow
def test_work_left_to_a_child_beyond_the_exit_is_not_done(bench: Bench) -> None:
    verdict = bench.verdict((GONE, "    if (fork()) return 0;\n" + GONE))
    assert verdict.state == "wrong", verdict.reason


@needs_fence
@pytest.mark.slow
def test_nothing_is_remembered_from_run_to_run(bench: Bench) -> None:
    """A program that finds a trace of an earlier run of itself prints nothing."""
    leave = """
    const char* places[] = {"trace", "../trace", "../home/trace", "../../trace", "/dev/shm/wl-trace", "/tmp/wl-trace"};
    for (const char* place : places) {
        if (access(place, F_OK) == 0) return 0;
        close(open(place, O_CREAT | O_WRONLY, 0600));
        if (!strcmp(place, "trace")) unlink(place);
    }
"""
    verdict = bench.verdict((GONE, GONE + leave))
    assert verdict.state in ("same", "faster", "slower"), verdict.reason
    assert not Path("/dev/shm/wl-trace").exists()


def unproven(root: Path, text: str, *arguments: str) -> Verdict:
    verdict = Bench(root, text, *arguments).verdict(("int main(", "int  main("))
    assert verdict.state == "unproven", verdict.reason
    return verdict


@pytest.mark.slow
def test_a_program_that_shows_no_result_proves_nothing(tmp_path: Path) -> None:
    silent = PROGRAM.replace("result.bin", "/dev/null").replace('printf("sum', 'if (0) printf("sum')
    assert "prints no number" in unproven(tmp_path / "silent", silent).reason
    deaf = PROGRAM.replace("    if (!present()) return 3;\n", "")
    assert "where it sees no GPU" in unproven(tmp_path / "deaf", deaf).reason


@needs_fence
@pytest.mark.slow
def test_a_program_that_needs_more_than_the_fence_lets_it_is_said(tmp_path: Path) -> None:
    data = tmp_path / "elsewhere"
    data.write_text("1")
    needs = PROGRAM.replace(
        "    if (!present()", f'    if (!fopen("{data}", "r")) return 9;\n    if (!present()'
    )
    reason = unproven(tmp_path / "needs", needs).reason
    assert "does not do the same inside a fence: outside it exits with 0, inside with 9" in reason
    named = Bench(tmp_path / "named", needs, "100000", str(data))
    assert named.verdict((GONE, "    return 1;\n")).state == "wrong"


def test_a_program_that_does_not_end_is_hung() -> None:
    def endless() -> RunEffects:
        raise TimeLimitError("the program did not end within 3 s")

    with pytest.raises(Rejected, match="did not end within 3 s with n = 3") as odd:
        same([RunEffects(ProgramRun(0, 1.0, "", ""))], endless, " with n = 3")
    assert odd.value.state == "hung"


def drawn(generator: random.Random, scale: float, count: int) -> list[float]:
    # a process's time: mostly its own, now and then disturbed
    return [
        scale * (1 + abs(generator.gauss(0, 0.02)) + (generator.random() < 0.1) * 0.3) for _ in range(count)
    ]


def state_of(generator: random.Random, gain: float) -> str:
    def turns(ns: float, count: int) -> dict[str, list[float]]:
        return {
            "baseline": drawn(generator, ns, count),
            "candidate": drawn(generator, ns / gain, count),
            "again": drawn(generator, ns, count),
        }

    settings = MeasureSettings()
    rounds = Rounds(process=turns(4e8, settings.outside_rounds), device=turns(1e6, settings.outside_traces))
    assert gain_of(rounds).baseline_seconds.median == pytest.approx(0.4, rel=0.2)
    return overall(timings_of(rounds, settings), settings)[0]


def test_the_same_program_is_hardly_ever_faster_than_itself_and_a_gain_is_found() -> None:
    generator = random.Random(3)
    same = [state_of(generator, 1.0) for _ in range(200)]
    assert same.count("faster") <= 2
    better = [state_of(generator, 1.25) for _ in range(20)]
    assert better.count("faster") >= 18
