# SPDX-License-Identifier: Apache-2.0
"""Grids that leave a rest: `rows / 8` blocks of 8 rows each do all rows of a run whose rows are a multiple of 8.

A kernel whose grid rounds up does all of any number. Asked of each number that a launch passes and its grid follows:
whether so many blocks are enough for one more and one less than a multiple of what each block does, which is read off
the rule itself, of a large number. A loop of the kernel that goes up to the number does the rest. What nobody can read,
as blocks that are counted in floats, is not known to do all, where the original's is.
"""

from __future__ import annotations

import functools
import operator as operators
import re
from collections.abc import Callable, Iterator, Mapping

from warplens_tools.cuda.model import Kernel
from warplens_tools.tunable.both import launches_of_both
from warplens_tools.tunable.conditions import DeviceCode
from warplens_tools.tunable.covered import Walked
from warplens_tools.tunable.grid_rule import GridRule, is_read, rule_of
from warplens_tools.tunable.source import File

#: Each block's share divides this, as a rule: powers of two, and small factors beside them.
_LARGE = (1 << 32) * 3**3 * 5**3 * 7 * 11 * 13
#: Beside all numbers up to that, the neighbours of so many multiples of a share are asked.
_UP_TO, _MULTIPLES = 2049, 4
_GIVEN = re.compile(r"p(\d+)(?:,\d+)*")
_Operation = Callable[[int, int], int]
_ALWAYS: Mapping[str, _Operation] = {
    "+": operators.add,
    "-": operators.sub,
    "*": operators.mul,
    "min": min,
    "max": max,
}
#: Of numbers that are not negative, by such as are not 0 either.
_QUOTIENTS: Mapping[str, _Operation] = {
    "/": operators.floordiv,
    "%": operators.mod,
    "up": lambda left, right: -(-left // right),
}
#: Gives a rule's value where one parameter has a value, and all others are 1; None where it is not known.
_Evaluator = Callable[[int], int | None]


def why_rest_left(before: File, after: File) -> str:
    """Which number's rest an edit's grid leaves and the original's does not, in words; "" for none."""
    for kernel, twin, one, other in launches_of_both(before, after):
        was, now = rule_of(before, one), rule_of(after, other)
        if was is None or was == now:
            continue
        every = set(_all(was))
        if now is None:
            # numbers alone are no rule, and asked for elsewhere
            left = set() if is_read(after, other) else every
        else:
            left = set(_left(now, _Guards(before, kernel))) - set(_left(was)) if every else set()
        if name := _not_walked(after, twin, left):
            if now is None:
                return f"nothing tells whether the edit's grid does all of {name}, as the original's does"
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


class _Guards:
    """Up to where a kernel's own comparisons let each of its parameters be reached."""

    def __init__(self, file: File, kernel: Kernel) -> None:
        self._kernel = kernel
        self._code = " ".join(
            file.tree.code_of(f.body) for f in DeviceCode(file, kernel.qualified_name).functions
        )

    def short_of(self, number: int) -> int:
        """How far below a parameter all stay that is compared with it: 1 of `0 < i && i < n - 1`."""
        if number >= len(self._kernel.parameters):
            return 0
        name, less = rf"\b{self._kernel.parameters[number].name}\b", r"(?:\s*-\s*(\d+))?(?!\s*[-+*/%\w(])"
        below = re.findall(rf"(?:<|>=)\s*\(?{name}{less}", self._code)
        below += re.findall(rf"{name}{less}\)?\s*(?:>|<=)(?!=)", self._code)
        others = re.findall(rf"(?:[<>]=?|[!=]=)\s*\(?{name}|{name}[^;,&|?:()]*(?:[<>]=?|[!=]=)", self._code)
        return min((int(c or 0) for c in below), default=0) if len(below) == len(others) else 0


def _left(rule: GridRule, guards: _Guards | None = None) -> Iterator[int]:
    """The numbers of which a grid leaves a rest that anything is done for."""
    for number, axis in _followed(rule):
        short = guards.short_of(number) if guards is not None else 0
        if _share(axis, number) > 0 and not _does_all(axis, number, short):
            yield number


def _followed(rule: GridRule) -> Iterator[tuple[int, str]]:
    for axis in rule:
        for number in {int(found) for found in _GIVEN.findall(axis)}:
            yield number, axis


def _share(axis: str, number: int) -> int:
    """How many of a number each block does, of a large one; 0 where that is not known, or blocks are no more of more,
    as where a number only says how many share the card.
    """
    blocks, few = _value(axis, number, _LARGE), _value(axis, number, 1)
    if blocks is None or few is None or blocks <= few:
        return 0
    # what is left over by another divisor is no matter beside so many
    return round(_LARGE / blocks) if blocks else 0


# rules of candidates differ in few numbers, and the original's is asked for with each of them
@functools.lru_cache(maxsize=256)
def _does_all(axis: str, number: int, short: int = 0) -> bool:
    value = _evaluator(axis, number)
    most = value(_LARGE)
    if most is None or most < 2:
        return False
    # a block's share need not be whole: 256 threads, 17 of them for each, do 15 and one in part
    near = [_LARGE * many // most + more for many in range(1, _MULTIPLES + 1) for more in (-1, 0, 1, 2)]
    found = ((given, value(given)) for given in (*range(1, _UP_TO), *near) if given > 0)
    # the large number's own blocks are one too many where they were rounded up
    return all(
        blocks is not None and blocks * _LARGE >= (given - short) * (most - 1) for given, blocks in found
    )


def _value(axis: str, number: int, given: int) -> int | None:
    """A rule's value where one parameter is `given` and all others are 1; None where it is not known."""
    return _evaluator(axis, number)(given)


@functools.lru_cache(maxsize=256)
def _evaluator(axis: str, number: int) -> _Evaluator:
    """The rule read once, for all the numbers that one parameter may be."""
    held: list[_Evaluator] = []
    for word in axis.split():
        if word.isdigit():
            held.append(_constant(int(word)))
        elif (found := _GIVEN.fullmatch(word)) is not None:
            held.append(_itself if int(found[1]) == number else _constant(1))
        elif word == "?" or len(held) < 2:
            return _unknown
        else:
            right, left = held.pop(), held.pop()
            held.append(_joined(word, left, right))
    return held[0] if len(held) == 1 else _unknown


def _itself(given: int) -> int | None:
    return given


def _unknown(given: int) -> int | None:
    del given
    return None


def _constant(value: int) -> _Evaluator:
    def always(given: int) -> int | None:
        del given
        return value

    return always


def _joined(operator: str, left: _Evaluator, right: _Evaluator) -> _Evaluator:
    def value(given: int) -> int | None:
        one, other = left(given), right(given)
        return None if one is None or other is None else _applied(operator, one, other)

    return value


def _applied(operator: str, left: int, right: int) -> int | None:
    if operator in _ALWAYS:
        return _ALWAYS[operator](left, right)
    if operator in _QUOTIENTS:
        return _QUOTIENTS[operator](left, right) if right > 0 and left >= 0 else None
    if operator in ("<<", ">>") and 0 <= right < 64:
        return left << right if operator == "<<" else left >> right
    return None
