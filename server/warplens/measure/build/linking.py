# SPDX-License-Identifier: Apache-2.0
"""Units whose device code is linked with others': with the relocatable code that the built program itself carries.

What the other units compile to is thus exactly what the program runs, whatever built it; a candidate brings its own
unit alone. A candidate's cubin has copies of the other units' variables, which stand for the program's as its own do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from warplens_tools.errors import InputError
from warplens_tools.evidence import CompiledKernel
from warplens_tools.toolchain.demangle import demangle
from warplens_tools.toolchain.flags import CompileFlags
from warplens_tools.toolchain.link import LINK_TIME, LinkReport, carried_kinds
from warplens_tools.toolchain.symbols import Symbols, code_digest, symbols, unit_free_name, variables

#: Functions of the device runtime, by which kernels launch kernels: since CUDA 12 and before.
_RUNTIME = ("__cudaCDP2", "cudaLaunchDevice", "cudaGetParameterBuffer")
#: nvcc's mark of a name that is local to a unit: a hash and the file's name after its length.
_LOCAL = re.compile(r"(?:_GLOBAL__N__|_INTERNAL_|__nv_static_\d+__)[0-9a-f]{8}_(\d+)_")
_RELOCATABLE = ("-rdc=true", "--relocatable-device-code=true", "-dc", "--device-c")
_LINK_TIME = ("-dlto", "--dlink-time-opt", "-ltoir", "-lto")


class Linked(msgspec.Struct, frozen=True):
    """What a unit of a program is linked with."""

    #: The unit's relocatable cubin in the program, which a candidate's takes the place of.
    own: str
    #: All others', in the program's order.
    others: tuple[str, ...]
    #: The unit's place among all.
    place: int
    #: Some unit of the program launches kernels from the device.
    launches: bool = False

    def inputs(self, unit: str, *, first: bool) -> tuple[Path, ...]:
        """What to link, with `unit` in the place of the program's own: of a weak definition the first counts.

        `first` puts it before all others: an edited header's templates, which others still have as they were.
        """
        place = 0 if first else self.place
        return tuple(Path(path) for path in (*self.others[:place], unit, *self.others[place:]))


def loadable(flags: CompileFlags) -> CompileFlags:
    """Without relocatable device code, whose cubin could not be loaded by itself."""
    arguments = tuple(word for word in flags.arguments if word not in _RELOCATABLE)
    return msgspec.structs.replace(flags, arguments=arguments)


def asks_linking(flags: CompileFlags) -> bool:
    """Whether a unit's own flags make its device code relocatable."""
    return any(word in _RELOCATABLE for word in flags.arguments)


def relocatable(flags: CompileFlags, program: bytes) -> CompileFlags:
    """The same with relocatable device code.

    Raises:
        InputError: the flags, or what the built program carries, are for optimisation at link time.
    """
    if any(word.startswith(_LINK_TIME) for word in flags.arguments) or LINK_TIME in carried_kinds(program):
        raise InputError(
            "the program's device code is optimised at link time (-dlto), which cannot be done for a candidate alone",
            remedy="build the program without -dlto to measure it",
        )
    plain = loadable(flags)
    return msgspec.structs.replace(plain, arguments=(*plain.arguments, "-rdc=true"))


def companions(unit: bytes, entries: Sequence[str], carried: Sequence[Path]) -> Linked | None:
    """What `unit`, compiled relocatable to the kernels `entries`, is linked with in a program of `carried`.

    None where the program has the unit, if at all, as code that is whole by itself.

    Raises:
        InputError: several of the program's units could be it.
    """
    mine = _own_names(symbols(unit))
    theirs = {path: symbols(path.read_bytes()) for path in carried}
    equal = [path for path, found in theirs.items() if _own_names(found) == mine]
    # what is inlined, and then not defined, may differ with the build's options; kernels do not
    kernels = {_own_name(name) for name in entries}
    similar = [path for path, found in theirs.items() if kernels and kernels <= _own_names(found)]
    candidates = equal or similar
    if not candidates:
        return None
    if len(candidates) > 1:
        raise InputError(
            f"{len(candidates)} units of the program define the same device code as this one",
            remedy="give each a name of its own, so that it is known which is edited",
        )
    (own,) = candidates
    return Linked(
        own=str(own),
        others=tuple(str(path) for path in carried if path != own),
        place=carried.index(own),
        launches=any(calls_runtime(s) for s in theirs.values() if not _is_runtime(s)),
    )


def calls_runtime(found: Symbols) -> bool:
    """Whether a unit launches kernels, or copies, from the device."""
    return any(name.startswith(_RUNTIME) for name in found.called)


def changed_companion(linked: Linked, rebuilt: Sequence[Path]) -> str:
    """What of the other units' code a rebuilt program of `rebuilt` has not as it was linked; "" if it has all.

    An edited header may be other units' too; the candidate was judged with their code as it was.
    """
    others = [path for number, path in enumerate(rebuilt) if number != linked.place]
    if len(others) != len(linked.others):
        return (
            f"the rebuilt program is linked of {len(rebuilt)} units, the original of {len(linked.others) + 1}"
        )
    for old, new in zip(linked.others, others, strict=True):
        before, after = Path(old).read_bytes(), new.read_bytes()
        if not same_code(before, after):
            return f"the edit also changes the unit with {_first_name(before)}, with which it was not judged"
    return ""


def same_code(before: bytes, after: bytes) -> bool:
    """Whether two compilations of a unit hold the same code and call the same functions."""
    old, new = symbols(before), symbols(after)
    names = _own_names(old) == _own_names(new) and old.called == new.called
    return names and code_digest(before, attributes=False) == code_digest(after, attributes=False)


def _first_name(cubin: bytes) -> str:
    return next((demangle(n) for n in sorted(symbols(cubin).defined) if not n.startswith("$")), "no code")


def live_variables(linked: Linked, unit: bytes) -> dict[str, str]:
    """For the variables of `unit` and of the units it is linked with, the running program's names for them.

    The device runtime's own are the driver's business and left out.
    """
    own = {unit_free_name(v.name): v.name for v in variables(Path(linked.own).read_bytes())}
    live = {v.name: own.get(unit_free_name(v.name), "") for v in variables(unit)}
    for path in linked.others:
        cubin = Path(path).read_bytes()
        if not _is_runtime(symbols(cubin)):
            live |= {v.name: v.name for v in variables(cubin) if not v.name.startswith("$")}
    return live


def with_report(
    kernels: Sequence[CompiledKernel], report: Sequence[LinkReport]
) -> tuple[CompiledKernel, ...]:
    """The kernels with the resources that they have once what they call is known."""
    by_name = {r.name: r for r in report}
    found = []
    for kernel in kernels:
        said = by_name.get(kernel.mangled)
        resources = kernel.resources
        if said is not None:
            resources = msgspec.structs.replace(
                resources,
                registers=said.registers,
                stack_bytes=max(said.stack_bytes, resources.stack_bytes),
                shared_bytes=said.shared_bytes,
            )
        found.append(msgspec.structs.replace(kernel, resources=resources))
    return tuple(found)


def _is_runtime(found: Symbols) -> bool:
    return any(name.startswith(_RUNTIME) for name in found.defined)


def _own_names(found: Symbols) -> frozenset[str]:
    # the compiler's own helpers come and go with what it inlines
    names = (name for name in found.defined if not name.startswith(("$", "__cuda_", "__internal_")))
    return frozenset(_own_name(name) for name in names)


def _own_name(mangled: str) -> str:
    """A name as one compilation and the next agree on it: what is static is told apart by its file."""
    mark = _LOCAL.search(mangled)
    file = mangled[mark.end() :][: int(mark[1])] if mark is not None else ""
    return f"{file}:{unit_free_name(mangled)}"
