# SPDX-License-Identifier: Apache-2.0
"""Who else depends on a constant: whether changing it changes only how a kernel is launched and tiled."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from tree_sitter import Node

from warplens_tools.cuda.model import Constant
from warplens_tools.cuda.syntax.functions import functions_of
from warplens_tools.cuda.values.bindings import Binding
from warplens_tools.tunable.source import File, Site, TunedKernel

_GUARD = re.compile(r"^\s*#\s*(?:ifndef|ifdef|endif)\b")
_DECLARATIONS = frozenset({"init_declarator", "function_declarator"})


class Uses:
    """Where the numbers behind one kernel's launches are used.

    Harmless are: the kernel itself and device functions, the configuration of its launches, variables that
    only serve these or divide by the name (the usual count of blocks), other constants with harmless uses,
    static assertions and include guards.
    """

    def __init__(self, kernel: TunedKernel, company: Collection[str] = ()) -> None:
        """`company` are other kernels, by name, that may change with it."""
        self.kernel, self.file, self._company = kernel, kernel.file, frozenset(company)

    def beyond(self, name: str, definition: tuple[int, int], scope: tuple[int, int] | None = None) -> str:
        """The first use of `name` in `scope` that a change would reach beyond kernel and launches; "" if none."""
        for at in _found(self.file, name, scope or (0, len(self.file.code))):
            if definition[0] <= at < definition[1]:
                continue
            reason = self._reason(name, at)
            if reason:
                return f"line {self.file.line(at)} {reason}"
        return ""

    def of_variable(self, variable: Binding) -> str:
        """As `beyond`, of a local variable."""
        return self.beyond(variable.name, variable.declaration, (variable.start, variable.end))

    def _reason(self, name: str, at: int) -> str:
        start, end = self.file.range(self.kernel.kernel.span)
        if start <= at < end or self._is_device_code(at) or _is_harmless_line(self.file.code, at):
            return ""
        others = (k for k in self.file.model.kernels if k != self.kernel.kernel)
        other = next((k for k in others if _inside(self.file.range(k.span), at)), None)
        if other is not None:
            return "" if other.name in self._company else f"uses it in kernel {other.name}"
        for site in self.file.sites:
            if site.call.start_byte <= at < site.configuration.end_byte:
                return self._launched(site, "it")
        constant = self._defined_at(at)
        if constant is not None:
            return self.beyond(constant.name, self.file.range(constant.span))
        return self._host_reason(name, at)

    def _launched(self, site: Site, name: str) -> str:
        mine = site in self.kernel.sites or site.launch.kernel_name in self._company
        return "" if mine else f"launches {site.launch.kernel_name} with {name}"

    def _is_device_code(self, at: int) -> bool:
        functions = functions_of(self.file.tree)
        return any(f.is_device and f.body.start_byte <= at < f.body.end_byte for f in functions)

    def _defined_at(self, at: int) -> Constant | None:
        """The file-scope constant whose definition `at` stands in; those of host functions are variables."""
        if self.file.tree.function_at(at, at) is not None:
            return None
        return next((c for c in self.file.model.constants if _inside(self.file.range(c.span), at)), None)

    def _host_reason(self, name: str, at: int) -> str:
        """Host code outside a launch: harmless in what only a launch of this kernel reads."""
        node = self.file.tree.root.descendant_for_byte_range(at, at + len(name))
        declared = _declared_around(self.file, node) if node is not None else None
        if node is None or declared is None:
            return "uses it in host code"
        variable, declaration = declared
        if variable == name and node.parent is not None and node.parent.id == declaration.id:
            return ""
        for site in self.file.sites:
            if variable in site.names and _within(node, site.host):
                elsewhere = self._launched(site, variable)
                if elsewhere:
                    return elsewhere
                if self.file.divides(declaration, node) or self._only_configures(site, variable):
                    return ""
        return "uses it in host code"

    def _only_configures(self, site: Site, variable: str) -> bool:
        """Whether a host variable is read nowhere but in launches and in other variables of the launch."""
        host = site.host if site.host is not None else self.file.tree.root
        for at in _found(self.file, variable, (host.start_byte, host.end_byte)):
            node = self.file.tree.root.descendant_for_byte_range(at, at + len(variable))
            if any(s.call.start_byte <= at < s.configuration.end_byte for s in self.file.sites):
                continue
            declared = _declared_around(self.file, node) if node is not None else None
            if declared is None or declared[0] not in site.names:
                return False
        return True


def _found(file: File, name: str, within: tuple[int, int]) -> Iterator[int]:
    """Offsets of a name in the code, directives included."""
    for found in re.finditer(rf"(?<![\w.])(?:\w+::)*({re.escape(name)})\b", file.code[: within[1]]):
        if found.start(1) >= within[0]:
            yield found.start(1)


def _declared_around(file: File, node: Node) -> tuple[str, Node] | None:
    """The variable whose declaration a node stands in, and its declarator."""
    current: Node | None = node
    while current is not None and current.type not in ("compound_statement", "translation_unit"):
        name = current.child_by_field_name("declarator") if current.type in _DECLARATIONS else None
        if name is not None and name.type == "identifier":
            return file.tree.code_of(name), current
        current = current.parent
    return None


def _within(node: Node, host: Node | None) -> bool:
    return host is not None and host.start_byte <= node.start_byte < host.end_byte


def _is_harmless_line(code: str, at: int) -> bool:
    start, end = code.rfind("\n", 0, at) + 1, code.find("\n", at)
    line = code[start : end if end >= 0 else len(code)]
    return bool(_GUARD.match(line)) or "static_assert" in line


def _inside(span: tuple[int, int], at: int) -> bool:
    return span[0] <= at < span[1]
