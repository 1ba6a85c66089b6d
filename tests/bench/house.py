# SPDX-License-Identifier: Apache-2.0
"""The house in figures: modules, lines, functions, imports, circles, and free functions that are handed a view.

    python tests/bench/house.py [--root FOLDER] [--json FILE] [--label NAME] [--against NAME]

`--against` compares the code lines of the rooms that an entry of the file had with the same rooms now: features that
came since stand in rooms of their own, or in an old room that says so by growing.

Product code is what `server`, `tools` and `cutlass_index` hold. `--root` names another checkout to measure (`git
worktree add`), `--label` the entry of the JSON file that is written or replaced.

An *own import* is one module of ours that another names, each pair counted once, imports for type checkers included. A
*circle* is a strongly connected set of modules. A line of code is neither blank, nor a comment, nor in a docstring.
"""

from __future__ import annotations

import argparse
import ast
import io
import statistics
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

PACKAGES = ("server/warplens", "tools/warplens_tools", "cutlass_index/warplens_cutlass")
#: What rooms of earlier entries are called now.
_BECAME = {
    "warplens_tools.source": "warplens_tools.cuda",
    "warplens_tools.memory": "warplens_tools.machine",
    "warplens_tools.cost": "warplens_tools.machine",
    "warplens_cutlass.concepts": "warplens_cutlass.search",
}
#: Rooms that were cut out of one that an earlier entry counts as a whole, by that one.
_OUT_OF = {
    "warplens_tools.toolchain": "warplens_tools.collect",
    "warplens_tools.process": "warplens_tools.run",
}
#: Rooms below an old one that came with a feature, and hold nothing that was in it.
_SINCE = frozenset(
    {
        "warplens.agent.llm",
        "warplens.measure.pool",
        "warplens.measure.torch_task",
        "warplens_tools.run.spec",
    }
)
_VIEWS = frozenset({"KernelView", "KernelCode"})


class Spread(msgspec.Struct, frozen=True):
    """Median, 90th percentile and largest of some counts."""

    median: float
    ninety: float
    most: int


class Room(msgspec.Struct, frozen=True):
    """One package, or the whole product."""

    modules: int
    lines: int
    code_lines: int
    file_lines: Spread
    function_lines: Spread
    own_imports: float


class House(msgspec.Struct, frozen=True):
    """Everything that is counted of one checkout."""

    product: Room
    rooms: dict[str, Room]
    #: Modules that exactly one other imports.
    imported_once: int
    #: Sets of modules that import each other, largest first.
    circles: tuple[tuple[str, ...], ...]
    #: Module-level functions with a parameter that is a view of a kernel.
    takes_view: int


class Module(msgspec.Struct, frozen=True):
    """One parsed file."""

    name: str
    text: str
    tree: ast.Module

    @property
    def room(self) -> str:
        """Its package: of a module that stands in none, itself."""
        return self.name.rpartition(".")[0] if self.name.count(".") > 1 else self.name

    @property
    def functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        """All of them, methods and nested ones too."""
        return [n for n in ast.walk(self.tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]


def modules_of(root: Path) -> dict[str, Module]:
    """The product's modules by dotted name; a package goes by its own name."""
    found = {}
    for package in PACKAGES:
        base = (root / package).parent
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(base).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            text = path.read_text("utf-8")
            found[name] = Module(name, text, ast.parse(text))
    return found


def imports_of(module: Module, names: Mapping[str, Module]) -> set[str]:
    """The product's modules that one names, itself left out."""
    found = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (inside & names.keys()) or {node.module}
            found |= {node.module} if any(i not in names for i in inside) else set()
    return (found & names.keys()) - {module.name}


def circles_of(graph: Mapping[str, set[str]]) -> list[tuple[str, ...]]:
    """Strongly connected sets of more than one module (Tarjan), largest first."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[tuple[str, ...]] = []

    def visit(at: str) -> None:
        index[at] = low[at] = len(index)
        stack.append(at)
        for to in graph[at]:
            if to not in index:
                visit(to)
            if to in stack:
                low[at] = min(low[at], low[to])
        if low[at] == index[at]:
            cut = stack.index(at)
            found.append(tuple(sorted(stack[cut:])))
            del stack[cut:]

    sys.setrecursionlimit(10_000)
    for name in graph:
        if name not in index:
            visit(name)
    return sorted((c for c in found if len(c) > 1), key=lambda c: (-len(c), c))


def code_lines(module: Module) -> int:
    """Lines with code on them."""
    taken: set[int] = set()
    skipped = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENCODING,
    }
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type not in skipped and token.type != tokenize.ENDMARKER:
            taken.update(range(token.start[0], token.end[0] + 1))
    return len(taken - set(_docstring_lines(module.tree)))


def _docstring_lines(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                yield from range(first.lineno, (first.end_lineno or first.lineno) + 1)


def takes_view(module: Module) -> int:
    """Module-level functions that are handed a view."""
    free = [n for n in module.tree.body if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return sum(
        any(_is_view(a) for a in (*f.args.posonlyargs, *f.args.args, *f.args.kwonlyargs)) for f in free
    )


def _is_view(argument: ast.arg) -> bool:
    return argument.annotation is not None and ast.unparse(argument.annotation) in _VIEWS


def spread(counts: list[int]) -> Spread:
    """Of some counts, of which there must be one."""
    ordered = sorted(counts)
    return Spread(statistics.median(ordered), ordered[int(0.9 * (len(ordered) - 1))], ordered[-1])


def room_of(group: list[Module], graph: Mapping[str, set[str]]) -> Room:
    """The figures of some modules."""
    lengths = [(f.end_lineno or f.lineno) - f.lineno + 1 for m in group for f in m.functions] or [0]
    return Room(
        modules=len(group),
        lines=sum(m.text.count("\n") for m in group),
        code_lines=sum(map(code_lines, group)),
        file_lines=spread([m.text.count("\n") for m in group]),
        function_lines=spread(lengths),
        own_imports=round(sum(len(graph[m.name]) for m in group) / len(group), 2),
    )


def measure(root: Path) -> House:
    """Everything that is counted of a checkout."""
    names = modules_of(root)
    graph = {name: imports_of(module, names) for name, module in names.items()}
    rooms: dict[str, list[Module]] = {}
    for module in names.values():
        rooms.setdefault(module.room, []).append(module)
    once = Counter(to for found in graph.values() for to in found)
    return House(
        product=room_of(list(names.values()), graph),
        rooms={room: room_of(group, graph) for room, group in sorted(rooms.items()) if len(group) > 1},
        imported_once=sum(count == 1 for count in once.values()),
        circles=tuple(circles_of(graph)),
        takes_view=sum(map(takes_view, names.values())),
    )


def table(house: House) -> str:
    """The figures as text."""
    rows = [f"{'':38} modules  lines   code  file lines      function lines  own imports"]
    for name, room in (("product", house.product), *house.rooms.items()):
        files, functions = room.file_lines, room.function_lines
        rows.append(
            f"{name:38} {room.modules:7} {room.lines:6} {room.code_lines:6}  "
            f"{files.median:4.0f}/{files.ninety:3.0f}/{files.most:4}  "
            f"{functions.median:7.0f}/{functions.ninety:2.0f}/{functions.most:3}  {room.own_imports:11.1f}"
        )
    rows.append(
        f"imported by one other: {house.imported_once}; functions that take a view: {house.takes_view}"
    )
    rows += [f"circle of {len(c)}: {', '.join(c)}" for c in house.circles] or ["no circle"]
    return "\n".join(rows)


def against(before: House, now: House) -> str:
    """Code lines of the rooms of `before`, then and now, and of the rooms that came since."""
    then: Counter[str] = Counter()
    for name, room in before.rooms.items():
        then[_home(name, before.rooms)] += room.code_lines
    here: Counter[str] = Counter()
    for name, room in now.rooms.items():
        here[_home(name, then)] += room.code_lines
    rows = [f"{'':38} before    now"]
    rows += [
        f"{name:38} {then[name]:6} {here[name]:6}  {here[name] - then[name]:+6}" for name in sorted(then)
    ]
    old = sum(here[name] for name in then)
    rows.append(f"{'rooms that were there':38} {then.total():6} {old:6}  {old - then.total():+6}")
    rows += [f"{name:38} {'':6} {count:6}" for name, count in sorted(here.items()) if name not in then]
    rows.append(f"{'rooms since':38} {'':6} {here.total() - old:6}")
    return "\n".join(rows)


def _home(name: str, known: Iterable[str]) -> str:
    """The room that one is counted with: the nearest above it that is known, by its name of today."""
    names = {_BECAME.get(room, room) for room in known}
    at = _BECAME.get(name, name)
    if at in _SINCE and at not in names:
        return at
    if at not in names:
        at = _OUT_OF.get(at, at)
    while at not in names and "." in at:
        at = at.rpartition(".")[0]
    return at if at in names else name


def main() -> None:
    """Print the figures, and write them where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[2])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--label", default="now")
    parser.add_argument("--against", default="", help="an entry of the file to compare code lines with")
    options = parser.parse_args()
    house = measure(options.root)
    sys.stdout.write(table(house) + "\n")
    if options.json is not None:
        known = msgspec.json.decode(options.json.read_bytes()) if options.json.exists() else {}
        known[options.label] = msgspec.to_builtins(house)
        if options.against:
            before = msgspec.convert(known[options.against], House)
            sys.stdout.write(against(before, house) + "\n")
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(known), indent=1) + b"\n")


if __name__ == "__main__":
    main()
