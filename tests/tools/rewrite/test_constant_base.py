# SPDX-License-Identifier: Apache-2.0
"""Powers of 2 and 10 become exponentials of the same precision, and the rest of the line stays."""

from __future__ import annotations

import pytest
from tests.tools.rewrite.on_host import holds, program, rewritten
from tests.tools.rewrite.test_arithmetic import kernel

from warplens_tools.rewrite.base import Target

NAMED = "#define TWO 2.0f\n#define HALF (0.5f)\nconstexpr int kBase = 10;\n"
POWERS = {
    "powf(2.0f, x)": "exp2f(x)",
    "powf(2, n)": "exp2f(n)",
    "powf(10.f, x * x)": "exp10f(x * x)",
    "pow(2.0f, x)": "exp2f(x)",
    "std::pow(10.0F, x)": "exp10f(x)",
    "::pow(2.0, (double)x)": "exp2((double)x)",
    "pow(2, x)": "exp2((double)x)",
    "pow(2., x + 1)": "exp2((double)(x + 1))",
    "pow(10, n)": "exp10((double)n)",
    "powf(/* octaves */ 2.0f, x)": "exp2f(x)",
    "powf(2.0f, powf(10.0f, x))": "exp2f(exp10f(x))",
    "pow(2.0, 1 + pow(2.0, x - 1))": "exp2(1 + exp2((double)(x - 1)))",
    "powf(kBase, x)": "exp10f(x)",
    "powf(TWO, x * HALF)": "exp2f(x * HALF)",
    "powf(2.0f, in[i++])": "exp2f(in[i++])",
}


@pytest.mark.parametrize("power", POWERS)
def test_powers_become_exponentials(power: str) -> None:
    result, after = rewritten("constant-base", NAMED + kernel(power))
    assert f"out[i] = {POWERS[power]};" in after
    assert result.caveat
    assert rewritten("constant-base", after)[0].refused


@pytest.mark.parametrize(
    "power",
    [
        "powf(3.0f, x)", "powf(2.5f, x)", "powf(20.0f, x)", "powf(-2.0f, x)", "powf(x, 2.0f)", "powf(scale, x)",
        "powf(2.0f, 0.5f)", "powf(2.0f, -0.5f)", "__powf(2.0f, x)", "exp2f(x)",
        "pow(2.0f, unknown(x))", "own::pow(2.0f, x)", "powf(2.0f)", "powf(BOTH)", "powf(BEFORE x)", "POWER(x)",
    ],
)  # fmt: skip
def test_other_powers_stay(power: str) -> None:
    macros = "#define BOTH 2.0f, x\n#define BEFORE 2.0f, 3 *\n#define POWER(x) powf(2.0f, x)\n"
    assert rewritten("constant-base", macros + kernel(power, ", float scale"))[0].refused


@pytest.mark.parametrize(
    "own",
    [
        "__device__ float powf(float x, float y) { return x * y; }",
        "__device__ float exp2f(float x) { return x; }",
        "#define exp2f(x) __expf(x)",
    ],
)
def test_names_of_the_file_stay(own: str) -> None:
    assert rewritten("constant-base", own + "\n" + kernel("powf(2.0f, x)"))[0].refused


@pytest.mark.parametrize("name", ["powf", "exp2f"])
def test_names_of_the_kernel_stay(name: str) -> None:
    own = f"    auto {name} = [](float a, float b) {{ return a * b; }};\n"
    assert rewritten("constant-base", kernel("powf(2.0f, x)", before=own))[0].refused


def test_only_the_lines_asked_for_change() -> None:
    text = kernel("powf(2.0f, x)", before="    x = powf(10.0f, x);\n")
    line = next(n for n, code in enumerate(text.splitlines(), 1) if "10.0f" in code)
    _, after = rewritten("constant-base", text, Target(lines=(line,)))
    assert "x = exp10f(x);" in after
    assert "out[i] = powf(2.0f, x);" in after


def test_exponentials_are_what_the_powers_were() -> None:
    body = kernel("powf(2.0f, x) + pow(10.0f, 0.1f * x) + pow(2, i % 9) + pow(10.0, x / 8)")
    main = (
        "  int n = atoi(argv[1]);\n"
        "  Device<float> x(n), y(n, 2); k<<<(n + 63) / 64, 64>>>(y, x, n); y.show();"
    )
    holds("constant-base", program(body, main), (100,), relative=1e-5)
