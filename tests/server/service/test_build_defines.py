# SPDX-License-Identifier: Apache-2.0
"""What the build defines on its command line decides which branches and values the source tier sees."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from warplens.service.service import CheckOptions, Service

KERNEL = """\
#ifndef PITCH
#define PITCH 32
#endif
__global__ void turn(float* out, const float* in) {
    __shared__ float tile[32][PITCH];
    tile[threadIdx.y][threadIdx.x] = in[threadIdx.y * 32 + threadIdx.x];
    __syncthreads();
    out[threadIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
#if WITH_HALF
__global__ void half_of(float* x) { x[threadIdx.x] *= 0.5; }
#endif
void run(float* o, const float* i) { turn<<<1, dim3(32, 32)>>>(o, i); }
"""
BOTH = "-DPITCH=33", "-DWITH_HALF=0"


def seen(service: Service, path: Path) -> tuple[set[str], set[str]]:
    """Kernels and findings: as typed, and as checked, which must be the same."""
    typed = service.check_text(path, path.read_text())
    (checked,) = service.check([path], CheckOptions(tier="source")).files
    assert (typed.kernels, typed.findings) == (checked.kernels, checked.findings)
    return {k.name for k in typed.kernels}, {f.slug for f in typed.findings}


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    path = tmp_path / "turn.cu"
    path.write_text(KERNEL)
    return path


def test_without_a_build_the_text_speaks_for_itself(unit: Path) -> None:
    assert seen(Service(unit.parent), unit) == (
        {"turn", "half_of"},
        {"shared-bank-conflicts", "double-in-float-kernel"},
    )


def test_a_compile_command_decides(unit: Path) -> None:
    arguments = ["nvcc", *BOTH, "-c", unit.name]
    entry = {"directory": str(unit.parent), "file": unit.name, "arguments": arguments}
    (unit.parent / "compile_commands.json").write_text(json.dumps([entry]))
    assert seen(Service(unit.parent), unit) == ({"turn"}, set())


def test_flags_of_the_settings_decide(unit: Path) -> None:
    (unit.parent / "warplens.toml").write_text('flags = ["-D", "PITCH=33", "-DWITH_HALF", "-UWITH_HALF"]')
    _, slugs = seen(Service(unit.parent), unit)
    assert "shared-bank-conflicts" not in slugs


def test_a_changed_build_is_seen_when_told(unit: Path) -> None:
    service = Service(unit.parent)
    assert "shared-bank-conflicts" in seen(service, unit)[1]
    (unit.parent / "warplens.toml").write_text(f"flags = {json.dumps(BOTH)}")
    service.forget_builds()
    assert seen(service, unit) == ({"turn"}, set())
