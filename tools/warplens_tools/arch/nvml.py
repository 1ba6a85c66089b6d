# SPDX-License-Identifier: Apache-2.0
"""Clocks, throttling, power, temperature and energy of the GPUs here, from NVML.

Calls the driver's own library through ctypes: it is there wherever a driver is, and nothing else needs to
be. A reading that a card or driver does not give is None.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator

import msgspec

from warplens_tools.errors import MissingToolError

_SM_CLOCK, _MEMORY_CLOCK = 1, 2
#: nvmlClocksEventReasons bits (nvml.h); "gpu idle" is no throttling and is left out.
_THROTTLE_REASONS = {
    0x002: "application clocks setting",
    0x004: "software power cap",
    0x008: "hardware slowdown",
    0x010: "sync boost",
    0x020: "software thermal slowdown",
    0x040: "hardware thermal slowdown",
    0x080: "hardware power brake",
    0x100: "display clocks setting",
}
#: Reasons that take speed away against the user's wish; a clocks setting is a choice.
SLOWDOWNS = frozenset(_THROTTLE_REASONS.values()) - {
    "application clocks setting",
    "display clocks setting",
}


class GpuState(msgspec.Struct, frozen=True):
    """A GPU's condition at one moment."""

    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    #: Since the driver was loaded; the sensor updates about every 100 ms.
    energy_j: float | None = None
    throttling: tuple[str, ...] = ()

    @property
    def slowed(self) -> tuple[str, ...]:
        """The reasons that take speed away against the user's wish."""
        return tuple(reason for reason in self.throttling if reason in SLOWDOWNS)


@functools.cache
def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as error:
        raise MissingToolError(
            "there is no NVIDIA driver here (libnvidia-ml.so.1 was not found)",
            remedy="install the driver; in a container start it with the GPU passed through",
        ) from error
    status = library.nvmlInit_v2()
    if status != 0:
        raise MissingToolError(
            f"NVML could not be opened: {_explained(library, status)}",
            remedy="compare the loaded driver with the installed one (nvidia-smi says whether they match)",
        )
    return library


def _explained(library: ctypes.CDLL, status: int) -> str:
    library.nvmlErrorString.restype = ctypes.c_char_p
    text = library.nvmlErrorString(status)
    return text.decode(errors="replace") if text else f"status {status}"


def gpu_state(uuid: str) -> GpuState:
    """The condition of one GPU now.

    Raises:
        MissingToolError: there is no driver, or no GPU of that UUID.
    """
    library = _library()
    handle = _handle(library, uuid)
    power = _unsigned(library.nvmlDeviceGetPowerUsage, handle)
    energy = ctypes.c_ulonglong()
    has_energy = library.nvmlDeviceGetTotalEnergyConsumption(handle, ctypes.byref(energy)) == 0
    return GpuState(
        sm_clock_mhz=_unsigned(library.nvmlDeviceGetClockInfo, handle, _SM_CLOCK),
        memory_clock_mhz=_unsigned(library.nvmlDeviceGetClockInfo, handle, _MEMORY_CLOCK),
        temperature_c=_unsigned(library.nvmlDeviceGetTemperature, handle, 0),
        power_w=None if power is None else power / 1000.0,
        energy_j=energy.value / 1000.0 if has_energy else None,
        throttling=_throttling(library, handle),
    )


class _Memory(ctypes.Structure):
    """nvmlMemory_t: bytes."""

    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


def free_bytes(uuid: str) -> int:
    """Bytes of a GPU's memory that nobody has now.

    Raises:
        MissingToolError: there is no driver, no GPU of that UUID, or it does not say.
    """
    library = _library()
    handle = _handle(library, uuid)
    memory = _Memory()
    status = library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory))
    if status != 0:
        raise MissingToolError(f"the GPU does not say what memory is free: {_explained(library, status)}")
    return int(memory.free)


def _handle(library: ctypes.CDLL, uuid: str) -> ctypes.c_void_p:
    handle = ctypes.c_void_p()
    if library.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(handle)) != 0:
        raise MissingToolError(f"there is no GPU {uuid} in this machine")
    return handle


@contextlib.contextmanager
def states_around(uuid: str) -> Iterator[list[GpuState]]:
    """Fills the list with the state on entry and on exit; leaves it empty where NVML does not answer."""
    states: list[GpuState] = []
    with contextlib.suppress(MissingToolError):
        states.append(gpu_state(uuid))
    yield states
    if states:
        with contextlib.suppress(MissingToolError):
            states.append(gpu_state(uuid))


def throttle_reasons(bits: int) -> tuple[str, ...]:
    """Names of the set bits of an nvmlClocksEventReasons mask; unknown bits are left out."""
    return tuple(name for bit, name in _THROTTLE_REASONS.items() if bits & bit)


def _throttling(library: ctypes.CDLL, handle: ctypes.c_void_p) -> tuple[str, ...]:
    bits = ctypes.c_ulonglong()
    # The name before driver 535; both are kept.
    if library.nvmlDeviceGetCurrentClocksThrottleReasons(handle, ctypes.byref(bits)) != 0:
        return ()
    return throttle_reasons(bits.value)


def _unsigned(function: object, handle: ctypes.c_void_p, *which: int) -> float | None:
    value = ctypes.c_uint()
    status = function(handle, *which, ctypes.byref(value))  # type: ignore[operator]
    return float(value.value) if status == 0 else None
