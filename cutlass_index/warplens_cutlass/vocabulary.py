# SPDX-License-Identifier: Apache-2.0
"""The field's synonyms: words that name the same thing in questions, in prose and in identifiers.

Each line is one group. A word of a query stands for its whole group, at `RankingWeights.synonym_weight`;
an entry of several words counts where all of them are found. Phrases of questions fold into one word first.
"""

from __future__ import annotations

import functools
import re

from warplens_cutlass.words import STOP_WORDS, split, stem

_GROUPS = """
hopper, sm90, h100, h200, gh200, h800
blackwell, sm100, b200, gb200, b100
sm103, b300, gb300, blackwell ultra
sm120, geforce, rtx5090, 5090, 5080, 5070, consumer
ampere, sm80, a100, sm86
ada, sm89, l40, 4090
turing, sm75, t4
volta, sm70, v100
pascal, sm60, sm61
wgmma, gmma, warpgroup mma
umma, tcgen05
tensorop, tensor op, tensor core, mma
ldmatrix, ldsm
stmatrix, stsm
fp8, e4m3, e5m2, float8, f8
fp4, nvfp4, e2m1, mxfp4, nvf4
fp6, e3m2, e2m3, mxfp6
mx, mxfp8, mxfp4, mxfp6
fp16, half, f16
bf16, bfloat16
fp32, f32, float
tf32, tfloat32
fp64, f64, double
int8, s8, u8
int4, s4, u4
mixeddtype, mixed dtype, mixed input, mixeddtype
smem, shared
gmem, global
rmem, register
tmem, tensor memory
gemm, matmul
gemv, matrix vector
attention, fmha, mha
mla, multi latent
backward, bwd
forward, fwd, fprop
conv, convolution, conv2d, implicit gemm
wgrad, weight gradient
dgrad, data gradient
cta, threadblock, block
warpspecialized, warp specialized
pingpong, ping pong
cooperative, coop
streamk, stream k
splitk, split k
blockwise, groupwise
blockscaled, block scaled, blockwise
groupwise, group wise
reduce, reduction, reduc
fused, fusion, fuse
bias, broadcast
activation, elementwise, eltact
epilogue, epilog
sparse, sparsity, structured sparse
descriptor, desc
transpose, transposed, trans
alloc, allocate, allocator, allocation
dealloc, deallocate, free
barrier, mbarrier
async, asynchronous, cpasync
scheduler, schedule, scheduling
scale, scaling, scaled
predicate, predicated, predication
residue, residual, border, boundary, bound, edge, valid
dequantize, dequant, unpack
convert, conversion, converter
vectorize, vectorized, vector, vectorizing
swizzle, swizzled, swizzling
initialize, init
visitor, evt
permute, permutation
quaternion
layernorm, layer norm
rmsnorm, rms norm
grouped, group
batched, batch
moe, mixture expert, expert
gather, gathered
scatter, scattered
persistent, static persistent
prefetch, prefetching
tutorial, introduction, beginner, simple, basic
multistage, multi stage
verify, compare, check
random, fill
print, dump, display
latex, tex, tikz
complex, planar complex
contraction, gett, einsum
distributed, multi gpu
rasterization, raster
multicast, broadcast
""".strip().splitlines()

_PHRASES = {
    "matrix multiplication": "gemm", "matrix multiply": "gemm", "matrix product": "gemm", "mat mul": "gemm",
    "matrix matrix": "gemm", "tensor memory accelerator": "tma", "stream k": "streamk", "split k": "splitk",
    "ping pong": "pingpong", "warp specialized": "warpspecialized", "warp specialization": "warpspecialized",
    "warp specialize": "warpspecialized", "block scaled": "blockscaled", "block wise": "blockwise",
    "group wise": "groupwise", "bfloat 16": "bf16", "rtx 5090": "sm120", "rtx 4090": "sm89", "tensor op": "tensorop",
    "tensor core": "tensorop", "shared memory": "smem", "global memory": "gmem", "tensor memory": "tmem",
    "register file": "rmem", "mixed dtype": "mixeddtype", "mixed input": "mixeddtype", "mixed precision": "mixeddtype",
    "thread block": "cta", "layer normalization": "layernorm", "layer norm": "layernorm", "rms norm": "rmsnorm",
    "multi head": "mha", "flash attention": "attention", "mixture of experts": "moe", "multi stage": "multistage",
    "2 4": "sparse", "half precision": "fp16", "single precision": "fp32", "double precision": "fp64",
    "8 bit float": "fp8", "6 bit float": "fp6", "4 bit float": "fp4", "16 bit float": "fp16",
    "8 bit": "int8", "4 bit": "int4", "micro scaling": "mx",
}  # fmt: skip


#: A^T, B.T
_TRANSPOSED = re.compile(r"\b([A-Z])(?:\^|\.)T\b")


@functools.cache
def synonyms() -> dict[str, tuple[tuple[str, ...], ...]]:
    """Stemmed word → its other spellings, each one or more stemmed words that must all be found."""
    table: dict[str, dict[tuple[str, ...], None]] = {}
    for line in _GROUPS:
        group = [tuple(stem(w) for w in entry.split()) for entry in line.split(",")]
        for entry in group:
            if len(entry) == 1:
                others = table.setdefault(entry[0], {})
                others |= dict.fromkeys(other for other in group if other != entry)
    return {word: tuple(others) for word, others in table.items()}


@functools.cache
def _phrases() -> dict[tuple[str, ...], str]:
    return {tuple(stem(w) for w in phrase.split()): stem(word) for phrase, word in _PHRASES.items()}


def query_words(text: str) -> list[str]:
    """The stemmed words of a question in order: phrases folded, words that say nothing about code dropped."""
    plain = _TRANSPOSED.sub(r"\1 transpose ", text).replace("-", " ").replace(":", " ")
    words = [w for token in plain.split() for w in _token_words(token)]
    folded: list[str] = []
    at = 0
    while at < len(words):
        for length in (3, 2):
            word = _phrases().get(tuple(words[at : at + length]))
            if word is not None and at + length <= len(words):
                folded.append(word)
                at += length
                break
        else:
            folded.append(words[at])
            at += 1
    return list(dict.fromkeys(w for w in folded if w not in STOP_WORDS and w not in _STEMMED_STOP_WORDS))


def _token_words(token: str) -> tuple[str, ...]:
    bare = token.strip(".,;!?()[]{}<>\"'`")
    return split(bare)


_STEMMED_STOP_WORDS = frozenset(stem(w) for w in STOP_WORDS)
