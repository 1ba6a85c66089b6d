# SPDX-License-Identifier: Apache-2.0
"""What a candidate may change, and what not."""

from __future__ import annotations

from pathlib import Path

import pytest

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
    # the compiler says what does not parse, or is no launch's size
    "what the parser misreads": ("tile[0][0] = 1;", "tile[0][0] = (long(n) < 4) & 1;"),
    "broken text": ("tile[0][0] = 1;", "tile[0][0] = = 1;"),
}
REFUSED = {
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
    "a header behind a digraph": ("    tile[0][0]", '%:include "/etc/passwd"\n    tile[0][0]', "passwd"),
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
    "an include within the kernel": ("    tile[0][0]", "#include </etc/passwd>\n    tile[0][0]", "includes"),
    "parameters": ("const T* in, int n", "const T* in, int n, int m", "parameters"),
    "the kernel's name": ("void scale(", "void scaled(", "no kernel scale"),
    "an embedded file": (
        "    tile[0][0]",
        '    asm(".inc" "bin \\"/etc/passwd\\"");\n    tile[0][0]',
        "embeds",
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


def test_examples_are_their_own_baseline() -> None:
    for path in sorted((Path(__file__).parents[4] / "examples/first").glob("*.cu")):
        text = path.read_text()
        said = judge(text, text, kernel="")
        assert said == "" or said.startswith("the edited text has no kernel")


def test_what_changes_host_code_alone_may_be_compiled_and_judged_from_outside() -> None:
    after = BASE.replace("T* out, const T* in, int n", "T* out, const T* in, int n, int m")
    assert why_outside(SourceText(BASE), SourceText(after), "scale", "/k.cu")[0] == ""
    assert "optimize.host-edits" in judge(BASE, after)
    assert "optimize.host-edits" not in judge(BASE, BASE.replace("<cstdio>", "</etc/passwd>"))


def test_assembler_in_host_code_is_never_compiled() -> None:
    after = BASE.replace("int n = 1024;", 'int n = 1024; asm(".inc" "bin");')
    assert "assembler" in why_outside(SourceText(BASE), SourceText(after), "scale", "/k.cu")[0]
