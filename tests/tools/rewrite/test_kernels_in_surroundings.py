# SPDX-License-Identifier: Apache-2.0
"""What rewrites put in front of a kernel knows what the kernel alone knows: template parameters, types of its own."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from tests.tools.rewrite.test_rewrites import FENCE, page

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.parse import parse
from warplens_tools.rewrite.base import EVERYWHERE, Rewrite
from warplens_tools.rewrite.registry import REWRITES
from warplens_tools.text import SourceText

_POINTER = re.compile(
    r"\b(float|double|half|__half|unsigned char|uint8_t|unsigned int|unsigned|int)\s*(?:const\s*)?\*"
)
_HEADERS = ("cuda_fp16.h", "cuda_bf16.h", "mma.h", "cmath", "cstdint", "cfloat", "climits")


def _parts(sample: str) -> tuple[Kernel, str, str, str]:
    """The sample's first kernel, what stands before it, its definition, and what follows."""
    text = SourceText(sample)
    kernel = parse(text, "k.cu").kernels[0]
    start = text.offset(kernel.span.line, kernel.span.column)
    end = text.offset(kernel.span.end_line, kernel.span.end_column)
    return kernel, sample[:start], sample[start:end], sample[end:]


def _element(definition: str) -> str:
    found = _POINTER.search(definition[: definition.index("{")])
    return found[1] if found is not None else ""


def _named(code: str, element: str, name: str) -> str:
    """Code with another name for a type, wherever it is no conversion."""
    return re.sub(rf"(?<![\w:]){element}\b(?!\s*\()", name, code)


def _launched(kernel: Kernel, rest: str, argument: str) -> str:
    """What follows the kernel, with a template argument in its launches, and a launch if there is none."""
    if f"{kernel.name}<<<" not in rest:
        given = ", ".join("nullptr" if p.pointer else "0" for p in kernel.parameters)
        rest += f"\nvoid start() {{\n  {kernel.name}<<<64, 256>>>({given});\n}}\n"
    return rest.replace(f"{kernel.name}<<<", f"{kernel.name}<{argument}><<<")


def over_its_type(sample: str) -> str:
    """A template over the type of its elements."""
    kernel, before, definition, rest = _parts(sample)
    element = _element(definition)
    if not element or kernel.template_parameters:
        return ""
    code = f"template <typename T>\n{_named(definition, element, 'T')}"
    return before + code + _launched(kernel, rest, element)


def over_a_number(sample: str) -> str:
    """A template over a number."""
    kernel, before, definition, rest = _parts(sample)
    if kernel.template_parameters:
        return ""
    return f"{before}template <int kExtra>\n{definition}{_launched(kernel, rest, '7')}"


def with_its_own_name(sample: str) -> str:
    """With a name of its own for the type of its elements."""
    _, before, definition, rest = _parts(sample)
    element, body = _element(definition), definition.index("{") + 1
    if not element:
        return ""
    return f"{before}{definition[:body]}\n  using Value = {element};{_named(definition[body:], element, 'Value')}{rest}"


def bounded(sample: str) -> str:
    """With launch bounds, in two namespaces, one of them without a name."""
    _, before, definition, rest = _parts(sample)
    code = definition.replace("__global__ void ", "__global__ void __launch_bounds__(1024) ", 1)
    return f"namespace inner {{\nnamespace {{\n\n{before}{code}{rest}\n}}  // namespace\n}}  // namespace inner\n"


def _rewritten(
    surround: Callable[[str], str], rewrites: Iterable[Rewrite] = REWRITES
) -> Iterator[tuple[str, str]]:
    """Each rewrite's own sample in other surroundings, after the rewrite, where it takes it."""
    for of in rewrites:
        sample = surround(FENCE.findall(page(of))[0])
        if not sample:
            continue
        text = SourceText(sample)
        model = parse(text, "k.cu")
        result = of.apply(text, model, model.kernels[0], EVERYWHERE)
        if result.edits:
            yield of.slug, text.apply(list(result.edits)).text


#: At least so many of the rewrites take their samples in these surroundings.
MOST: dict[Callable[[str], str], int] = {
    over_its_type: 40,
    over_a_number: 48,
    with_its_own_name: 24,
    bounded: 50,
}


@pytest.mark.compiler
@pytest.mark.parametrize("surround", MOST, ids=lambda s: s.__name__)
@pytest.mark.sampled(1)
def test_what_comes_out_compiles(surround: Callable[[str], str], tmp_path: Path) -> None:
    unit = ["".join(f"#include <{name}>\n" for name in _HEADERS)]
    taken = list(_rewritten(surround))
    for number, (slug, after) in enumerate(taken):
        code = re.sub(r"^#include.*\n", "", after, flags=re.MULTILINE)
        defined = re.findall(r"^#\s*define\s+(\w+)", code, re.MULTILINE)
        unit.append(f'namespace n{number} {{\n#line 1 "{slug}"\n{code}\n}}\n')
        unit += [f"#undef {name}\n" for name in defined]
    file = tmp_path / "all.cu"
    file.write_text("".join(unit))
    hasty = ["-Xcicc", "-O0", "-Xptxas", "-O0"]
    command = ["nvcc", "-cubin", "-arch=sm_90", *hasty, "-o", str(tmp_path / "all.cubin"), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(taken) >= MOST[surround]


@pytest.mark.parametrize(("surround", "name"), [(over_its_type, "T"), (with_its_own_name, "Value")])
@pytest.mark.sampled(1)
def test_a_helper_function_is_a_template(surround: Callable[[str], str], name: str) -> None:
    ((_, after),) = _rewritten(surround, [r for r in REWRITES if r.slug == "warp-per-row"])
    assert f"template <typename {name}>\n__device__ {name} lanes_sum({name} value) {{" in after
