# SPDX-License-Identifier: Apache-2.0
"""What calls pass for a parameter: a value where they agree, and soon none where a function calls itself."""

from __future__ import annotations

from typing import Any

import pytest

from warplens_tools.cuda.parse import parse
from warplens_tools.cuda.values.constants import Constants
from warplens_tools.text import SourceText

_KERNEL = "__global__ void fill(float *out, int n) { out[blockIdx.x * blockDim.x + threadIdx.x] = n; }\n"
_RECURSIVE = (
    _KERNEL
    + """
void build(float *out, int low, int high) {
    if (low + 1 >= high) return;
    const int third = (high - low) / 3;
    build(out, low, low + third);
    build(out, low + third, high - third);
    build(out, high - third, high);
    fill<<<(high - low + 255) / 256, 256>>>(out, high);
}
int main() { float *out = 0; build(out, 0, 4096); }
"""
)


def test_calls_that_agree_tell_a_parameter() -> None:
    text = _KERNEL + "void go(float *o, int n) { fill<<<n / 256, 256>>>(o, n); }\n"
    (launch,) = parse(SourceText(text + "int main() { go(0, 512); go(0, 512); }\n"), "a.cu").launches
    assert launch.grid_value == (2, 1, 1)
    (launch,) = parse(SourceText(text + "int main() { go(0, 512); go(0, 1024); }\n"), "a.cu").launches
    assert launch.grid_value is None or launch.grid_value[0] is None


def test_a_function_that_calls_itself_is_not_followed_as_often_as_its_calls_can_nest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, value = [0], Constants.value

    def counted(self: Constants, *arguments: Any, **named: Any) -> int | None:
        asked[0] += 1
        return value(self, *arguments, **named)

    monkeypatch.setattr(Constants, "value", counted)
    parse(SourceText(_RECURSIVE), "a.cu")
    assert asked[0] < 2_000
