# SPDX-License-Identifier: Apache-2.0
"""Assignments that an edit leaves out, and constants in place of what is known when it runs alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.gpu import batches

from warplens_tools.cuda.parse import parse
from warplens_tools.rewrite.base import EVERYWHERE
from warplens_tools.rewrite.registry import REWRITES
from warplens_tools.text import SourceText
from warplens_tools.tunable.left_out import why_left_out
from warplens_tools.tunable.source import File

PROGRAM = """
constexpr int kHead = 20;
struct Out { int begin, many; };
__device__ unsigned drawn(unsigned& state) {
    state ^= state << 13;
    return state ^= state >> 17;
}
__global__ void parsed(const unsigned char* in, Out* out, int* total, float* largest, unsigned seed, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned state = i ^ seed, dead = 0;
    state |= (state == 0) << 15;
    const int words = (in[i] & 15) * 2, lane = threadIdx.x & 31;
    float most = in[i];
    for (int k = 1; k < words; k++) most = max(most, (float)in[i + k]);
    Out one = {};
    one.begin = words * 2;
    one.many = drawn(state) + lane + (int)most;
    dead = dead + words;
    largest[i] = most * 2;
    out[i] = one;
    atomicAdd(total, n - words * 2);
}
"""
#: What is left out, or taken for a constant: the edits and what is said of them.
TOLD = {
    "no zero": ([("    state |= (state == 0) << 15;\n", "")], "sets `state` to"),
    "a member": ([("    one.begin = words * 2;\n", "")], "sets `one.begin` to"),
    "in a helper": ([("    state ^= state << 13;\n", "")], "in drawn"),
    "a number": ([("one.begin = words * 2", "one.begin = 20")], "`20` for `words * 2`"),
    "a constant": ([("one.begin = words * 2", "one.begin = kHead")], "`kHead` for `words * 2`"),
    "an element": ([("largest[i] = most * 2", "largest[i] = 510")], "`510` for `most * 2`"),
    "an argument": ([("n - words * 2", "n - 20")], "`20` for `words * 2`"),
    "a local": ([("(in[i] & 15) * 2", "10")], "for `( in [ i ] & 15 ) * 2`"),
}
#: What says nothing against an edit.
HONEST = {
    "a case of its own": [
        (
            "    largest[i] = most * 2;\n",
            "    if (words == 0) largest[i] = 0;\n    else largest[i] = 2 * most;\n",
        ),
    ],
    "moved": [
        ("    one.begin = words * 2;\n", ""),
        ("    out[i] = one;\n", "    one.begin = words * 2;\n    out[i] = one;\n"),
    ],
    "renamed": [("state", "mine")],
    "set otherwise": [("    state |= (state == 0) << 15;\n", "    if (state == 0) state = 1u << 15;\n")],
    "where it is used": [
        ("    state |= (state == 0) << 15;\n", ""),
        ("    Out one = {};\n", "    unsigned held = state | (state == 0) << 15;\n    Out one = {};\n"),
        ("drawn(state)", "drawn(held)"),
    ],
    "set by a helper": [
        ("    state |= (state == 0) << 15;\n", "    never_zero(state);\n"),
        ("__device__ unsigned", "__device__ void never_zero(unsigned& s) { s |= 1; }\n__device__ unsigned"),
    ],
    "of no effect": [("    dead = dead + words;\n", "")],
    "a lane": [("threadIdx.x & 31", "0")],
    "what a loop begins with": [("float most = in[i];", "float most = 0.0f;"), ("int k = 1", "int k = 0")],
}


def edited(text: str, edits: list[tuple[str, str]]) -> str:
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return text


def read(text: SourceText, path: str) -> File:
    return File(text, parse(text, path))


def why(edits: list[tuple[str, str]]) -> str:
    texts = (PROGRAM, edited(PROGRAM, edits))
    return why_left_out(*(read(SourceText(text), "/a/parsed.cu") for text in texts))


@pytest.mark.parametrize("name", TOLD)
def test_what_is_left_out_is_told(name: str) -> None:
    edits, said = TOLD[name]
    assert said in why(edits)


@pytest.mark.parametrize("name", HONEST)
def test_what_is_moved_renamed_or_dead_says_nothing(name: str) -> None:
    assert why(HONEST[name]) == why([]) == ""


LIMITED = """
constexpr int kCodes = 32;
__global__ void copied(const unsigned char* from, const int* lengths, unsigned char* to, int n, int m) {
    const int length = lengths[blockIdx.x], lane = threadIdx.x % 32;
    for (int k = lane; k < n; k += 32) {
        to[k] = from[k % length];
        to[k + n] = from[(from[k] & (kCodes - 1)) + 1];
        to[k + m] = max(0, min(from[k] * 2, m));
        if (k < length) to[k + 2 * n] = from[min(k, length)];
        const int other = from[k] > m ? m : from[k];
        to[k + lane % 16] = other & 0xff;
    }
}
"""


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        ([("k % length", "k")], "limits `k % length`"),
        ([("(from[k] & (kCodes - 1))", "from[k]")], "limits `from [ k ] & ( kCodes - 1 )`"),
        ([("min(from[k] * 2, m)", "from[k] * 2")], "limits `min ( from [ k ] * 2 , m )`"),
        ([("from[k] > m ? m : from[k]", "from[k]")], "limits `from [ k ] > m ? m : from [ k ]`"),
        # what another expression asks already, or now, what a type holds, and what a lane is
        ([("from[min(k, length)]", "from[k]")], ""),
        ([("k % length", "k"), ("{\n        to[k] =", "{\n        if (k < length) to[k] =")], ""),
        ([("k % length", "k"), ("k < n;", "k < n && k < length;")], ""),
        ([("other & 0xff", "other")], ""),
        ([("lane % 16", "lane")], ""),
        ([("to[k] = from[k % length];", "to[k] = from[k % length]; if (k < length) to[k] = from[k];")], ""),
    ],
)  # fmt: skip
def test_limits_of_expressions_that_stay_are_told(edits: list[tuple[str, str]], said: str) -> None:
    texts = (LIMITED, edited(LIMITED, edits))
    found = why_left_out(*(read(SourceText(text), "/a/copied.cu") for text in texts))
    assert said in found and bool(said) == bool(found)


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        # both sides of a choice as statements of their own, whatever chooses; and one side alone
        ([("met[i] = a == b ? a : -1;", "if (u != v) { met[i] = -1; return; }\n    met[i] = a;")], ""),
        ([("cut[i] = a > n ? n : a;", "if (n < a) cut[i] = n; else cut[i] = a;")], ""),
        ([("met[i] = a == b ? a : -1;", "met[i] = a;")], "limits `a == b ? a : -1`"),
        ([("met[i] = a == b ? a : -1;", "met[i] = a;\n    if (u != v) cut[i] = -1;")], "limits `a == b ? a : -1`"),
    ],
)  # fmt: skip
def test_a_choice_may_be_made_between_statements(edits: list[tuple[str, str]], said: str) -> None:
    chosen = """
__global__ void met(const int* up, int* met, int* cut, int n) {
    const int i = threadIdx.x, u = up[2 * i], v = up[2 * i + 1], a = up[u], b = up[v];
    met[i] = a == b ? a : -1;
    cut[i] = a > n ? n : a;
}
"""
    texts = (chosen, edited(chosen, edits))
    found = why_left_out(*(read(SourceText(text), "/a/met.cu") for text in texts))
    assert said in found and bool(said) == bool(found)


def test_a_vector_is_used_where_its_members_are() -> None:
    text = "__global__ void turned(float2* a, float far) { float2 v = a[0]; v = scaled(v, far); a[1].x = v.x + v.y; }"
    texts = (text, text.replace(" v = scaled(v, far);", ""))
    assert "sets `v` to" in why_left_out(*(read(SourceText(one), "/a/turned.cu") for one in texts))


@pytest.mark.thorough
def test_nothing_is_said_of_what_rewrites_make() -> None:
    for rewrite in REWRITES:
        page = __import__(rewrite.apply.__module__, fromlist=["__doc__"]).__doc__ or ""
        text = SourceText(re.findall(r"```cuda\n(.*?)```", page, re.DOTALL)[0])
        model = parse(text, "k.cu")
        after = text.apply(list(rewrite.apply(text, model, model.kernels[0], EVERYWHERE).edits))
        assert after != text
        assert why_left_out(File(text, model), read(after, "k.cu")) == "", rewrite.slug


@pytest.mark.parametrize("name", ["experts", *batches.names()])
@pytest.mark.sampled(2)
def test_no_honest_candidate_leaves_anything_out(name: str) -> None:
    odd, many = {}, 0
    for run in batches.runs(batches.read(name)):
        source = Path(run.workload.source)
        text = SourceText.read(source)
        before = read(text, str(source))
        for entry in (e for e in run.entries if e.honest):
            many += 1
            after = text.apply(list(batches.candidate(entry, source).edits))
            if said := why_left_out(before, read(after, str(source))):
                odd[entry.name] = said
    assert many > 0 and odd == {}
