# SPDX-License-Identifier: Apache-2.0
"""What a candidate may change, and what not."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warplens.measure.build.allowed import why_not_allowed, why_outside
from warplens_tools.text import SourceText

BASE = """\
#include <cstdio>
#define BLOCK 256
constexpr int kTile = 16;
__constant__ float table[4];

__device__ float twice(float x) { return 2 * x; }

template <class T>
__global__ void scale(T* out, const T* in, int n) {
    __shared__ T tile[kTile][kTile];
    int i = blockIdx.x * BLOCK + threadIdx.x;
    tile[0][0] = 1;  // a comment
    if (i < n) out[i] = twice(in[i]);
}

int main() {
    dim3 block(BLOCK, 1);
    int n = 1024;
    scale<float><<<(n + BLOCK - 1) / BLOCK, block>>>(nullptr, nullptr, n);
    std::printf("done\\n");
    return 0;
}
"""

#: As in the CUDA samples: plain variables hold the block.
SAMPLE = """\
__global__ void scale(float* x, int n) {
    extern __shared__ float s[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = s[threadIdx.x];
}
template <class T, int DEPTH> __global__ void walk(T* x) { x[threadIdx.x] = DEPTH; }
int main() {
    int n = 1024;
    int threadsPerBlock = 256, width = 32u;
    int blocksPerGrid = (n + threadsPerBlock - 1) / threadsPerBlock;
    dim3 block(width, 4);
    scale<<<blocksPerGrid, threadsPerBlock, 256 * sizeof(float)>>>(nullptr, n);
    scale<<<n / 32, block>>>(nullptr, n);
    walk<float, 4><<<n / 32, 32>>>(nullptr);
}
"""


@pytest.mark.parametrize(
    ("old", "new", "refused"),
    [
        ("threadsPerBlock = 256", "threadsPerBlock = 128", ""),
        ("width = 32u", "width = 64u", ""),
        ("walk<float, 4>", "walk<float, 8>", ""),
        ("walk<float, 4>", "walk<double, 4>", "host code"),
        ("256 * sizeof(float)", "128 * sizeof(float)", ""),
        ("256 * sizeof(float)", "system(0)", "more than sizes"),
        ("threadsPerBlock = 256", "threadsPerBlock = read()", "host code"),
        ("int n = 1024", "int n = 512", "host code"),
        ("(n + threadsPerBlock - 1) / threadsPerBlock;", "1;", "host code"),
    ],
)
def test_plain_variables_that_hold_a_block_are_sizes(old: str, new: str, refused: str) -> None:
    assert old in SAMPLE
    answer = judge(SAMPLE, SAMPLE.replace(old, new))
    assert refused in answer
    assert bool(answer) == bool(refused)


def judge(before: str, after: str, kernel: str = "scale") -> str:
    return why_not_allowed(SourceText(before), SourceText(after), kernel, "/k.cu")


ALLOWED = {
    "the kernel's body": ("tile[0][0] = 1;", "tile[1][1] = 2; __syncwarp();"),
    "a padded tile": ("tile[kTile][kTile]", "tile[kTile][kTile + 1]"),
    "restrict and const": ("T* out, const T* in", "T* __restrict__ out, const T* __restrict__ in"),
    "a device function": ("return 2 * x;", "return x + x;"),
    "a new device function": (
        "template <class T>",
        "__device__ int one() { return 1; }\n\ntemplate <class T>",
    ),
    "a define": ("BLOCK 256", "BLOCK 128"),
    "a constexpr": ("kTile = 16", "kTile = 32"),
    "a device variable": ("table[4]", "table[8]"),
    "a grid": ("(n + BLOCK - 1) / BLOCK, block", "(n + BLOCK * 2 - 1) / (BLOCK * 2), block"),
    "a block": ("block(BLOCK, 1)", "block(BLOCK / 2, 2)"),
    "launch bounds": ("__global__ void scale", "__global__ void __launch_bounds__(256) scale"),
    "a comment anywhere": ("int n = 1024;", "int n = 1024;  // elements"),
    "an unroll": ("    tile[0][0]", "#pragma unroll 4\n    tile[0][0]"),
    "a toolkit header": ("#include <cstdio>", "#include <cstdio>\n#include <cuda_fp16.h>"),
}
REFUSED = {
    "host code": ("int n = 1024;", "int n = 512;", "host code"),
    "a constant of main's own": ("int n = 1024", "const int n = 512", "host code"),
    "output": ('"done', '"fake', "host code"),
    "a new host function": ("int main", "int f() { return 1; }\nint main", "host code"),
    "a host constructor": ("int main", "static int x = __builtin_popcount(3);\nint main", "host code"),
    "a hidden host constructor": (
        "#define BLOCK 256",
        "#define BLOCK 256\n#define X struct S { S() {} }; S s;\nX",
        "parse",
    ),
    "a function both sides use": (
        "__device__ float twice",
        "__host__ __device__ float twice",
        "host code",
    ),
    "an own header": ("#include <cstdio>", '#include <cstdio>\n#include "secret.h"', "includes"),
    "the next header of that name": (
        "#include <cstdio>",
        "#include <cstdio>\n#include_next <math.h>",
        "#include_next",
    ),
    "an imported header": ("#include <cstdio>", "#include <cstdio>\n#import <math.h>", "#import"),
    "a header by macro": (
        "    tile[0][0]",
        "#define SECRET 1\n#include SECRET\n    tile[0][0]",
        "includes SECRET",
    ),
    "a header behind a split line": (
        "    tile[0][0]",
        '#incl\\\nude "/etc/passwd"\n    tile[0][0]',
        "/etc/passwd",
    ),
    "a header behind a digraph": ("    tile[0][0]", '%:include "/etc/passwd"\n    tile[0][0]', "parse"),
    "an embedded file by a directive": (
        "    tile[0][0]",
        '    static const char x[] = {\n#embed "/etc/passwd"\n};\n    tile[0][0]',
        "#embed",
    ),
    "a probe for a file": (
        "    tile[0][0]",
        '#if __has_include("/root/.ssh/id_rsa")\n#endif\n    tile[0][0]',
        "__has_include",
    ),
    "a probe for a file over two lines": (
        "    tile[0][0]",
        '#if __has_inc\\\nlude("/root/.ssh/id_rsa")\n#endif\n    tile[0][0]',
        "__has_include",
    ),
    "a probe behind a macro": (
        "#define BLOCK 256",
        "#define ASK __has_include\n#define BLOCK 256",
        "__has_include",
    ),
    "where it is built": (
        "    tile[0][0]",
        "    if (__BASE_FILE__[5] == 'x') return;\n    tile[0][0]",
        "__BASE_FILE__",
    ),
    "when it is built": (
        "    tile[0][0]",
        "    if (__TIME__[0] == '1') return;\n    tile[0][0]",
        "__TIME__",
    ),
    "by what it is built": (
        "    tile[0][0]",
        "#if __CUDACC_VER_MINOR__ > 0\n#endif\n    tile[0][0]",
        "__CUDACC_VER",
    ),
    "another file's name": ("    tile[0][0]", '# 33 "/usr/include/stdio.h" 1 3\n    tile[0][0]', "#33"),
    "a compiler's pragma": (
        "    tile[0][0]",
        '#pragma GCC dependency "/etc/passwd"\n    tile[0][0]',
        "#pragma GCC",
    ),
    "an absolute header": ("#include <cstdio>", "#include <cstdio>\n#include </etc/passwd>", "includes"),
    "a parent header": ("#include <cstdio>", "#include <cstdio>\n#include <../x.h>", "includes"),
    "a define within the kernel": ("    tile[0][0]", "#define printf exit\n    tile[0][0]", "#define"),
    "an include within the kernel": ("    tile[0][0]", "#include </etc/passwd>\n    tile[0][0]", "includes"),
    "a call in a launch": ("<<<(n + BLOCK", "<<<system(0) + (n + BLOCK", "more than sizes"),
    "a call in a block": ("block(BLOCK, 1)", "block(getpid(), 1)", "more than sizes"),
    "an assignment in a launch": ("<<<(n +", "<<<(n = 4, n +", "parse"),
    "a call in a constant": ("kTile = 16", "kTile = f(16)", "host code"),
    "a second statement in a block": ("block(BLOCK, 1);", "block(BLOCK, 1); n = 3;", "host code"),
    "parameters": ("const T* in, int n", "const T* in, int n, int m", "parameters"),
    "the kernel's name": ("void scale(", "void scaled(", "no kernel scale"),
    "an embedded file": (
        "    tile[0][0]",
        '    asm(".inc" "bin \\"/etc/passwd\\"");\n    tile[0][0]',
        "embeds",
    ),
    "broken text": ("tile[0][0] = 1;", "tile[0][0] = = 1;", "parse"),
    "another meaning for main's names": (
        "#define BLOCK 256",
        "#define BLOCK 256\n#define nullptr 0",
        "another meaning",
    ),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_allowed(name: str) -> None:
    old, new = ALLOWED[name]
    assert old in BASE
    assert judge(BASE, BASE.replace(old, new, 1)) == ""


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    old, new, why = REFUSED[name]
    assert old in BASE
    assert why in judge(BASE, BASE.replace(old, new, 1))


@given(st.integers(0, len(BASE) - 1), st.sampled_from(["exit(1);", "x", ";", "}", "0", " system("]))
@settings(max_examples=150, deadline=None)
def test_whatever_is_put_into_main_is_refused(at: int, text: str) -> None:
    start = BASE.index("int n = 1024;")
    end = BASE.index("scale<float>")
    place = start + at % (end - start)
    edited = BASE[:place] + text + BASE[place:]
    inside_space = BASE[place - 1 : place + 1].isspace() and text.isspace()
    assert inside_space or judge(BASE, edited) != ""


def test_a_constant_of_mains_own_is_host_code() -> None:
    before = BASE.replace("int n = 1024", "const int n = 1024")
    assert "host code" in judge(before, before.replace("1024", "64"))


def test_examples_are_their_own_baseline() -> None:
    for path in sorted((Path(__file__).parents[4] / "examples/first").glob("*.cu")):
        text = path.read_text()
        said = judge(text, text, kernel="")
        assert said == "" or said.startswith("the edited text has no kernel")


@pytest.mark.parametrize(
    ("old", "new", "never", "host"),
    [
        ("int n = 1024;", "int n = 512;", "", "host code"),
        ("T* out, const T* in, int n", "T* out, const T* in, int n, int m", "", "parameters"),
        ("#include <cstdio>", "#include <cstdio>\n#include </etc/passwd>", "includes", ""),
        ("int n = 1024;", 'int n = 1024; asm(".inc" "bin");', "assembler", "host code"),
        ("int n = 1024;", 'int n = 1024;\n#include "/etc/passwd"\n', "includes", ""),
        ("twice(in[i])", "in[i] + in[i]", "", ""),
    ],
)
def test_what_may_be_judged_from_outside(old: str, new: str, never: str, host: str) -> None:
    assert old in BASE
    found = why_outside(SourceText(BASE), SourceText(BASE.replace(old, new, 1)), "scale", "/k.cu")
    for said, expected in zip(found, (never, host), strict=True):
        assert expected in said
        assert bool(said) == bool(expected)


def test_a_refusal_for_host_code_names_the_setting() -> None:
    assert "optimize.host-edits" in judge(BASE, BASE.replace("int n = 1024;", "int n = 512;"))
    assert "optimize.host-edits" not in judge(BASE, BASE.replace("<cstdio>", "</etc/passwd>"))
