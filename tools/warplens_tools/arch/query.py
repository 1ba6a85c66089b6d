# SPDX-License-Identifier: Apache-2.0
"""Asks the CUDA driver for the devices' attributes and prints them as JSON. Run as a script, by itself.

A process of its own: `cuInit` takes up to a second and tens of megabytes, and must not be inherited by a
fork. Uses only the standard library (`python -I -S query.py`).
"""

from __future__ import annotations

import ctypes
import json
import sys
from typing import Any

#: CUdevice_attribute values, from cuda.h.
ATTRIBUTES = {
    "clock_khz": 13,
    "multiprocessors": 16,
    "memory_clock_khz": 36,
    "memory_bus_bits": 37,
    "l2_bytes": 38,
    "major": 75,
    "minor": 76,
    "shared_bytes": 81,
    "max_shared_bytes_per_block": 97,
    "max_blocks": 106,
    "reserved_shared_bytes_per_block": 111,
}


def query(library: str = "libcuda.so.1") -> dict[str, Any]:
    """{"devices": […], "cuda_version": 13000, "error": ""}; `error` says why there are none."""
    try:
        cuda = ctypes.CDLL(library)
    except OSError as error:
        return {"devices": [], "error": f"the NVIDIA driver's library is not there ({error})"}
    status = cuda.cuInit(0)
    if status != 0:
        return {"devices": [], "error": f"the NVIDIA driver gives no device (cuInit returned {status})"}
    count = ctypes.c_int()
    cuda.cuDeviceGetCount(ctypes.byref(count))
    version = ctypes.c_int()
    cuda.cuDriverGetVersion(ctypes.byref(version))
    devices = [_device(cuda, index) for index in range(count.value)]
    return {"devices": devices, "cuda_version": version.value, "error": ""}


def _device(cuda: ctypes.CDLL, index: int) -> dict[str, Any]:
    device = ctypes.c_int()
    cuda.cuDeviceGet(ctypes.byref(device), index)
    name = ctypes.create_string_buffer(256)
    cuda.cuDeviceGetName(name, 256, device)
    memory = ctypes.c_size_t()
    cuda.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    identity = (ctypes.c_ubyte * 16)()
    known = cuda.cuDeviceGetUuid_v2(identity, device) == 0
    values: dict[str, Any] = {
        "name": name.value.decode(errors="replace"),
        "memory_bytes": memory.value,
        "uuid": _uuid(bytes(identity)) if known else "",
    }
    for key, number in ATTRIBUTES.items():
        value = ctypes.c_int()
        values[key] = (
            value.value if cuda.cuDeviceGetAttribute(ctypes.byref(value), number, device) == 0 else 0
        )
    return values


def _uuid(data: bytes) -> str:
    text = data.hex()
    return f"GPU-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


if __name__ == "__main__":
    json.dump(query(*sys.argv[1:2]), sys.stdout)
