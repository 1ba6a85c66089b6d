# SPDX-License-Identifier: Apache-2.0
"""Grids that leave a rest: `rows / 8` blocks of 8 rows each do all rows of a run whose rows are a multiple of 8.

A kernel whose grid rounds up does all of any number. Asked of each number that a launch passes and its grid follows:
whether so many blocks are enough for one more and one less than a multiple of what each block does, which is read off
the rule itself, of a large number. A loop of the kernel that goes up to the number does the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from warplens_tools.cuda.model import Kernel
from warplens_tools.tunable.covered import Walked
from warplens_tools.tunable.grid_rule import GridRule, rule_of
from warplens_tools.tunable.source import File

#: Each block's share divides this, as a rule: powers of two, and small factors beside them.
_LARGE = (1 << 32) * 3**3 * 5**3 * 7 * 11 * 13
#: Beside all numbers up to that, the neighbours of so many multiples of a share are asked.
_UP_TO, _MULTIPLES = 2049, 4
_GIVEN = re.compile(r"p(\d+)(?:,\d+)*")


def why_rest_left(before: File, after: File) -> str:
    """Which number's rest an edit's grid leaves and the original's does not, in words; "" for none."""
    for kernel in before.model.kernels:
        twin = after.model.kernel(kernel.qualified_name)
        if twin is None:
            continue
        old, new = before.launches_of(kernel), after.launches_of(twin)
        if len(old) != len(new):
            continue
        for one, other in zip(old, new, strict=True):
            if (was := rule_of(before, one)) is None or (now := rule_of(after, other)) is None or was == now:
                continue
            left = set(_left(now)) - set(_left(was))
            if left and set(_all(was)) and (name := _not_walked(after, twin, left)):
                return f"the edit's grid leaves a rest of {name} that the original's, rounded up, does"
    return ""


def _not_walked(file: File, kernel: Kernel, numbers: set[int]) -> str:
    """The first of these parameters that no loop goes up to; "" for none."""
    walked = Walked(file, kernel)
    names = [kernel.parameters[n].name for n in sorted(numbers) if n < len(kernel.parameters)]
    return next((name for name in names if not walked.goes_up_to([name])), "")


def _all(rule: GridRule) -> Iterator[int]:
    """The numbers of which a grid does all, though each of its blocks does several."""
    for number, axis in _followed(rule):
        if _share(axis, number) > 1 and _does_all(axis, number):
            yield number


def _left(rule: GridRule) -> Iterator[int]:
    """The numbers of which a grid leaves a rest."""
    for number, axis in _followed(rule):
        if _share(axis, number) > 0 and not _does_all(axis, number):
            yield number


def _followed(rule: GridRule) -> Iterator[tuple[int, str]]:
    for axis in rule:
        for number in {int(found) for found in _GIVEN.findall(axis)}:
            yield number, axis


def _share(axis: str, number: int) -> int:
    """How many of a number each block does, of a large one; 0 where that is not known."""
    blocks = _value(axis, number, _LARGE)
    # what is left over by another divisor is no matter beside so many
    return round(_LARGE / blocks) if blocks else 0


def _does_all(axis: str, number: int) -> bool:
    share = _share(axis, number)
    near = [share * many + more for many in range(1, _MULTIPLES + 1) for more in (-1, 0, 1)]
    found = ((given, _value(axis, number, given)) for given in (*range(1, _UP_TO), *near) if given > 0)
    return all(blocks is not None and blocks * share >= given for given, blocks in found)


def _value(axis: str, number: int, given: int) -> int | None:
    """A rule's value where one parameter is `given` and all others are 1; None where it is not known."""
    held: list[int] = []
    for word in axis.split():
        if word.isdigit():
            held.append(int(word))
        elif (found := _GIVEN.fullmatch(word)) is not None:
            held.append(given if int(found[1]) == number else 1)
        elif word == "?" or len(held) < 2:
            return None
        else:
            right, left = held.pop(), held.pop()
            made = _applied(word, left, right)
            if made is None:
                return None
            held.append(made)
    return held[0] if len(held) == 1 else None


def _applied(operator: str, left: int, right: int) -> int | None:
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "min" | "max":
            return min(left, right) if operator == "min" else max(left, right)
        case "/" | "%" | "up" if right > 0 and left >= 0:
            return {"/": left // right, "%": left % right, "up": -(-left // right)}[operator]
        case "<<" | ">>" if 0 <= right < 64:
            return left << right if operator == "<<" else left >> right
        case _:
            return None
