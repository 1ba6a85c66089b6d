# SPDX-License-Identifier: Apache-2.0
"""A PTX module as one C++ file: its variables, device functions and kernels, and a table of them for the driver."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.host_card.ptx import arithmetic, control, convert, floating, memory, warp
from tests.host_card.ptx.operands import C_TYPES, Names, named
from tests.host_card.ptx.parse import (
    Declared,
    Function,
    Instruction,
    Label,
    Module,
    PtxError,
    Registers,
    Scope,
    Statement,
    Targets,
    Variable,
    parse,
    variable,
)

#: What a host has no counterpart of, by name in PTX: the driver's services.
_SERVICES = {
    "vprintf": "v = (u32)card_services->print(t, load<u64>(p[0]), load<u64>(p[1])); store<u32>(r, v);",
    "malloc": "store<u64>(r, card_services->allocate(t, load<u64>(p[0])));",
    "free": "card_services->release(t, load<u64>(p[0]));",
    "__assertfail": "card_services->fault(t, (int)Fault::assertion, 0);",
}
_ROOMS = (arithmetic, floating, convert, memory, warp, control)


def translate(text: str) -> str:
    """The C++ file.

    Raises:
        PtxError: a declaration that is not known. What is unknown in a kernel only keeps that kernel from running.
    """
    return _Writer(parse(text)).write()


@dataclass
class _Kernel:
    function: Function
    shared: int
    refused: str


class _Writer:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.lines: list[str] = []
        self.names = Names()
        self.globals = [v for v in module.variables if v.space in ("global", "const") and not v.extern]
        self.bodies = {f.name: f for f in module.functions if f.body is not None}
        self.meets = _meeting(self.bodies)
        self.base = 0
        self.dynamic: list[str] = []
        self.kernels: list[_Kernel] = []

    def write(self) -> str:
        self.lines += ['#include "device.h"', "using namespace card;", ""]
        for v in self.globals:
            self.lines.append(f"static u8* {named(v.name)};")
            self.names.addresses[v.name] = f"(u64){named(v.name)}"
        self._shared([v for v in self.module.variables if v.space == "shared"])
        self._declare_functions()
        for function in self.bodies.values():
            self._function(function)
        self._tables()
        return "\n".join(self.lines) + "\n"

    def _shared(self, variables: list[Variable]) -> None:
        for v in variables:
            if v.extern or v.bytes == 0:
                self.dynamic.append(v.name)
                continue
            self.base = -(-self.base // v.align) * v.align
            self.names.addresses[v.name] = f"{self.base}ull"
            self.base += v.bytes

    def _declare_functions(self) -> None:
        seen: set[str] = set()
        for f in self.module.functions:
            if f.entry or f.name in seen:
                continue
            seen.add(f.name)
            self.names.addresses[f.name] = f"(u64)&f_{named(f.name)}"
            given = "Thread* t, u8* r, u8** p"
            if f.name in self.bodies:
                self.lines.append(f"static void f_{named(f.name)}({given});")
            elif f.name in _SERVICES:
                self.lines.append(f"static void f_{named(f.name)}({given}) {{ u32 v; {_SERVICES[f.name]} }}")
            else:
                unknown = "card_services->fault(t, (int)Fault::unsupported, 0);"
                self.lines.append(f"static void f_{named(f.name)}({given}) {{ {unknown} }}")

    def _function(self, function: Function) -> None:
        outer = dict(self.names.addresses)
        for number, p in enumerate(function.parameters):
            self.names.addresses[p.name] = f"(u64)p[{number}]"
        if function.entry:
            for p, offset in zip(function.parameters, _offsets(function.parameters), strict=True):
                self.names.addresses[p.name] = f"((u64)params + {offset})"
        for p in function.results:
            self.names.addresses[p.name] = "(u64)r"
        shared, refused = self.base, ""
        try:
            shared = self._place(function)
            body = [line for s in function.body or [] for line in self._statement(s)]
        except PtxError as error:
            refused = str(error)
            body = ["card_services->fault(t, (int)Fault::unsupported, 0);"]
        finally:
            self.names.addresses = outer
            self.names.scopes = [{}]
        if function.entry:
            self.kernels.append(_Kernel(function, shared, refused))
            self.lines.append(f"static void k_{named(function.name)}(Thread* t, const u8* params) {{")
        else:
            self.lines.append(f"static void f_{named(function.name)}(Thread* t, u8* r, u8** p) {{")
        self.lines += ["  " + line for line in body] + ["}"]

    def _place(self, function: Function) -> int:
        """Give the function's own shared variables their places, dynamic memory behind them; the bytes of all."""
        end = self.base
        for s in function.body or []:
            if isinstance(s, Declared) and s.variable.space == "shared":
                if s.variable.bytes == 0:
                    self.names.addresses[s.variable.name] = "DYNAMIC"
                    continue
                end = -(-end // s.variable.align) * s.variable.align
                self.names.addresses[s.variable.name] = f"{end}ull"
                end += s.variable.bytes
        end = -(-end // 16) * 16
        # a device function finds it by the block alone
        start = f"{end}ull" if function.entry else "(u64)(t->block->shared_bytes - t->block->dynamic_bytes)"
        for name in self.dynamic:
            self.names.addresses[name] = start
        for name, place in self.names.addresses.items():
            if place == "DYNAMIC":
                self.names.addresses[name] = start
        return end

    def _statement(self, s: Statement) -> list[str]:
        if isinstance(s, Scope):
            if s.opens:
                self.names.scopes.append({})
            else:
                self.names.scopes.pop()
            return ["{" if s.opens else "}"]
        if isinstance(s, Label):
            return [f"{named(s.name)}:;"]
        if isinstance(s, Registers):
            for name in s.names:
                self.names.scopes[-1][name] = C_TYPES[s.type]
            declared = [named(n) for n in s.names]
            return [f"{C_TYPES[s.type]} {', '.join(declared)};"] if declared else []
        if isinstance(s, Declared):
            return self._declared(s.variable)
        if isinstance(s, Targets):
            control.note(self.names, s)
            return []
        return [self._instruction(s)]

    def _declared(self, v: Variable) -> list[str]:
        if v.space == "shared":
            return []
        self.names.addresses[v.name] = f"(u64){named(v.name)}"
        return [f"alignas({max(v.align, 8)}) u8 {named(v.name)}[{max(v.bytes, 8)}];"]

    def _instruction(self, i: Instruction) -> str:
        for room in _ROOMS:
            write = room.INSTRUCTIONS.get(i.op)
            if write is not None:
                try:
                    code = write(i, self.names)
                except (KeyError, IndexError, ValueError) as error:
                    raise PtxError(
                        f"the instruction {i} {', '.join(i.operands)} is not known ({error!r})"
                    ) from error
                guard = f"{'!' if i.negated else ''}{named(i.guard)}"
                return f"if ({guard}) {{ {code} }}" if i.guard else code
        raise PtxError(f"the instruction {i} is not known")

    def _tables(self) -> None:
        entries = []
        for k in self.kernels:
            name, f = named(k.function.name), k.function
            places = ", ".join(
                f"{{{o}, {p.bytes}}}" for p, o in zip(f.parameters, _offsets(f.parameters), strict=True)
            )
            self.lines.append(f"static const Parameter p_{name}[] = {{{places or '{0, 0}'}}};")
            bounds = f.directives.get("maxntid") or f.directives.get("reqntid") or [1024]
            most = 1
            for bound in bounds:
                most *= bound
            meets = "true" if f.name in self.meets else "false"
            refused = (
                '"' + k.refused.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") + '"'
                if k.refused
                else "nullptr"
            )
            entries.append(
                f'{{"{f.name}", k_{name}, {k.shared}, {meets}, p_{name}, {len(f.parameters)}, {most}, {refused}}}'
            )
        self.lines.append(f"static const Kernel kernels[] = {{{', '.join(entries) or '{}'}}};")
        variables = [self._variable(v) for v in self.globals]
        self.lines.append(f"static Variable variables[] = {{{', '.join(variables) or '{}'}}};")
        table = f"{{kernels, {len(entries)}, variables, {len(variables)}, &card_services}}"
        self.lines.append(
            f'extern "C" __attribute__((visibility("default"))) const Module card_module = {table};'
        )

    def _variable(self, v: Variable) -> str:
        name, initial, relocations = named(v.name), "nullptr", "nullptr"
        data, places = _initial(v, {g.name for g in self.globals})
        if any(data):
            written = ",".join(str(b) for b in data)
            self.lines.append(f"static const u8 i_{name}[] = {{{written}}};")
            initial = f"i_{name}"
        if places:
            self.lines.append(f"static const Relocation r_{name}[] = {{{', '.join(places)}}};")
            relocations = f"r_{name}"
        constant = "true" if v.space == "const" else "false"
        return f'{{"{v.name}", {v.bytes}, {v.align}, {initial}, &{name}, {relocations}, {len(places)}, {constant}}}'


def _offsets(parameters: list[Variable]) -> list[int]:
    """Where each lies in the parameters' memory."""
    found, at = [], 0
    for p in parameters:
        align = max(p.align, 1)
        at = -(-at // align) * align
        found.append(at)
        at += p.bytes
    return found


_BYTE_OF = re.compile(r"0xFF(?:00)*\((.*)\)$")


def _initial(v: Variable, known: set[str]) -> tuple[bytearray, list[str]]:
    """A variable's first bytes, and what of them the driver fills in: addresses of others."""
    data, places = bytearray(v.bytes), []
    each = v.bytes // v.count if v.count else 0
    for number, value in enumerate(v.values):
        word, at = value.strip(), number * each
        if _BYTE_OF.match(word):
            raise PtxError(f"{v.name} holds parts of an address, which is not done here")
        if re.match(r"0[fF][0-9a-fA-F]{8}$", word) or re.match(r"0[dD][0-9a-fA-F]{16}$", word):
            data[at : at + each] = int(word[2:], 16).to_bytes(each, "little")
        elif re.match(r"-?(0x)?[0-9a-fA-F]+U?$", word) and not word.isidentifier():
            data[at : at + each] = (int(word.rstrip("U"), 0) & (1 << 8 * each) - 1).to_bytes(each, "little")
        else:
            inner = re.sub(r"generic\(([^)]*)\)", r"\1", word)
            base, _, offset = inner.partition("+")
            base = base.strip()
            where = f"&{named(base)}, nullptr" if base in known else f"nullptr, (void (*)())&f_{named(base)}"
            places.append(f"{{{at}, {where}, {int(offset or 0)}}}")
    return data, places


_MEETING = {
    "bar",
    "barrier",
    "shfl",
    "vote",
    "match",
    "redux",
    "activemask",
    "wmma",
    "mma",
    "ldmatrix",
    "elect",
    "nanosleep",
}


def _meeting(bodies: dict[str, Function]) -> set[str]:
    """The functions whose threads may wait for others: by themselves, or in what they call."""
    calls: dict[str, set[str]] = {}
    found: set[str] = set()
    for name, function in bodies.items():
        calls[name] = set()
        for s in function.body or []:
            if not isinstance(s, Instruction):
                continue
            if s.op in _MEETING or ({"volatile", "acquire", "relaxed"} & set(s.modifiers) and s.op == "ld"):
                found.add(name)
            elif s.op == "call":
                callee = {w for w in s.operands if w in bodies}
                calls[name] |= callee
                if not callee and any(w.startswith("%") for w in s.operands):
                    found.add(name)
    while grown := {n for n, c in calls.items() if n not in found and c & found}:
        found |= grown
    return found


__all__ = ["translate", "variable"]
