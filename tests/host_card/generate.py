# SPDX-License-Identifier: Apache-2.0
"""Writes the driver's entry points: one wrapper for each that is implemented, one refusal for every other."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
_PARAMETERS = re.compile(r"typedef struct (\w+)_params_st \{(.*?)\} \w+_params;", re.S)
_LAUNCHES = ("cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel")


def implemented() -> tuple[str, ...]:
    """The functions that the driver's sources define, sorted."""
    texts = [path.read_text() for path in sorted((HERE / "cpp" / "driver").glob("*.cpp"))]
    return tuple(sorted({name for text in texts for name in re.findall(r"^DRIVER\((\w+)\)", text, re.M)}))


def wrappers(include: Path) -> str:
    """`calls_generated.inc`, with the parameters' structures that CUPTI's headers declare."""
    meta = (include / "generated_cuda_meta.h").read_text()
    declared = dict(_PARAMETERS.findall(meta))
    return "\n".join(_wrapper(name, declared.get(name, "")) for name in implemented()) + "\n"


def _wrapper(name: str, body: str) -> str:
    fields = [" ".join(line.split()) for line in body.split(";") if line.strip()]
    names = [re.search(r"(\w+)$", field)[1] for field in fields]  # type: ignore[index]
    structure = f"{name}_params"
    given = ", ".join(fields)
    declared = f'extern "C" CUresult impl_{name}({given});'
    passed = ", ".join(f"all_.{n}" for n in names)
    symbol = "card::symbol_of(f)" if name in _LAUNCHES else "nullptr"
    held = f"{structure} all_{{{', '.join(names)}}};" if fields else ""
    data = "&all_" if fields else "nullptr"
    number = f"CUPTI_DRIVER_TRACE_CBID_{name}"
    # a header may make another version's name of this one
    return (
        f"#undef {name}\n{declared}\nEXPORT CUresult {name}({given}) {{\n    {held}\n"
        f'    return card::called({number}, "{name}", {data}, {symbol}, [&] {{ return impl_{name}({passed}); }});\n}}'
    )


def refusals(include: Path) -> str:
    """`refusals_generated.cpp`: the rest of the driver's interface, which says that it is not there."""
    text = (include / "cuda.h").read_text()
    names = set(re.findall(r"CUresult CUDAAPI (cu\w+)\(", text))
    names |= {new for old, new in re.findall(r"#define (cu\w+)\s+(cu\w+)\s*$", text, re.M)}
    rest = sorted(names - set(implemented()))
    lines = ["#include <cstdio>", "static int refused(const char* name) {"]
    lines += ['    std::fprintf(stderr, "host card: %s is not there\\n", name);', "    return 801;", "}"]
    lines += [
        f'extern "C" __attribute__((visibility("default"))) int {name}() {{ return refused("{name}"); }}'
        for name in rest
    ]
    return "\n".join(lines) + "\n"
