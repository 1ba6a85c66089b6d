# SPDX-License-Identifier: Apache-2.0
"""A first launch spec for a kernel, from its parameters and from what host code of the same file does with it.

What cannot be told is a guess that a person corrects: it is written out, not left to a default.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from warplens_tools.cuda.facts.accesses import accesses
from warplens_tools.cuda.facts.read_only import only_read
from warplens_tools.cuda.model import Constant, Kernel, LaunchSite, Parameter, SourceModel
from warplens_tools.cuda.parse import parse
from warplens_tools.cuda.syntax.lexical import split_arguments
from warplens_tools.cuda.syntax.tree import SourceTree, parse_tree
from warplens_tools.cuda.values.constants import constants_of, layouts_of
from warplens_tools.text import SourceText, Span, TextEdit

_NAME = re.compile(r"[A-Za-z_]\w*")
_INTEGERS = re.compile(r"\b(?:int|unsigned|long|short|size_t|u?int(?:8|16|32|64)_t|ptrdiff_t|ssize_t|uint)\b")
_FLOATS = re.compile(r"\b(?:float|double|__?half|__nv_bfloat16|nv_bfloat16|bfloat16)\b")
_NUMBER = re.compile(r"[-+]?(?:\d[\d.]*|\.\d+)(?:[eE][-+]?\d+)?[fFuUlL]*")
#: Sizes by how many there are: any array may hold the product of all, and shall fit.
_SIZES = {1: 1 << 20, 2: 2048, 3: 256}
_MANY = 64
#: A size that filling an array for every launch still takes less than a second for.
_LARGEST = 1 << 25
_DEPTH = 4
#: A `__constant__` array that nothing initialises.
_CONSTANT_ARRAY = re.compile(r"\b__constant__\s+[^;={(]*?(\w+)\s*\[([^\]]+)\](?:\s*\[[^\]]+\])*\s*;")


class Inferred(msgspec.Struct):
    """A spec in the making. Values are TOML."""

    template: list[str] = []
    shapes: list[dict[str, int]] = []
    grid: list[str] = []
    block: list[str] = []
    shared: str = ""
    arguments: dict[str, str] = {}
    symbols: dict[str, str] = {}


def inferred(text: SourceText, path: str, kernel: Kernel) -> Inferred:
    """What can be said of how a kernel is launched."""
    return _Inference(text, parse(text, path), parse_tree(text), kernel).run()


def comment_edit(text: SourceText, kernel: Kernel, spec: Inferred) -> TextEdit:
    """Puts the spec as a comment above its kernel."""
    indent = text.margin(kernel.span.line)
    body = ["/* warplens: launch", *toml(spec), "*/"]
    said = "".join(f"{indent}{row}{text.newline}" for row in body)
    return TextEdit(Span(kernel.span.line, 1, kernel.span.line, 1), said)


def toml(spec: Inferred) -> Iterator[str]:
    """The lines of a spec."""
    if spec.template:
        yield f"template = [{', '.join(map(_quoted, spec.template))}]"
    if any(spec.shapes):
        shapes = ", ".join("{ " + ", ".join(f"{k} = {v}" for k, v in s.items()) + " }" for s in spec.shapes)
        yield f"shapes = [{shapes}]"
    yield f"grid = {_extents(spec.grid)}"
    yield f"block = {_extents(spec.block)}"
    if spec.shared:
        yield f"shared = {_quoted(spec.shared)}"
    for name, value in spec.arguments.items():
        yield f"arguments.{name} = {value}"
    for name, value in spec.symbols.items():
        yield f"symbols.{name} = {value}"


def _extents(extents: Sequence[str]) -> str:
    said = [_quoted(e) for e in extents]
    return said[0] if len(said) == 1 else f"[{', '.join(said)}]"


def _quoted(expression: str) -> str:
    """A value of TOML: a whole number as it is, any other expression as a text."""
    expression = " ".join(expression.split()).replace("*/", "* /")
    if re.fullmatch(r"\d{1,18}", expression):
        return expression
    return '"' + expression.replace("\\", "\\\\").replace('"', '\\"') + '"'


class _Inference:
    def __init__(self, text: SourceText, model: SourceModel, tree: SourceTree, kernel: Kernel) -> None:
        self.text, self.model, self.tree, self.kernel = text, model, tree, kernel
        self.site = next(iter(model.launches_of(kernel)), None)
        self.sizes = [p for p in kernel.parameters if p.name and _is_integer(p)]
        self.known = {p.name for p in self.sizes} | {c.name for c in model.constants if self._global(c)}
        self.records = layouts_of(tree).records

    def run(self) -> Inferred:
        spec = Inferred()
        spec.template = self._template()
        spec.shapes = self._shapes()
        self._geometry(spec)
        read = only_read(self.tree, self.kernel)
        reads = {a.name for a in accesses(self.tree, self.kernel) if a.reads}
        for index, parameter in enumerate(self.kernel.parameters):
            if parameter in self.sizes:
                continue
            name = parameter.name or f"argument{index}"
            if "*" in parameter.type:
                spec.arguments[name] = self._data(
                    index, parameter, zeros=name not in read and name not in reads
                )
            else:
                spec.arguments[name] = self._value(index, parameter)
        spec.symbols = self._symbols()
        return spec

    def _global(self, constant: Constant) -> bool:
        """Whether a constant stands where other functions see it."""
        if constant.kind == "define":
            return True
        span = constant.span
        at = len(self.text.text[: self.text.offset(span.line, span.column)].encode())
        node = self.tree.root.descendant_for_byte_range(at, at + 1)
        while node is not None and node.type not in ("compound_statement", "field_declaration_list"):
            node = node.parent
        return node is None

    def _template(self) -> list[str]:
        if not self.kernel.template_parameters:
            return []
        if (
            self.site is not None
            and self.site.template_arguments
            and self._resolved_all(self.site.template_arguments)
        ):
            return list(self.site.template_arguments)
        head = self.text.slice(self.kernel.span).split("__global__")[0]
        types = re.findall(r"\b(?:typename|class)\s+(\w+)", head)
        return ["float" if name in types else "256" for name in self.kernel.template_parameters]

    def _resolved_all(self, words: Sequence[str]) -> bool:
        """Whether the file alone says what these mean."""
        types = _INTEGERS.sub("", _FLOATS.sub("", " ".join(words)))
        names = set(_NAME.findall(types)) - {"true", "false", "const", "bool", "char", "signed", "void"}
        return names <= self.known | set(self.records)

    def _shapes(self) -> list[dict[str, int]]:
        if not self.sizes:
            return []
        common = _SIZES.get(len(self.sizes), _MANY)
        first = {p.name: self._constant(p) or common for p in self.sizes}
        # a size that no block divides shows what the edges cost, and whether they are right
        second = {name: value - 37 if value > 64 else value for name, value in first.items()}
        return [first, second] if second != first else [first]

    def _constant(self, parameter: Parameter) -> int | None:
        """The number that the launch passes for a parameter, where the file fixes one."""
        given = self._passed(self.kernel.parameters.index(parameter))
        if not given or self.site is None:
            return None
        at = len(self.text.text[: self.text.offset(self.site.span.line, self.site.span.column)].encode())
        found = constants_of(self.tree).value(given, at)
        return found if found is not None and 0 < found <= _LARGEST else None

    def _passed(self, index: int) -> str:
        if self.site is None or index >= len(self.site.arguments):
            return ""
        return self.site.arguments[index].strip()

    def _geometry(self, spec: Inferred) -> None:
        site = self.site
        block = self._extents_of(site, "block") if site is not None else None
        grid = self._extents_of(site, "grid") if site is not None else None
        two = (
            len(self.sizes) > 1
            and re.search(r"\bthreadIdx\s*\.\s*y\b", self.text.slice(self.kernel.body)) is not None
        )
        spec.block = block or (["16", "16"] if two else ["256"])
        if grid is not None:
            spec.grid = grid
        elif not self.sizes:
            spec.grid = ["1024"]
        else:
            names = [p.name for p in self.sizes]
            many = list(reversed(names[: len(spec.block)])) if two else names[:1]
            spec.grid = [f"({n} + {b} - 1) / {b}" for n, b in zip(many, spec.block, strict=False)]
        if site is not None and site.shared.strip() not in ("", "0"):
            spec.shared = self._resolve(site.shared) or "48 * 1024"
        elif any(a.dynamic for a in self.kernel.arrays):
            spec.shared = "48 * 1024"

    def _extents_of(self, site: LaunchSite, which: str) -> list[str] | None:
        """The extents of a launch's grid or block, as expressions in the sizes and the file's constants."""
        written = self._written(getattr(site, which))
        match = re.fullmatch(r"dim3\s*[({](.*)[)}]", written, re.DOTALL)
        parts = split_arguments(match[1]) if match else [written]
        resolved = [self._resolve(part) for part in parts if part.strip()]
        if not resolved or any(part is None for part in resolved):
            return None
        return [part for part in resolved if part is not None]

    def _written(self, expression: str) -> str:
        """A `dim3` variable as it is initialised."""
        if not _NAME.fullmatch(expression.strip()):
            return expression
        found = re.search(
            rf"\bdim3\s+(?:[\w\s(){{}},+*/-]*?,\s*)?{re.escape(expression.strip())}\s*(?:=\s*dim3\s*)?([({{].*?[)}}])\s*[;,]",
            self._host(),
            re.DOTALL,
        )
        return f"dim3{found[1]}" if found else expression

    def _host(self) -> str:
        """The host function that launches it, up to the launch; else the whole file."""
        if self.site is None:
            return self.text.text
        before = self.text.slice(Span(1, 1, self.site.span.line, self.site.span.column))
        if self.site.host_function:
            at = before.rfind(self.site.host_function.rsplit("::", 1)[-1])
            return before[max(at, 0) :]
        return before

    def _resolve(self, expression: str) -> str | None:
        """The expression in names that a generated program knows; None where there is none."""
        passed = self._renamed()
        for _ in range(_DEPTH):
            unknown = [n for n in dict.fromkeys(_names(expression)) if n not in self.known]
            if not unknown:
                return expression.strip()
            for name in unknown:
                value = passed.get(name) or self._defined(name)
                if value is None:
                    return None
                plain = value if _NAME.fullmatch(value) or _NUMBER.fullmatch(value) else f"({value})"
                expression = re.sub(rf"(?<![\w.]){re.escape(name)}\b", lambda _, v=plain: v, expression)  # type: ignore[misc]
        return None

    def _renamed(self) -> Mapping[str, str]:
        """What host code calls the sizes that it passes."""
        found: dict[str, str] = {}
        for index, parameter in enumerate(self.kernel.parameters):
            given = re.sub(
                r"^(?:\(\s*(?:unsigned\s+)?\w+\s*\)|static_cast<[^>]*>)\s*", "", self._passed(index)
            ).strip("() ")
            if parameter in self.sizes and _NAME.fullmatch(given):
                found.setdefault(given, parameter.name)
        return found

    def _defined(self, name: str) -> str | None:
        """What a local variable of the host function is set to, where it is set once."""
        found = re.findall(
            rf"\b(?:const\s+|constexpr\s+)*(?:unsigned|int|auto|long|size_t|std::size_t|u?int\d+_t|uint)"
            rf"(?:\s+\w+)?\s+{re.escape(name)}\s*=\s*([^;,]+?(?:\([^;]*?\))?[^;,]*)[;,]",
            self._host(),
        )
        return found[0].strip() if len(found) == 1 else None

    def _data(self, index: int, parameter: Parameter, *, zeros: bool) -> str:
        said = [f"count = {_quoted(self._count(index, parameter))}"]
        last = parameter.element_type.split()[-1:] if parameter.element_type else []
        if last == ["void"]:
            said.append('type = "float"')
        if parameter.type.count("*") > 1:
            said = ["count = 16", f"each = {_quoted(self._product())}"]
        record = self.records.get(last[0].rsplit("::", 1)[-1]) if last else None
        if record is not None and any(m.pointer or "*" in m.type for m in record.members):
            said.append('type = "fill in: an element type without pointers"')
        if zeros:
            said.append('fill = "zeros"')
        return "{ " + ", ".join(said) + " }"

    def _count(self, index: int, parameter: Parameter) -> str:
        """Elements of an array: as host code allocates it, else as many as its indices could ask for."""
        given = re.sub(r"^.*?([A-Za-z_]\w*)\W*$", r"\1", self._passed(index)) if self._passed(index) else ""
        if given:
            found = re.search(
                rf"cudaMalloc(?:Managed|Async)?\s*\(\s*(?:\(\s*void\s*\*\*\s*\)|reinterpret_cast<void\s*\*\*>\s*\()?\s*&\s*"
                rf"{re.escape(given)}\s*\)?\s*,([^;]*)\)",
                self.text.text,
            )
            if found:
                bytes_ = self._inlined(found[1])
                pattern = r"\(?\s*sizeof\s*(?:\([^()]*\)|\*?\s*\w+)\s*\)?"
                left = re.sub(rf"{pattern}\s*\*|\*\s*{pattern}", " ", bytes_, count=1)
                resolved = self._resolve(left) if left != bytes_ else None
                if resolved:
                    return resolved
        return self._product(self._strides(parameter.name))

    def _strides(self, name: str) -> list[str]:
        """The sizes that the indices of an array are made of, through local variables."""
        body = self.text.slice(self.kernel.body)
        sizes = [p.name for p in self.sizes]
        words = " ".join(w for a in accesses(self.tree, self.kernel) if a.name == name for w in a.indices)
        seen: set[str] = set()
        for _ in range(_DEPTH):
            new = [n for n in dict.fromkeys(_NAME.findall(words)) if n not in seen and n not in sizes]
            seen.update(new)
            for local in new:
                words += " " + " ".join(re.findall(rf"\b{re.escape(local)}\s*\+?=\s*([^=;][^;]*);", body))
        # a size that is only compared with is no stride, and stands in no index
        return [s for s in sizes if re.search(rf"\b{re.escape(s)}\b", words)]

    def _inlined(self, expression: str) -> str:
        """Bytes that host code keeps in a variable."""
        name = expression.strip().split(",")[0].strip()
        return (self._defined(name) or name) if _NAME.fullmatch(name) else expression

    def _product(self, strides: Sequence[str] = ()) -> str:
        """Elements that an array of these strides may have: their product, times the largest of the other sizes."""
        first = self._shapes()[0] if self.sizes else {}
        others = sorted((n for n in first if n not in strides), key=lambda n: -first[n])
        names = [*strides, *others[: 1 if strides else 2]]
        if len(names) > 1:
            # an int overflows sooner than memory does
            return "1ll * " + " * ".join(names)
        return names[0] if names else str(1 << 20)

    def _value(self, index: int, parameter: Parameter) -> str:
        given = self._passed(index)
        if _NUMBER.fullmatch(given) or given in ("true", "false"):
            return _quoted(given) if given not in ("true", "false") else given
        if re.search(r"\bbool\b", parameter.type):
            return "true"
        if _FLOATS.search(parameter.type):
            return "0.75"
        record = self.records.get(parameter.element_type.split()[-1].rsplit("::", 1)[-1])
        if record is not None:
            members = (
                "nullptr" if m.pointer else "256" if _INTEGERS.search(m.type) else "0.75f"
                for m in record.members
            )
            if all(_INTEGERS.search(m.type) or _FLOATS.search(m.type) or m.pointer for m in record.members):
                return _quoted("{" + ", ".join(members) + "}")
        return _quoted("{}") if record is not None else "0.75"

    def _symbols(self) -> dict[str, str]:
        """`__constant__` arrays that the kernel names and nothing in the file initialises."""
        body = self.text.slice(self.kernel.body)
        found = _CONSTANT_ARRAY.findall(self.text.text)
        return {
            name: f"{{ count = {_quoted(count)} }}"
            for name, count in found
            if re.search(rf"\b{name}\b", body)
        }


def _is_integer(parameter: Parameter) -> bool:
    return (
        "*" not in parameter.type
        and "&" not in parameter.type
        and _INTEGERS.search(parameter.type) is not None
    )


def _names(expression: str) -> list[str]:
    """Names in an expression that mean a value: no members, types or suffixes of numbers."""
    plain = re.sub(r"\b(?:static_cast\s*<[^>]*>|sizeof\s*\([^)]*\))", " ", expression)
    plain = re.sub(r"\(\s*(?:unsigned\s+)?(?:int|long|size_t|unsigned)\s*\)", " ", plain)
    return re.findall(r"(?<![\w.])[A-Za-z_]\w*(?:\s*(?:::|\.|->)\s*\w+)*", plain)
