# SPDX-License-Identifier: Apache-2.0
"""Numbers of one run in place of expressions that follow it; and what may be a number all the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.gpu import batches

from warplens_tools.cuda.parse import parse
from warplens_tools.rewrite.base import EVERYWHERE
from warplens_tools.rewrite.registry import REWRITES
from warplens_tools.text import SourceText
from warplens_tools.tunable.follows import why_not_followed
from warplens_tools.tunable.run_lengths import lengths_of
from warplens_tools.tunable.source import File

#: Experts that hold for what their program's `main` lets through, no further: a k-mer of up to 31 bases in one word.
HOLDS_WHERE_MAIN_LETS_IT = {
    "kmer_codes": "the original loops up to argv[2], in the edit neither a loop nor the grid of kmer_codes follows it"
}
PROGRAM = """
#include <cstdlib>
#define BLOCK 256
__device__ float total(const float* in, int length) {
    float sum = 0;
    for (int i = 0; i < length; ++i) sum += in[i];
    return sum;
}
__global__ void twice(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2 * in[i];
}
__global__ void rows(const float* in, float* out, int count, int width) {
    extern __shared__ float row[];
    for (int c = threadIdx.x; c < width; c += blockDim.x) row[c] = in[blockIdx.x * width + c];
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = total(row, width);
}
int main(int argc, char** argv) {
    int n = atoi(argv[1]), width = atoi(argv[2]), threads = argc > 3 ? atoi(argv[3]) : 128;
    const int count = 4096;
    float *in, *out, *partial;
    cudaMalloc(&in, n * sizeof(float));
    cudaMalloc(&out, n * sizeof(float));
    cudaMalloc(&partial, (n + 255) / 256 * sizeof(float));
    const int blocks = (n + BLOCK - 1) / BLOCK;
    twice<<<blocks, BLOCK>>>(in, out, n);
    rows<<<n / width, threads, width * sizeof(float)>>>(in, out, n / width, width);
    twice<<<(count + 255) / 256, 256>>>(in, out, count);
}
"""
STRIDED = (
    "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i < n)",
    "    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)",
)
QUEUED = (
    "    if (i < n) out[i] = 2 * in[i];",
    "    while (true) { if (i >= n) break; out[i] = 2 * in[i]; i += gridDim.x * blockDim.x; }",
)
BLOCKS = "(n + BLOCK - 1) / BLOCK"
ROW = "    extern __shared__ float row[];\n"
SHARED = "threads, width * sizeof(float)>>>"
WALK = "for (int c = threadIdx.x; c < width; c += blockDim.x) row[c] = in[blockIdx.x * width + c];"


def why(*edits: tuple[str, str]) -> str:
    text = PROGRAM
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new, 1)
    before, after = SourceText(PROGRAM), SourceText(text)
    return why_not_followed(File(before, parse(before, "k.cu")), File(after, parse(after, "k.cu")))


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        ([(BLOCKS, "36864")], "the original's grid follows argv[1]"),
        ([("<<<blocks, BLOCK>>>", "<<<dim3(36864), 256>>>")], "the original's grid follows argv[1]"),
        ([(SHARED, "threads, 4096>>>")], "shared memory follows argv[2]"),
        ([(ROW, "    __shared__ float row[1024];\n"), (SHARED, "threads>>>")], "walks row, which has 1024"),
        ([("cudaMalloc(&out, n * sizeof(float))", "cudaMalloc(&out, 4 << 20)")], "allocates out by argv[1]"),
        ([("void rows(", "void __launch_bounds__(128) rows(")], "bounds rows to 128 threads"),
        (
            [("void rows(", "void __launch_bounds__(128) rows("), ("width, threads,", "width, min(threads, 256),")],
            "bounds rows to 128 threads",
        ),
        (
            [(WALK, "row[threadIdx.x] = in[threadIdx.x];"), ("total(row, width)", "total(row, 1024)")],
            "the original loops up to argv[2]",
        ),
    ],
)  # fmt: skip
def test_what_holds_for_this_run_alone_is_said(edits: list[tuple[str, str]], said: str) -> None:
    assert said in why(*edits)


@pytest.mark.parametrize(
    "edits",
    [
        [("#define BLOCK 256", "#define BLOCK 512")],
        [(BLOCKS, "36864"), STRIDED],
        [(BLOCKS, "264"), QUEUED],
        # what is kept for each block goes with the grid
        [(BLOCKS, "264"), STRIDED, ("(n + 255) / 256 * sizeof(float)", "264 * sizeof(float)")],
        [("(count + 255) / 256, 256", "32, 128")],
        [("n / width, threads, width", "n / width, 256, width")],
        [("<<<blocks, BLOCK>>>", "<<<dim3((n + 127) / 128), 128>>>")],
        [(SHARED, "threads, 4096>>>"), (WALK, "if (width <= 1024) " + WALK)],
        [
            (SHARED, "threads, 4096>>>"),
            (WALK, "for (int b = 0; b < width; b += 1024)\n for (int c = 0; c < 1024; ++c) row[c] = in[b + c];"),
        ],
        # a block that follows the run up to what it is bounded to
        [("void rows(", "void __launch_bounds__(256) rows("), ("width, threads,", "width, std::min(threads, 256),")],
        [("void rows(", "void __launch_bounds__(64) rows("), ("width, threads,", "width, width < 64 ? width : 64,")],
        [("total(row, width)", "total(row, width / 2) + total(row + width / 2, width - width / 2)")],
    ],
)  # fmt: skip
def test_what_follows_all_the_same_is_not(edits: list[tuple[str, str]]) -> None:
    assert why(*edits) == ""


def test_lengths_are_followed_to_where_a_run_says_them() -> None:
    text = SourceText(PROGRAM)
    file = File(text, parse(text, "k.cu"))
    twice, rows, again = sorted(file.sites, key=lambda site: site.launch.span)
    assert [lengths_of(file, node) for node in twice.written] == [{"argv[1]"}, set(), set()]
    assert [lengths_of(file, node) for node in rows.written] == [
        {"argv[1]"},
        {"argv[3]"},
        {"argv[2]"},
    ]
    assert not lengths_of(file, again.written[0]) and lengths_of(file, again.written[0], named=True) == {
        "count"
    }


@pytest.mark.parametrize("name", [*batches.names(), "experts"])
@pytest.mark.sampled(2)
def test_nothing_is_said_of_an_honest_candidate(name: str) -> None:
    for run in batches.runs(batches.read(name)):
        source = Path(run.workload.source)
        text = SourceText.read(source)
        before = File(text, parse(text, str(source)))
        for entry in run.entries:
            after = text.apply(list(batches.candidate(entry, source).edits))
            found = why_not_followed(before, File(after, parse(after, str(source))))
            if entry.name in HOLDS_WHERE_MAIN_LETS_IT:
                assert found == HOLDS_WHERE_MAIN_LETS_IT[entry.name]
                continue
            assert not (entry.honest and found), f"{entry.name}: {found}"


@pytest.mark.thorough
def test_nothing_is_said_of_what_rewrites_make() -> None:
    for rewrite in REWRITES:
        page = __import__(rewrite.apply.__module__, fromlist=["__doc__"]).__doc__ or ""
        text = SourceText(re.findall(r"```cuda\n(.*?)```", page, re.DOTALL)[0])
        model = parse(text, "k.cu")
        edits = rewrite.apply(text, model, model.kernels[0], EVERYWHERE).edits
        assert edits
        after = text.apply(list(edits))
        assert why_not_followed(File(text, model), File(after, parse(after, "k.cu"))) == "", rewrite.slug


ADDED = """__device__ void add_rows(const float* in, float* out, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = 2 * in[i];
}
__global__ void twice("""
TO_THE_END = """    const float* end = in + n;
    for (const float* at = in + blockIdx.x * blockDim.x + threadIdx.x; at < end; at += gridDim.x * blockDim.x)
        out[at - in] = 2 * *at;
"""
BODY = "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i < n) out[i] = 2 * in[i];\n"


@pytest.mark.parametrize(
    "edits",
    [
        [("void rows(", "void __launch_bounds__(1024) rows(")],
        [(BLOCKS, "264"), (BODY, "    add_rows(in, out, n);\n"), ("__global__ void twice(", ADDED)],
        [(BLOCKS, "264"), (BODY, TO_THE_END)],
    ],
    ids=["a bound that every block keeps", "a function named like arithmetic", "up to a pointer"],
)
def test_what_goes_up_to_the_length_by_other_words_follows_it(edits: list[tuple[str, str]]) -> None:
    assert why(*edits) == ""


IN_TURN = "if (threadIdx.x == 0) out[blockIdx.x] = total(row, width);"


@pytest.mark.parametrize(
    ("summed", "told"),
    [
        ("float s = 0; for (int c = 0; c < width; ++c) s += row[c % 32]; out[blockIdx.x] = s;", True),
        ("float s = 0; for (int c = 0; c < width; ++c) s += row[c & 31]; out[blockIdx.x] = s;", True),
        # what is held of it is loaded as the loop goes on
        (
            "float s = 0;\nfor (int c = 0; c < width; ++c) { s += row[c % 32]; row[c % 32] = in[c]; }\nout[0] = 0;",
            False,
        ),
        ("float s = 0; for (int c = 0; c < 32; ++c) s += row[c % 32];", False),
    ],
)  # fmt: skip
def test_what_is_held_of_a_row_does_not_begin_anew(summed: str, told: bool) -> None:
    held = (
        "    __shared__ float row[32];\n    row[threadIdx.x % 32] = in[blockIdx.x * width + threadIdx.x];\n"
    )
    said = why((ROW, held), (f"    {WALK}\n", ""), (IN_TURN, summed), (SHARED, "threads>>>"))
    assert ("begins anew there" in said) == told


def test_what_is_nested_too_deeply_is_not_proven() -> None:
    assert "too deeply" in why((BLOCKS, " + ".join(["n"] * 3000)))


#: A row in parts of 128, of which each is held in turn.
_IN_PARTS = """for (int from = 0; from < width; from += 128) {
        const int to = min(128, width - from) + from;
        for (int c = from + threadIdx.x; c < to; c += blockDim.x) row[c - from] = in[blockIdx.x * width + c];
        __syncthreads();
        for (int c = from; c < to; ++c) out[c] += row[c - from];
        __syncthreads();
    }"""


def test_a_row_in_parts_of_a_constant_length_is_held_whatever_its_length() -> None:
    held = [(ROW, "    __shared__ float row[128];\n"), (SHARED, "threads>>>")]
    parts = _IN_PARTS.replace("from + threadIdx.x; c < to", "from; c < to")
    assert why(*held, (WALK, parts)) == ""
    whole = parts.replace("min(128, width - from) + from", "width")
    assert "walks row, which has 128" in why(*held, (WALK, whole))
