# SPDX-License-Identifier: Apache-2.0
"""The code that moves windows' elements from register to register, from one output to the one beside it."""

from __future__ import annotations

import re

import msgspec

from warplens_tools.rewrite.common.reading import View, renamed
from warplens_tools.rewrite.common.sliding import Window


class WindowCode(msgspec.Struct, frozen=True):
    """The windows of `count` outputs, of which `axis` is `first` + 0, 1, …; `counter` counts them in loops."""

    view: View
    axis: str
    first: str
    counter: str
    count: str

    def filled(self, window: Window, name: str, variable: str, begin: str) -> str:
        """What the first iteration finds in the window but for the element that it loads."""
        last = f"{self.count} - 1"
        o, place = self.counter, f"{self.first} + {self.counter}"
        element = self._element(window, place, variable, begin)
        if window.upward:
            return f"#pragma unroll\nfor (int {o} = 0; {o} < {last}; ++{o}) {name}[{o} + 1] = {element};"
        return f"#pragma unroll\nfor (int {o} = 1; {o} < {self.count}; ++{o}) {name}[{o} - 1] = {element};"

    def moved(self, window: Window, name: str) -> str:
        """The window one element on."""
        o, last = self.counter, f"{self.count} - 1"
        if window.upward:
            head = f"#pragma unroll\nfor (int {o} = 0; {o} < {last}; ++{o}) {name}[{o}] = {name}[{o} + 1];"
            return f"{head}\n{name}[{last}] = {self._element(window, f'{self.first} + {last}')};"
        head = f"#pragma unroll\nfor (int {o} = {last}; {o} > 0; --{o}) {name}[{o}] = {name}[{o} - 1];"
        return f"{head}\n{name}[0] = {self._element(window, self.first)};"

    def _element(self, window: Window, place: str, variable: str = "", begin: str = "") -> str:
        """An access at another output, and at another iteration where one is named."""
        text = self.view.written(window.element)
        sums = re.fullmatch(r"[\w\s\[\]+-]+", text) is not None
        names = {self.axis: place if sums or place.isidentifier() else f"({place})"}
        if variable:
            names[variable] = begin if re.fullmatch(r"\w+", begin) else f"({begin})"
        found = renamed(text, names)
        return re.sub(r" [-+] 0(?=\])", "", found) if variable and begin == "0" else found
