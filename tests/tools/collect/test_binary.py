# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
import pytest

from warplens_tools.collect.binary import collect_binary
from warplens_tools.collect.cache import BinaryCache
from warplens_tools.errors import InputError
from warplens_tools.evidence import BinaryEvidence
from warplens_tools.toolchain.flags import CompileFlags
from warplens_tools.toolchain.locate import Missing, Tool, Toolchain

pytestmark = pytest.mark.compiler

FLAGS = CompileFlags(("-std=c++17",), "defaults")
TEXT = """\
#include "inc.h"
__global__ void first(float* p) { *p = twice(*p); }
namespace { __global__ void second(float* p, int n) { for (int i = 0; i < n; i++) p[i] += 1; } }
void launch(float* p) { second<<<1, 1>>>(p, 3); }
"""


class Fixture(msgspec.Struct):
    unit: Path
    tools: Toolchain
    cache: BinaryCache
    log: Path

    def collect(self, *, arch: str = "sm_90") -> tuple[BinaryEvidence, list[BinaryEvidence]]:
        stages: list[BinaryEvidence] = []
        done = collect_binary(
            self.unit,
            toolchain=self.tools,
            flags=FLAGS,
            arch=arch,
            cache=self.cache,
            on_stage=stages.append,
        )
        return done, stages

    def calls(self) -> list[str]:
        """Names of the tools started since the last question, without `--version`."""
        calls = self.log.read_text().split() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return calls


def _logged(tool: Tool, folder: Path, log: Path) -> Tool:
    script = folder / tool.name
    script.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] || echo {tool.name} >> {log}\nexec {tool.path} "$@"\n'
    )
    script.chmod(0o755)
    return Tool(tool.name, str(script), tool.origin, tool.root)


@pytest.fixture
def world(toolchain: Toolchain, tmp_path: Path) -> Fixture:
    if toolchain.find("nvdisasm") is None:
        pytest.skip(toolchain.missing["nvdisasm"].why)
    folder = tmp_path / "bin"
    folder.mkdir()
    log = tmp_path / "calls"
    logged = {
        name: _logged(tool, folder, log) if name in ("nvcc", "nvdisasm") else tool
        for name, tool in toolchain.tools.items()
    }
    unit = tmp_path / "src" / "k.cu"
    unit.parent.mkdir()
    unit.write_text(TEXT)
    (unit.parent / "inc.h").write_text("\n\n__device__ float twice(float x) {\n  return x + x;\n}\n")
    for path in (unit, unit.parent / "inc.h"):
        _age(path)
    return Fixture(unit, Toolchain(logged, toolchain.missing), BinaryCache(tmp_path / "cache"), log)


def _age(path: Path) -> None:
    """As if saved an hour ago: what changes while the compiler runs is not kept."""
    old = path.stat().st_mtime - 3600
    os.utime(path, (old, old))


def test_resources_come_first_and_sass_has_lines(world: Fixture) -> None:
    done, (stage,) = world.collect()
    assert not stage.disassembled
    assert [k.resources for k in stage.kernels] == [k.resources for k in done.kernels]
    assert Path(stage.cubin_path).is_file()
    assert done.disassembled
    first = next(k for k in done.kernels if k.qualified_name == "first")
    add = next(i for i in first.instructions if i.opcode == "FADD")
    header, unit = add.lines
    assert (header.path, header.line) == (str(world.unit.parent / "inc.h"), 4)
    assert (unit.path, unit.line) == (str(world.unit), 2)
    assert add.live_registers is None
    assert world.calls() == ["nvcc", "nvdisasm"]


def test_unchanged_unit_starts_nothing(world: Fixture) -> None:
    cold, _ = world.collect()
    world.calls()
    warm, stages = world.collect()
    assert warm == cold
    assert stages == []
    assert world.calls() == []


def test_unchanged_kernels_are_not_disassembled_again_though_their_lines_move(world: Fixture) -> None:
    world.collect()
    world.calls()
    world.unit.write_text("// moved\n\n" + TEXT)
    _age(world.unit)
    done, stages = world.collect()
    assert world.calls() == ["nvcc"]
    assert stages == []
    first = next(k for k in done.kernels if k.qualified_name == "first")
    assert {i.lines[-1].line for i in first.instructions} == {4}


def test_a_changed_header_is_compiled_again_and_a_touched_one_is_not(world: Fixture) -> None:
    world.collect()
    world.calls()
    header = world.unit.parent / "inc.h"
    os.utime(header)
    world.collect()
    assert world.calls() == []
    header.write_text(header.read_text().replace("x + x", "x * x"))
    _age(header)
    world.collect()
    assert world.calls() == ["nvcc", "nvdisasm"]


@pytest.mark.thorough
def test_another_architecture_is_another_entry(world: Fixture) -> None:
    world.collect()
    world.calls()
    done, _ = world.collect(arch="sm_80")
    assert done.kernels[0].arch == "sm_80"
    assert world.calls() == ["nvcc", "nvdisasm"]


@pytest.mark.thorough
def test_damaged_cache_counts_as_empty(world: Fixture) -> None:
    cold, _ = world.collect()
    for kind in ("units", "sass"):
        for path in (world.cache.folder / kind).iterdir():
            path.write_bytes(b"\xff" + path.read_bytes()[:20])
    world.calls()
    again, _ = world.collect()
    assert world.calls() == ["nvcc", "nvdisasm"]
    assert again.kernels == cold.kernels
    shutil.rmtree(world.cache.folder / "files")
    world.collect()
    assert world.calls() == ["nvcc"]


def test_the_cache_keeps_to_its_bound(world: Fixture) -> None:
    world.collect()
    small = BinaryCache(world.cache.folder, max_bytes=2000)
    small.sweep()
    left = [p for kind in ("units", "files", "sass") for p in (small.folder / kind).iterdir()]
    assert sum(p.stat().st_size for p in left) <= 2000


def test_live_registers_on_request(world: Fixture) -> None:
    done = collect_binary(
        world.unit, toolchain=world.tools, flags=FLAGS, arch="sm_90", cache=world.cache, live_registers=True
    )
    counts = [i.live_registers for k in done.kernels for i in k.instructions]
    assert all(count is not None for count in counts)
    assert max(filter(None, counts)) > 2


def test_a_cache_that_cannot_be_written_is_said(world: Fixture, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    world.cache = BinaryCache(tmp_path / "file" / "cache")
    with pytest.raises(InputError, match="cannot be written"):
        world.collect()


def test_without_nvdisasm_the_resources_stand(world: Fixture) -> None:
    tools = dict(world.tools.tools)
    del tools["nvdisasm"]
    world.tools = Toolchain(tools, {**world.tools.missing, "nvdisasm": Missing("nvdisasm", "gone", "")})
    done, stages = world.collect()
    assert not done.disassembled
    assert stages == []
    assert done.kernels[0].resources.registers > 0


def test_an_nvdisasm_that_fails_is_said_and_the_resources_stand(world: Fixture, tmp_path: Path) -> None:
    broken = tmp_path / "old-nvdisasm"
    broken.write_text("#!/bin/sh\necho 'nvdisasm fatal   : unsupported ELF' >&2\nexit 1\n")
    broken.chmod(0o755)
    world.tools = Toolchain(
        {**world.tools.tools, "nvdisasm": Tool("nvdisasm", str(broken), "test")}, world.tools.missing
    )
    done, _ = world.collect()
    assert not done.disassembled
    assert "unsupported ELF" in done.messages[-1].text
