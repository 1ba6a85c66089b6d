# SPDX-License-Identifier: Apache-2.0
"""The GPU that a report was recorded on, from the device attributes the report carries."""

from __future__ import annotations

from warplens_tools.arch.gpu import Gpu
from warplens_tools.arch.load import Device, device_gpu, load_architecture
from warplens_tools.collect.profiled import ProfiledLaunch
from warplens_tools.errors import InputError

_PREFIX = "device__attribute_"


def report_gpu(launch: ProfiledLaunch) -> Gpu | None:
    """The recorded card, not present, with ceilings derived from its own attributes.

    A report without attributes gives a typical card of its architecture, under that card's own name; None
    where the report names no architecture, or one that is not known here.
    """
    try:
        if launch.gpu_name and _number(launch, "multiprocessor_count"):
            return device_gpu(_device(launch), present=False)
        return load_architecture(launch.compute_capability) if launch.compute_capability else None
    except InputError:
        return None


def _device(launch: ProfiledLaunch) -> Device:
    major, _, minor = launch.compute_capability.partition(".")
    return Device(
        name=launch.gpu_name,
        uuid="",
        memory_bytes=_number(launch, "total_memory"),
        major=int(major or _number(launch, "compute_capability_major")),
        minor=int(minor or _number(launch, "compute_capability_minor")),
        multiprocessors=_number(launch, "multiprocessor_count"),
        clock_khz=_number(launch, "clock_rate"),
        memory_clock_khz=_number(launch, "memory_clock_rate"),
        memory_bus_bits=_number(launch, "global_memory_bus_width"),
        l2_bytes=_number(launch, "l2_cache_size"),
        shared_bytes=_number(launch, "max_shared_memory_per_multiprocessor"),
        max_shared_bytes_per_block=_number(launch, "max_shared_memory_per_block_optin"),
        max_blocks=_number(launch, "max_blocks_per_multiprocessor"),
        reserved_shared_bytes_per_block=_number(launch, "reserved_shared_memory_per_block"),
    )


def _number(launch: ProfiledLaunch, attribute: str) -> int:
    return int(launch.metrics.get(_PREFIX + attribute, 0))
