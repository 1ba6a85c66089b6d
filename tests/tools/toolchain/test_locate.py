# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from warplens_tools.arch.load import Device, DeviceQuery
from warplens_tools.collect.doctor import diagnose, profiling_permission, repair_bundle
from warplens_tools.errors import MissingToolError
from warplens_tools.toolchain.locate import (
    Toolchain,
    ToolchainSettings,
    forget_toolchain,
    resolve_toolchain,
    tool_environment,
    tool_version,
)

HEADER = "#define CUDART_VERSION  {}\n"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No toolkit anywhere: an empty PATH folder, no /usr/local/cuda*, no managed environment."""
    for name in ("CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX", "NVCC_CCBIN"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("WARPLENS_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("warplens_tools.toolchain.locate.LOCAL", tmp_path / "local")
    monkeypatch.setattr("warplens_tools.toolchain.locate.NSIGHT", tmp_path / "opt")
    forget_toolchain()
    return tmp_path


def _program(path: Path, version: str, *, extra: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\n{extra}\necho "Cuda compilation tools, release {version}, V{version}.88"\n')
    path.chmod(0o755)
    return path


def _toolkit(root: Path, *, nvcc: str = "13.0", cicc: str = "", headers: int = 13000) -> Path:
    """A toolkit with nvcc, ptxas, cicc and headers, and none of the binary tools."""
    here = f'[ "$1" = --dryrun ] && {{ echo "#$ _HERE_={root}/bin" >&2; echo "#$ TOP={root}/bin/.." >&2; exit; }}'
    _program(root / "bin/nvcc", nvcc, extra=here)
    _program(root / "bin/ptxas", nvcc)
    (root / "nvvm/bin").mkdir(parents=True)
    release = cicc or nvcc
    (root / "nvvm/bin/cicc").write_bytes(
        b"\x7fELF" + f"Cuda compilation tools, release {release}, V{release}.1\n".encode()
    )
    (root / "include").mkdir()
    (root / "include/cuda_runtime_api.h").write_text(HEADER.format(headers))
    return root


@pytest.mark.usefixtures("machine")
def test_an_empty_machine_says_what_is_missing_and_how_to_get_it() -> None:
    found = resolve_toolchain()
    assert found.tools == {}
    with pytest.raises(MissingToolError, match="nvcc was not found") as caught:
        found.require("nvcc")
    assert "warplens setup toolchain" in caught.value.remedy
    assert "g++" in found.missing["host_compiler"].remedy
    assert "warplens setup" not in found.missing["ncu"].remedy


def test_each_tool_is_resolved_by_itself(machine: Path) -> None:
    _toolkit(machine / "local/cuda-13.0")
    managed = machine / "home/toolchain/v-1/nvidia/cu13"
    _program(managed / "bin/nvdisasm", "13.4")
    (machine / "home/toolchain/current").symlink_to("v-1")
    found = resolve_toolchain()
    assert found.tools["nvcc"].path == str(machine / "local/cuda-13.0/bin/nvcc")
    assert found.tools["ptxas"].root == found.tools["nvcc"].root
    assert found.tools["nvdisasm"].origin == "managed environment"
    assert tool_version(found.tools["nvdisasm"]) == "13.4.88"
    assert tool_version(found.tools["cicc"]) == "13.0.1"
    assert tool_version(found.tools["cuda_headers"]) == "13.0"
    bundle = repair_bundle(found)
    assert bundle is not None
    assert bundle.requirements[0].startswith("cuda-toolkit[cuobjdump,nvdisasm,cupti]==")
    assert bundle.megabytes < 25


def test_order_of_preference(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    older, newer = _toolkit(machine / "local/cuda-12.9"), _toolkit(machine / "local/cuda-13.1")
    other, explicit = _toolkit(machine / "other"), _toolkit(machine / "explicit")
    assert resolve_toolchain().tools["nvcc"].root == str(newer)
    (machine / "bin/nvcc").symlink_to(older / "bin/nvcc")
    assert resolve_toolchain(ToolchainSettings(tools={"nsys": "x"})).tools["nvcc"].root == str(older)
    monkeypatch.setenv("CUDA_HOME", str(other))
    assert resolve_toolchain().tools["nvcc"].origin == "CUDA_HOME"
    chosen = resolve_toolchain(ToolchainSettings(cuda_home=str(explicit)))
    assert chosen.tools["nvcc"].root == str(explicit)
    one = resolve_toolchain(ToolchainSettings(tools={"nvcc": str(newer / "bin/nvcc")}))
    assert one.tools["nvcc"].origin == "setting nvcc"


def test_a_wrapper_script_leads_to_the_real_toolkit(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = _toolkit(machine / "real")
    wrapper = machine / "bin/nvcc"
    wrapper.write_text(f'#!/bin/sh\nexec {real}/bin/nvcc "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{machine / 'bin'}:/usr/bin:/bin")
    found = resolve_toolchain()
    assert found.tools["nvcc"].path == str(real / "bin/nvcc")
    assert found.tools["cicc"].path == str(real / "nvvm/bin/cicc")


def test_a_setting_that_points_nowhere_is_said(machine: Path) -> None:
    _toolkit(machine / "local/cuda-13.0")
    found = resolve_toolchain(ToolchainSettings(tools={"nvcc": "/nowhere/nvcc"}))
    assert "/nowhere/nvcc" in found.missing["nvcc"].why


def test_mixed_releases_are_named_and_a_whole_toolkit_is_preferred(machine: Path) -> None:
    mixed = _toolkit(machine / "local/cuda-13.5", nvcc="13.5", cicc="13.0", headers=13000)
    found = resolve_toolchain()
    said = [c.text for c in diagnose(found, devices=DeviceQuery(error="none")) if c.name == "versions"]
    assert said[0].startswith("nvcc is 13.5, cicc 13.0")
    assert "CUDA headers 13.0" in said[1]
    bundle = repair_bundle(found)
    assert bundle is not None
    assert "nvvm" in bundle.requirements[0]
    whole = _toolkit(machine / "local/cuda-13.0")
    forget_toolchain()
    assert resolve_toolchain().tools["nvcc"].root == str(whole)
    assert resolve_toolchain(ToolchainSettings(cuda_home=str(mixed))).tools["nvcc"].root == str(mixed)


@pytest.mark.usefixtures("machine")
def test_doctor_says_what_each_lack_takes_away() -> None:
    checks = {c.name: c for c in diagnose(resolve_toolchain(), devices=DeviceQuery(error="no driver"))}
    assert checks["nvcc"].status == "missing"
    assert "binary tier" in checks["nvcc"].takes_away
    assert checks["GPU"].text == "no driver"
    assert "trial compile" not in checks


def test_an_old_driver_is_named(machine: Path) -> None:
    _toolkit(machine / "local/cuda-13.0")
    device = Device(
        name="H100",
        uuid="",
        memory_bytes=1,
        major=9,
        minor=0,
        multiprocessors=132,
        clock_khz=1,
        memory_clock_khz=1,
        memory_bus_bits=1,
        l2_bytes=1,
        shared_bytes=1,
        max_shared_bytes_per_block=1,
        max_blocks=1,
        reserved_shared_bytes_per_block=1,
    )
    answer = DeviceQuery(devices=(device,), cuda_version=12040)
    (check,) = [c for c in diagnose(resolve_toolchain(), devices=answer) if c.name == "driver"]
    assert check.status == "broken"
    assert "12.4" in check.text


def test_profiling_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = tmp_path / "params"
    assert profiling_permission(parameters).status == "warning"
    parameters.write_text("EnableMSI: 1\nRmProfilingAdminOnly: 0\n")
    assert profiling_permission(parameters).status == "ok"
    parameters.write_text("RmProfilingAdminOnly: 1\n")
    monkeypatch.setattr("warplens_tools.collect.doctor._is_admin", lambda: False)
    assert "NVreg_RestrictProfilingToAdminUsers=0" in profiling_permission(parameters).remedy


def test_the_compilers_environment_is_scrubbed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("CPATH", "/opt/include")
    env = tool_environment(tmp_path)
    assert "AWS_SECRET_ACCESS_KEY" not in env
    assert env["CPATH"] == "/opt/include"
    assert env["TMPDIR"] == str(tmp_path)


@pytest.mark.compiler
def test_the_toolchain_of_this_machine_belongs_together(toolchain: Toolchain) -> None:
    checks = diagnose(toolchain, devices=DeviceQuery(error="not asked"))
    trial = next(c for c in checks if c.name == "trial compile")
    assert trial.status == "ok"
    assert not [c for c in checks if c.name == "versions"]
