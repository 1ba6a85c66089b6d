# SPDX-License-Identifier: Apache-2.0
"""What an edit tells the compiler to take for granted is seen after macros; with the real compiler."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.standard import STANDARD

from warplens.measure.build.assumed import assumes_more, tells_more
from warplens_tools.evidence import BinaryEvidence
from warplens_tools.toolchain.compile import compile_unit
from warplens_tools.toolchain.flags import CompileFlags
from warplens_tools.toolchain.locate import resolve_toolchain

BASE = """\
#define JOIN(a, b) a##b
#define KNOWN(x) JOIN(__builtin_, assume)(x)
__global__ void k(const unsigned* in, unsigned* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const unsigned s = in[i] + out[i];
    __builtin_assume(n > 0);
    // edited
    out[i] = s == 0xffffffffu ? 1u : s;
}
int main() {}
"""
TELLS = {
    "by a macro": ("KNOWN(s != 0xffffffffu);", "s!=0xffffffffu always holds"),
    "plainly": ("__builtin_assume((s & 1) == 0);", "(s&1)==0 always holds"),
    "a place": ("if (s == 3) __builtin_unreachable();", "never reached"),
}
TELLS_NOTHING = {
    "what the kernel tells": "__builtin_assume( n > 0 );",
    "what is likely": "if (__builtin_expect(s == 3, 0)) out[i] = 4;",
    "words": 'static const char said[] = "assume (s) unreachable()"; (void)said;',
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("assumed")
    (made / "unit.cu").write_text(BASE)
    return made


def _compiled(folder: Path, name: str, code: str) -> BinaryEvidence:
    toolchain = resolve_toolchain()
    if toolchain.find("nvcc") is None:
        pytest.skip("no nvcc")
    return compile_unit(
        folder / "unit.cu",
        toolchain=toolchain,
        flags=CompileFlags(STANDARD, "test"),
        arch="sm_90",
        workdir=folder / name.replace(" ", "-"),
        overlay=BASE.replace("// edited", code),
        keep_text=True,
    )


@pytest.mark.compiler
def test_what_is_told_by_a_macro_is_what_the_compiler_is_given(folder: Path) -> None:
    baseline = _compiled(folder, "baseline", "")
    edited = _compiled(folder, "edited", TELLS["by a macro"][0])
    assert "s!=0xffffffffu always holds" in assumes_more(baseline, edited, baseline.path)
    assert assumes_more(baseline, baseline, baseline.path) == ""


@pytest.mark.parametrize("name", [n for n in TELLS if n != "by a macro"])
def test_what_an_edit_tells_the_compiler_is_not_proven(name: str) -> None:
    code, why = TELLS[name]
    assert why in tells_more(BASE, BASE.replace("// edited", code))


def test_attributes_tell_the_compiler_too() -> None:
    for code in ("[[assume(s != 3)]];", "__attribute__((assume(s != 3)));"):
        assert "s!=3 always holds" in tells_more(BASE, BASE.replace("// edited", code))
    assert "never reached" in tells_more(BASE, "[[noreturn]] __device__ void gone() {}\n" + BASE)


@pytest.mark.parametrize("name", TELLS_NOTHING)
def test_what_tells_nothing_new_is_no_matter(name: str) -> None:
    assert tells_more(BASE, BASE.replace("// edited", TELLS_NOTHING[name])) == ""
