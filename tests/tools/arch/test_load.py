# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from warplens_tools.arch import query
from warplens_tools.arch.gpu import Gpu
from warplens_tools.arch.load import (
    Device,
    DeviceQuery,
    device_gpu,
    known_architectures,
    load_architecture,
    load_gpu,
    normalize_architecture,
    present_gpu,
    present_gpus,
    query_devices,
    target_architecture,
)
from warplens_tools.errors import InputError
from warplens_tools.process.run import Completed

H200 = Device(
    name="NVIDIA H200",
    uuid="GPU-0",
    memory_bytes=150_754_820_096,
    major=9,
    minor=0,
    multiprocessors=132,
    clock_khz=1_980_000,
    memory_clock_khz=3_201_000,
    memory_bus_bits=6144,
    l2_bytes=62_914_560,
    shared_bytes=233_472,
    max_shared_bytes_per_block=232_448,
    max_blocks=32,
    reserved_shared_bytes_per_block=1024,
)


@pytest.mark.parametrize("arch", known_architectures())
def test_every_architecture_has_ceilings_with_sources(arch: str) -> None:
    gpu = load_architecture(arch)
    assert not gpu.present
    assert {"dram", "l2", "shared", "fp64", "fp32", "fp16", "int32", "sfu"} <= gpu.ceilings.keys()
    assert all(c.value > 0 and c.source for c in gpu.ceilings.values())
    assert gpu.ceilings["dram"].kind == "datasheet"
    assert gpu.limits.max_warps * gpu.limits.warp_size == gpu.limits.max_threads
    assert gpu.limits.max_shared_bytes_per_block < gpu.limits.shared_bytes or arch == "sm_75"
    ridge = gpu.ridge()
    assert ridge is not None
    assert 5 < ridge < 120


#: Peak figures that NVIDIA's datasheets print (dense), in TFLOP/s.
DATASHEET = [
    ("sm_75", "fp32", 8.1),
    ("sm_75", "tensor_fp16", 65),
    ("sm_80", "fp32", 19.5),
    ("sm_80", "fp64", 9.7),
    ("sm_80", "tensor_bf16", 312),
    ("sm_80", "tensor_tf32", 156),
    ("sm_86", "fp32", 38.7),
    ("sm_86", "tensor_fp16", 154.8),
    ("sm_89", "fp32", 91.6),
    ("sm_89", "tensor_bf16", 362),
    ("sm_90", "fp32", 67),
    ("sm_90", "fp64", 34),
    ("sm_90", "tensor_fp64", 67),
    ("sm_100", "fp32", 75),
    ("sm_120", "fp32", 125),
]


@pytest.mark.parametrize(("arch", "name", "teraflops"), DATASHEET)
def test_derived_ceilings_meet_the_datasheet(arch: str, name: str, teraflops: float) -> None:
    assert load_architecture(arch).ceilings[name].value == pytest.approx(teraflops * 1e12, rel=0.03)


def test_unknown_architecture_lists_the_known() -> None:
    with pytest.raises(InputError) as caught:
        load_architecture("sm_13")
    assert "sm_90" in caught.value.remedy
    with pytest.raises(InputError):
        load_architecture("hopper")


@pytest.mark.parametrize(
    ("name", "normal"),
    [
        ("90", "sm_90"),
        ("9.0", "sm_90"),
        ("compute_90a", "sm_90a"),
        ("SM_100F", "sm_100f"),
        ("sm_120", "sm_120"),
    ],
)
def test_names(name: str, normal: str) -> None:
    assert normalize_architecture(name) == normal


def test_target_architecture() -> None:
    present = device_gpu(H200)
    assert target_architecture() == "sm_90"
    assert target_architecture(arch_specific=True) == "sm_90a"
    assert target_architecture("80", arch_specific=True) == "sm_80"
    assert target_architecture("100f", arch_specific=True) == "sm_100f"
    assert target_architecture(present=present) == "sm_90"


def test_cards_of_one_architecture_differ() -> None:
    h200 = device_gpu(H200, driver="580.1")
    h100 = load_architecture("sm_90a")
    assert h200.present
    assert h200.ceilings["dram"].value == pytest.approx(4.917e12, rel=0.001)
    assert h200.ceilings["dram"].value > 1.4 * h100.ceilings["dram"].value
    assert h100.arch == h200.arch == "sm_90"


def test_without_a_driver_a_card_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warplens_tools.arch.load.query_devices", lambda: DeviceQuery(error="none"))
    assert load_gpu().name == "H100 SXM5 80GB"
    assert load_gpu("sm_86").arch == "sm_86"


def test_a_card_is_found_at_its_place_in_the_drivers_order(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = msgspec.structs.replace(H200, uuid="GPU-1", major=3)
    second = msgspec.structs.replace(H200, uuid="GPU-2")
    found = DeviceQuery(devices=(H200, unknown, second))
    monkeypatch.setattr("warplens_tools.arch.load.query_devices", lambda: found)
    at = [present_gpu(place) for place in range(4)]
    assert [gpu.uuid if gpu is not None else "" for gpu in at] == ["GPU-0", "", "GPU-2", ""]
    assert [gpu.uuid for gpu in present_gpus()] == ["GPU-0", "GPU-2"]


def test_query_without_a_library_says_so() -> None:
    assert "not there" in query.query("libnosuch.so.1")["error"]


FAKE_DRIVER = """\
#include <cstring>
extern "C" {
int cuInit(unsigned) { return 0; }
int cuDriverGetVersion(int* v) { *v = 13000; return 0; }
int cuDeviceGetCount(int* n) { *n = 1; return 0; }
int cuDeviceGet(int* d, int i) { *d = i + 7; return 0; }
int cuDeviceGetName(char* s, int n, int d) { std::strncpy(s, d == 7 ? "Fake" : "?", n); return 0; }
int cuDeviceTotalMem_v2(size_t* b, int) { *b = size_t(141) << 30; return 0; }
int cuDeviceGetUuid_v2(unsigned char* u, int) { for (int i = 0; i < 16; i++) u[i] = i; return 0; }
int cuDeviceGetAttribute(int* v, int a, int) { *v = a; return a == 111; }
}
"""


@pytest.mark.compiler
def test_query_speaks_the_drivers_interface(tmp_path: Path) -> None:
    source, library = tmp_path / "cuda.cpp", tmp_path / "libcuda.so.1"
    source.write_text(FAKE_DRIVER)
    subprocess.run(["g++", "-shared", "-fPIC", source, "-o", library], check=True)
    command = [sys.executable, "-I", "-S", query.__file__, str(library)]
    answer = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    asked = msgspec.convert(json.loads(answer), DeviceQuery)
    assert asked.cuda_version == 13000
    (device,) = asked.devices
    assert (device.name, device.uuid) == ("Fake", "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f")
    assert (device.memory_bytes, device.multiprocessors, device.major) == (141 << 30, 16, 75)
    assert device.reserved_shared_bytes_per_block == 0


@pytest.mark.gpu
def test_the_present_card() -> None:
    answer = query_devices()
    assert answer.error == ""
    gpu: Gpu = load_gpu()
    assert gpu.present
    assert gpu.uuid.startswith("GPU-")
    assert gpu.driver


def test_a_process_that_is_given_another_card_asks_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []

    def answering(_command: Sequence[str | Path], **_: object) -> Completed:
        asked.append(os.environ["CUDA_VISIBLE_DEVICES"])
        return Completed((), 0, '{"devices": []}', "", 0.0)

    monkeypatch.setattr("warplens_tools.arch.load.run", answering)
    monkeypatch.setattr("warplens_tools.arch.load.Path", lambda _: tmp_path)
    for visible in ("card-x", "card-y", "card-x"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert query_devices().devices == ()
    assert asked == ["card-x", "card-y"]
