# SPDX-License-Identifier: Apache-2.0
"""A rebuilt program's host code touches nothing: really built and started, where no GPU is needed to get that far."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path

import pytest
from tests.patience import PATIENCE
from tests.standard import STANDARD

from warplens.measure.build import geometry
from warplens.measure.build.candidates import Builder
from warplens.measure.build.fence import Fence
from warplens.measure.build.geometry import Geometries, NoGeometry
from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.program.rebuilt import Rebuilt
from warplens.measure.program.whole import ProgramRun, run_program
from warplens_tools.errors import CompileError, InputError
from warplens_tools.evidence import BinaryEvidence
from warplens_tools.process.task import UNATTENDED
from warplens_tools.run.build import flags_of, start_command
from warplens_tools.run.confine import abilities
from warplens_tools.run.probe.records import SurveyedShape
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText
from warplens_tools.toolchain.locate import Toolchain, resolve_toolchain

PLAIN = """\
#include <cstdio>
__global__ void k(float* x) { x[threadIdx.x] = 1; }
int main() { std::printf("sum 3.5\\n"); return 0; }
"""
#: Holds the limit of heavy compiles.
Heavy = Callable[[str], AbstractContextManager[object]]
#: What a candidate's host code would try before anything of CUDA is called.
INTRUDER = """\
#include <arpa/inet.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>
__global__ void k(float* x) {{ x[threadIdx.x] = 1; }}
static struct Early {{
    Early() {{
        if (FILE* file = std::fopen("{canary}", "w")) {{ std::fputs("touched", file); std::fclose(file); }}
        if (FILE* file = std::fopen("{made}", "w")) std::fclose(file);
        std::remove("{canary}");
        sockaddr_in to{{}};
        to.sin_family = AF_INET;
        to.sin_port = htons({port});
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        int handle = socket(AF_INET, SOCK_STREAM, 0);
        int met = handle < 0 ? -1 : connect(handle, (sockaddr*)&to, sizeof to);
        int struck = kill({pid}, 0);
        char read[64] = "nothing";
        if (FILE* file = std::fopen("{canary}", "r")) {{
            if (!std::fgets(read, sizeof read, file)) std::strcpy(read, "empty");
            std::fclose(file);
        }}
        const char* secret = std::getenv("WARPLENS_CANARY");
        std::printf("secret %s, met %d, struck %d, read %s\\n", secret ? secret : "none", met, struck, read);
    }}
}} early;
int main() {{ return 0; }}
"""
pytestmark = [
    pytest.mark.compiler,
    pytest.mark.slow,
    pytest.mark.skipif(
        not (abilities().files and abilities().network), reason="this kernel has no Landlock or no seccomp"
    ),
]


class Site:
    """A workload with what it is built by."""

    def __init__(self, folder: Path, toolchain: Toolchain) -> None:
        source = folder / "program.cu"
        source.write_text(PLAIN)
        self.workload = Workload(str(source), str(source), flags=STANDARD, time_limit=20)
        self.toolchain, self.arch, self.settings = toolchain, "sm_90", MeasureSettings()

    def geometries(self, folder: Path, settings: MeasureSettings, **more: Heavy) -> Geometries:
        """Those of its programs, with a probe that is not there."""
        return Geometries(
            self.workload,
            toolchain=self.toolchain,
            arch=self.arch,
            library=folder.parent / "probe" / "probe.so",
            folder=folder,
            settings=settings,
            **more,
        )


class Canaries:
    """A file, a variable and a listening socket."""

    def __init__(self, folder: Path, listening: socket.socket) -> None:
        self.file, self.made, self.socket = folder / "canary", folder / "made", listening
        self.file.write_text("alive")
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        listening.settimeout(0.2)
        os.environ["WARPLENS_CANARY"] = "alive"

    def intruder(self) -> str:
        port = self.socket.getsockname()[1]
        return INTRUDER.format(canary=self.file, made=self.made, port=port, pid=os.getpid())

    def untouched(self) -> bool:
        try:
            self.socket.accept()[0].close()
        except TimeoutError:
            return self.file.read_text() == "alive" and not self.made.exists()
        return False


def located() -> Toolchain:
    toolchain = resolve_toolchain()
    if toolchain.find("nvcc") is None:
        pytest.skip("no nvcc")
    return toolchain


def test_a_rebuilt_program_touches_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project, folder, aside = (tmp_path / name for name in ("project", "judge", "aside"))
    for path in (project, folder, aside):
        path.mkdir()
    monkeypatch.setenv("WARPLENS_CANARY", "alive")
    with closing(socket.socket()) as listening:
        canaries = Canaries(aside, listening)
        site = Site(project, located())
        rebuilt = Rebuilt(site, folder, tmp_path / "probe" / "probe.so")
        program = rebuilt.build(canaries.intruder(), UNATTENDED)
        assert program.is_file()
        said = rebuilt.run(UNATTENDED)
        assert said.status == 0
        assert said.stdout.startswith("secret none, met -1,")
        assert "read alive" not in said.stdout
        with pytest.raises(InputError):
            rebuilt.launches(5, UNATTENDED)
        geometries = site.geometries(folder, site.settings)
        assert isinstance(geometries.launched(SourceText(canaries.intruder()), UNATTENDED), NoGeometry)
        assert canaries.untouched()
        # the test would notice: free, the same program does all of it
        run_program(start_command(site.workload, program), 20)
        assert not canaries.untouched()


def test_rebuilt_programs_are_asked_side_by_side_and_again_alone_where_company_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, folder = tmp_path / "project", tmp_path / "judge"
    project.mkdir()
    folder.mkdir()
    site = Site(project, located())
    both, alone = threading.Barrier(2), list[bool]()
    shape = SurveyedShape("_Z1kPf", (1, 1, 1), (32, 1, 1), 0, 1, 0, 1, 0, 1e3, (1e3,))

    def survey(*_: object) -> tuple[SurveyedShape, ...]:
        if not alone:
            both.wait(PATIENCE)
            alone.append(True)
            raise InputError("out of memory")
        return (shape,)

    monkeypatch.setattr(geometry, "survey", survey)
    geometries = site.geometries(folder, site.settings)
    texts = [
        SourceText(PLAIN),
        SourceText(PLAIN.replace("int main() {", "int main() { int more = 1; (void)more;")),
    ]
    geometries.ask([*texts, texts[0]], UNATTENDED)
    assert [geometries.launched(text, UNATTENDED) for text in texts] == [(shape,), (shape,)]


def test_rebuilt_programs_share_the_limit_of_heavy_compiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, folder = tmp_path / "project", tmp_path / "judge"
    project.mkdir()
    folder.mkdir()
    site = Site(project, located())
    builder = Builder(
        site.workload, toolchain=site.toolchain, arch=site.arch, folder=folder, settings=site.settings
    )
    inside, most = list[int](), list[int]()

    def build_in(*_: object) -> None:
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.05)
        inside.pop()

    monkeypatch.setattr(geometry, "build_in", build_in)
    geometries = site.geometries(folder, MeasureSettings(build_jobs=4), heavy=builder.heavy)
    heavy = "#include <cute/tensor.hpp>\n" + PLAIN
    texts = [heavy.replace("int main() {", f"int main() {{ int more = {n}; (void)more;") for n in range(4)]
    with builder.heavy(heavy):
        # as a candidate's own unit holds it
        waiting = threading.Thread(target=geometries.rebuild, args=(list(map(SourceText, texts)), UNATTENDED))
        waiting.start()
        time.sleep(0.1)
        assert not most
    waiting.join(PATIENCE)
    assert most == [1] * 4


def test_a_version_whose_kernel_does_not_compile_says_nothing_of_others_with_its_host_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, folder = tmp_path / "project", tmp_path / "judge"
    project.mkdir()
    folder.mkdir()
    site = Site(project, located())
    shape = SurveyedShape("_Z1kPf", (1, 1, 1), (32, 1, 1), 0, 1, 0, 1, 0, 1e3, (1e3,))
    monkeypatch.setattr(geometry, "survey", lambda *_: (shape,))
    geometries = site.geometries(folder, site.settings)
    broken = SourceText(PLAIN.replace("x[threadIdx.x] = 1;", "x[threadIdx.x] = missing;"))
    (why,) = geometries.rebuild([broken], UNATTENDED).values()
    assert why.state == "not_built"
    assert geometries.launched(SourceText(PLAIN), UNATTENDED) == (shape,)


def test_the_original_settles_behind_the_fence_or_says_why_not(tmp_path: Path) -> None:
    project, folder = tmp_path / "project", tmp_path / "judge"
    project.mkdir()
    folder.mkdir()
    site = Site(project, located())
    rebuilt = Rebuilt(site, folder, tmp_path / "probe.so")
    program = rebuilt.build(PLAIN, UNATTENDED)
    rebuilt.settle(program, PLAIN, ProgramRun(0, 0.1, "sum 3.5\n", ""), UNATTENDED)
    assert rebuilt.run(UNATTENDED).stdout == rebuilt.run(UNATTENDED, original=True).stdout == "sum 3.5\n"
    with pytest.raises(InputError, match="behind a fence"):
        rebuilt.settle(program, PLAIN, ProgramRun(0, 0.1, "sum 4.5\n", ""), UNATTENDED)


def test_a_rebuild_reads_what_the_original_reads_alone(tmp_path: Path) -> None:
    if not abilities().files:
        pytest.skip("no Landlock")
    project, folder, aside = (tmp_path / name for name in ("project", "judge", "aside"))
    for path in (project, folder, aside):
        path.mkdir()
    (aside / "key.h").write_text("#define KEY 3\n")
    site = Site(project, located())
    fence = Fence(site.toolchain, flags_of(site.workload), site.settings)
    fence.learn(BinaryEvidence(site.workload.unit, site.arch, "nvcc", (), ()))
    reads = fence.reads
    reading = f'#include "{aside}/key.h"\n{PLAIN}'
    rebuilt = Rebuilt(site, folder, tmp_path / "probe.so", reads)
    assert rebuilt.build(PLAIN, UNATTENDED, original=PLAIN).is_file()
    with pytest.raises(CompileError, match=r"key\.h"):
        rebuilt.build(reading, UNATTENDED, original=PLAIN)
    assert not rebuilt.reads_freely
    # the original reads it too: the fence did not know all that it needs
    assert rebuilt.build(reading, UNATTENDED, original=reading).is_file()
    assert rebuilt.reads_freely
