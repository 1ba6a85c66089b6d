# SPDX-License-Identifier: Apache-2.0
"""New code in the file's own style: indentation, names that are free, constants as the file writes them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.reading import WORD, View
from warplens_tools.text import TextEdit

_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+[A-Z]\w*[ \t]+\(?\d", re.MULTILINE)
_CONSTEXPR = re.compile(
    r"\bconstexpr\b|^[ \t]*(?:static[ \t]+)?const[ \t]+(?:unsigned[ \t]+)?int\b", re.MULTILINE
)
_INDENT = re.compile(r"^([ \t]+)\S", re.MULTILINE)


class Style:
    """How one kernel's file is written."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.defines = bool(_DEFINE.search(view.text.text)) and not _CONSTEXPR.search(view.text.text)
        self.margin = re.match(r"[ \t]*", view.text.line_text(view.kernel.span.line))[0]  # type: ignore[index]
        self.step = self._step()
        self._taken: set[str] = {c.name for c in view.model.constants}
        self._own = set(WORD.findall(view.text.slice(view.kernel.span)))
        self._constants: list[tuple[str, str, str]] = []

    def _step(self) -> str:
        body = self.view.text.slice(self.view.kernel.body)
        inside = [found[1] for found in _INDENT.finditer(body) if found[1].startswith(self.margin)]
        least = min((len(i) - len(self.margin) for i in inside if len(i) > len(self.margin)), default=2)
        return "\t" if any("\t" in i for i in inside) else " " * max(least, 1)

    def name(self, wanted: str) -> str:
        """`wanted`, or that with a number, such that nothing in the file has the name yet."""
        found, number = wanted, 1
        while found in self.view.used or found in self._taken:
            number += 1
            found = f"{wanted}{number}"
        self._taken.add(found)
        return found

    def local(self, wanted: str) -> str:
        """As `name`, for a variable of the kernel: other functions may have the name too. A member's dot is none."""
        wanted = re.sub(r"\W+", "_", wanted)
        found, number = wanted, 1
        while found in self._own or found in self._taken or self.view.file.macros.get(found) is not None:
            number += 1
            found = f"{wanted}{number}"
        self._taken.add(found)
        return found

    def constant(self, wanted: str, value: str, comment: str = "") -> str:
        """A named constant that `constants` will define: `kTileRows`, or `TILE_ROWS` in a file of `#define`s."""
        if self.defines:
            wanted = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", wanted.removeprefix("k")).upper()
        found = self.name(wanted)
        self._constants.append((found, value, comment))
        return found

    @property
    def has_constants(self) -> bool:
        """Whether there is something for `constants` to define."""
        return bool(self._constants)

    def constants(self) -> TextEdit:
        """The edit that defines the constants, above the kernel and the comment that belongs to it."""
        if not self._constants:
            raise Refused("nothing is named")
        newline = self.view.text.newline
        lines = [self.margin * (not self.defines) + self._defined(*c) + newline for c in self._constants]
        return self.above("".join(lines))

    def above(self, code: str) -> TextEdit:
        """The edit that puts whole lines above the kernel and the its comment, with an empty one behind."""
        line = self.view.kernel.span.line
        while line > 1 and re.match(r"[ \t]*(?://|/?\*)", self.view.text.line_text(line - 1)):
            line -= 1
        at = self.view.text.offset(line, 1)
        newline = self.view.text.newline
        above = newline if line > 1 and self.view.text.line_text(line - 1).strip() else ""
        return TextEdit(self.view.text.span(at, at), f"{above}{code}{newline}")

    def _defined(self, name: str, value: str, comment: str) -> str:
        said = f"  // {comment}" if comment else ""
        if self.defines:
            plain = re.fullmatch(r"\w+", value)
            return f"#define {name} {value if plain else f'({value})'}{said}"
        return f"constexpr int {name} = {value};{said}"

    def lines(self, code: str, level: int = 1) -> str:
        """Code that is written with two spaces a level, at `level` of the kernel, in the file's indentation."""
        found = []
        for line in code.strip("\n").split("\n"):
            bare = line.lstrip(" ")
            deep = (len(line) - len(bare)) // 2
            found.append(f"{self.margin}{self.step * (level + deep)}{bare}".rstrip() if bare else "")
        return self.view.text.newline.join(found)

    def code(self, text: str, margin: str | None = None) -> str:
        """Text of the user's as code for `lines`: its first line at level 0, deeper lines by their own depth; by that
        below `margin`, which the first line stood behind, where that is given.
        """
        lines = text.replace("\r\n", "\n").split("\n")
        rest = [line for line in lines[1:] if line.strip()]
        least = min((len(_leading(line)) for line in rest), default=0)
        if lines[-1].strip().startswith("}"):
            least = len(_leading(lines[-1]))
        least = len(margin) if margin is not None else least
        extra = 0 if margin is not None or lines[-1].strip().startswith("}") else 2
        step = max(len(self.step), 1)
        out = [lines[0].strip()]
        for line in lines[1:]:
            deep = round((len(_leading(line)) - least) / step) if line.strip() else 0
            out.append(" " * (2 * deep + extra) + line.strip() if line.strip() else "")
        return "\n".join(out)


def _leading(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def indented(code: str, levels: int = 1) -> str:
    """Code for `Style.lines`, some levels deeper."""
    return "\n".join(f"{'  ' * levels}{line}" if line else "" for line in code.split("\n"))


def guarded(condition: str, statements: Sequence[str]) -> str:
    """Statements under a condition, in braces unless they are one line."""
    inner = "\n".join(statements)
    is_one = len(statements) == 1 and "\n" not in inner
    return f"if ({condition}) {inner}" if is_one else f"if ({condition}) {{\n{indented(inner)}\n}}"


def zero(element_type: str) -> str:
    """A zero of that type, as one writes it."""
    plain = {"float": "0.0f", "double": "0.0", "int": "0", "unsigned int": "0u", "unsigned": "0u"}
    return plain.get(element_type, f"{element_type}{{}}" if " " not in element_type else "0")
