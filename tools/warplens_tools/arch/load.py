# SPDX-License-Identifier: Apache-2.0
"""Makes the `Gpu` that findings are judged against: the card that is here, or one standing in.

Ceilings are derived: rate per cycle per SM (the architecture's) times SMs times clock (the card's), until
`warplens calibrate` has measured them on this very card (`warplens_tools.arch.ceilings`).
"""

from __future__ import annotations

import functools
import os
import re
import sys
import tomllib
from pathlib import Path

import msgspec

from warplens_tools.arch.ceilings import with_calibration
from warplens_tools.arch.gpu import Ceiling, Costs, Gpu, Limits, Rates
from warplens_tools.decode import from_builtins, from_json
from warplens_tools.errors import InputError, WarplensError
from warplens_tools.process.run import run

DEFAULT_ARCHITECTURE = "sm_90"
#: Whose costs stand in for those of an architecture where they were not measured.
_MEASURED = "sm_90"
_FOLDER = Path(__file__).parent
_QUERY_SECONDS = 30.0
#: Bytes per cycle per SM between L1 and L2 (Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via
#: Microbenchmarking", table 3.1; unchanged in later whitepapers). The L2 itself may give less: an upper bound.
_L2_BYTES_PER_CLOCK = 64
_NAME = re.compile(r"(?:sm_|compute_)?(\d+)\.?(\d)([af]?)", re.IGNORECASE)


class Card(msgspec.Struct, frozen=True):
    """The card that stands in for an architecture."""

    name: str
    multiprocessors: int
    clock_mhz: float
    memory_gib: float
    memory_gb_per_s: float
    l2_mib: float
    source: str


class Architecture(msgspec.Struct, frozen=True):
    """One TOML file."""

    title: str
    limits: Limits
    rates: Rates
    card: Card
    #: None where they were not measured.
    costs: Costs | None = None


class Device(msgspec.Struct, frozen=True):
    """What the driver says of one card that is here (`warplens_tools.arch.query`); 0 where it does not say."""

    name: str
    uuid: str
    memory_bytes: int
    major: int
    minor: int
    multiprocessors: int
    clock_khz: int
    memory_clock_khz: int
    memory_bus_bits: int
    l2_bytes: int
    shared_bytes: int
    max_shared_bytes_per_block: int
    max_blocks: int
    reserved_shared_bytes_per_block: int

    @property
    def arch(self) -> str:
        """E.g. "sm_90"."""
        return f"sm_{self.major}{self.minor}"


class DeviceQuery(msgspec.Struct, frozen=True):
    """The driver's answer; `error` says why there is no device."""

    devices: tuple[Device, ...] = ()
    #: CUDA release that the driver supports, e.g. 13000 for 13.0; 0 where it does not say.
    cuda_version: int = 0
    error: str = ""


def known_architectures() -> tuple[str, ...]:
    """Architectures with a file here, oldest first."""
    return tuple(sorted((p.stem for p in _FOLDER.glob("sm_*.toml")), key=lambda name: int(name[3:])))


def normalize_architecture(name: str) -> str:
    """ "90a", "compute_90a", "9.0" and "SM_90" as nvcc's own name, e.g. "sm_90a".

    Raises:
        InputError: it is no architecture's name.
    """
    match = _NAME.fullmatch(name.strip())
    if match is None:
        raise InputError(
            f"{name!r} is not the name of an architecture",
            remedy=f"known: {', '.join(known_architectures())}",
        )
    return f"sm_{match[1]}{match[2]}{match[3].lower()}"


def target_architecture(
    configured: str | None = None, *, present: Gpu | None = None, arch_specific: bool = False
) -> str:
    """What to compile for: the configured architecture, else the card's, else `DEFAULT_ARCHITECTURE`.

    With `arch_specific` (the unit uses CuTe, wgmma, TMA, setmaxnreg) "sm_90" becomes "sm_90a", as do later
    ones: those instructions exist only there.
    """
    arch = (
        normalize_architecture(configured)
        if configured
        else present.arch
        if present
        else DEFAULT_ARCHITECTURE
    )
    specific = arch_specific and not arch.endswith(("a", "f")) and int(arch[3:]) >= 90
    return f"{arch}a" if specific else arch


@functools.cache
def _architecture(name: str) -> Architecture:
    base = normalize_architecture(name).rstrip("af")
    path = _FOLDER / f"{base}.toml"
    if not path.is_file():
        raise InputError(
            f"the architecture {name} is not known here", remedy=f"known: {', '.join(known_architectures())}"
        )
    return from_builtins(tomllib.loads(path.read_text()), Architecture)


def load_architecture(name: str) -> Gpu:
    """A typical card of the architecture, standing in for one that is not here (`present` is False).

    Raises:
        InputError: the architecture is not known; lists those that are.
    """
    known, card = _architecture(name), _architecture(name).card
    clock = card.clock_mhz * 1e6
    source = f"{card.source}: {card.name}"
    dram = Ceiling(card.memory_gb_per_s * 1e9, "B/s", "datasheet", source)
    return Gpu(
        name=card.name,
        arch=normalize_architecture(name).rstrip("af"),
        limits=known.limits,
        rates=known.rates,
        costs=_costs(known),
        multiprocessors=card.multiprocessors,
        clock_hz=clock,
        l2_bytes=int(card.l2_mib * 2**20),
        memory_bytes=int(card.memory_gib * 2**30),
        ceilings={"dram": dram, **_derived(known.rates, known.limits, card.multiprocessors, clock, source)},
    )


def _costs(known: Architecture) -> Costs:
    found = known.costs or _architecture(_MEASURED).costs
    assert found is not None, f"{_MEASURED} has costs"
    return found


def _derived(rates: Rates, limits: Limits, count: int, clock: float, source: str) -> dict[str, Ceiling]:
    def ceiling(per_clock: float, unit: str) -> Ceiling:
        text = f"{per_clock:g} per cycle per SM x {count} SMs x {clock / 1e9:.3f} GHz ({source})"
        return Ceiling(per_clock * count * clock, unit, "derived", text)

    flops = {"fp64": rates.fp64_fma, "fp32": rates.fp32_fma, "fp16": rates.fp16_fma}
    flops |= {f"tensor_{kind}": rate for kind, rate in rates.tensor_fma.items()}
    return {
        "l2": ceiling(_L2_BYTES_PER_CLOCK, "B/s"),
        "shared": ceiling(limits.shared_banks * limits.shared_bank_bytes, "B/s"),
        # A fused multiply-add is two operations.
        **{name: ceiling(2 * rate, "FLOP/s") for name, rate in flops.items()},
        "int32": ceiling(rates.int32, "op/s"),
        "sfu": ceiling(rates.sfu, "op/s"),
    }


def device_gpu(device: Device, *, driver: str = "", present: bool = True) -> Gpu:
    """The `Gpu` of one card: its own attributes, with its architecture's rates.

    Raises:
        InputError: its architecture is not known here.
    """
    known = _architecture(device.arch)
    clock = device.clock_khz * 1e3
    source = f"attributes of {device.name}"
    ceilings = _derived(known.rates, known.limits, device.multiprocessors, clock, source)
    if device.memory_clock_khz and device.memory_bus_bits:
        # The attribute is the command clock; all of these memories move two bits per clock per pin.
        rate = 2 * device.memory_clock_khz * 1e3 * device.memory_bus_bits / 8
        text = f"2 x {device.memory_clock_khz / 1e6:.3f} GHz x {device.memory_bus_bits} bits ({source})"
        ceilings["dram"] = Ceiling(rate, "B/s", "derived", text)
    return Gpu(
        name=device.name,
        arch=device.arch,
        limits=_device_limits(known.limits, device),
        rates=known.rates,
        costs=_costs(known),
        multiprocessors=device.multiprocessors,
        clock_hz=clock,
        l2_bytes=device.l2_bytes,
        memory_bytes=device.memory_bytes,
        ceilings=ceilings,
        present=present,
        uuid=device.uuid,
        driver=driver,
    )


def _device_limits(limits: Limits, device: Device) -> Limits:
    names = ("shared_bytes", "max_shared_bytes_per_block", "max_blocks", "reserved_shared_bytes_per_block")
    own = {name: getattr(device, name) for name in names if getattr(device, name)}
    return msgspec.structs.replace(limits, **own)


def query_devices() -> DeviceQuery:
    """The cards that this process sees, asked once, in a process of its own: Ray lets one see another card later."""
    return _queried(os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("WARPLENS_DRIVER", ""))


@functools.cache
def _queried(visible: str | None, library: str) -> DeviceQuery:
    """The cards among those `visible`; the process that is asked inherits which these are.

    `library`: a driver's library to ask in the system's place, which needs no driver in the kernel: a card in software.
    """
    del visible
    loaded = any(Path(p).exists() for p in ("/dev/nvidiactl", "/dev/dxg", "/proc/driver/nvidia/version"))
    if not loaded and not library:
        return DeviceQuery(error="no NVIDIA driver is loaded")
    named = [library] if library else []
    try:
        done = run([sys.executable, "-I", "-S", _FOLDER / "query.py", *named], timeout=_QUERY_SECONDS)
        return from_json(done.stdout, DeviceQuery)
    except (WarplensError, msgspec.MsgspecError) as error:
        return DeviceQuery(error=f"the NVIDIA driver did not answer: {error}")


def driver_version() -> str:
    """The loaded kernel driver's version, e.g. "580.65.06"; "" where there is none."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        return ""
    match = re.search(r"Kernel Module\b.*?\s(\d+\.[\d.]+)", text)
    return match[1] if match else ""


def present_gpus() -> tuple[Gpu, ...]:
    """The cards that are here and whose architecture is known here, in the driver's order."""
    found = map(present_gpu, range(len(query_devices().devices)))
    return tuple(gpu for gpu in found if gpu is not None)


def present_gpu(place: int) -> Gpu | None:
    """The card at a place in the driver's order; None where there is none, or its architecture is not known here."""
    devices = query_devices().devices[place : place + 1]
    if not devices or devices[0].arch not in known_architectures():
        return None
    return with_calibration(device_gpu(devices[0], driver=driver_version()))


def load_gpu(configured: str | None = None) -> Gpu:
    """The card to judge against: a present one of the configured architecture (or any), else one standing in.

    Raises:
        InputError: the configured architecture is not known.
    """
    wanted = normalize_architecture(configured).rstrip("af") if configured else None
    for gpu in present_gpus():
        if wanted in (None, gpu.arch):
            return gpu
    return load_architecture(wanted or DEFAULT_ARCHITECTURE)
