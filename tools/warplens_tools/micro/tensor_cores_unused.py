"""tensor-cores-unused

**What.** A tiled product of `half` or `bfloat16` matrices multiplies element by element on the ordinary
arithmetic pipes.

**Why it costs.** Tensor cores multiply these types 8 to 16 times as fast, and take their operands from shared
memory in far fewer accesses.

**Wrong**

```cuda
for (int k = 0; k < 16; ++k)
    sum += __half2float(a[row][k]) * __half2float(b[k][column]);
```

**Right**

```cuda
wmma::load_matrix_sync(left, &a[row][0], 16);
wmma::load_matrix_sync(right, &b[0][column], 64);
wmma::mma_sync(sum, left, right, sum);         // or a CuTe tiled MMA
```

**Evidence.** In the source, a loop in which two shared arrays of 16-bit floating point are read at indices that
its counter moves; in SASS, the multiply-adds on that line, and no tensor instruction in the kernel. Counters
tell how busy arithmetic and issue were, and what warps stalled on: they confirm the finding, bound its gain, or
withdraw it.

**Threshold.** A fifth of the kernel's time in the bounded model: a product that waits for memory is not reported.
Products of `float` are left alone, as TF32 would drop 13 bits of them.

**References.** CUDA C++ Programming Guide, "Warp Matrix Functions"; PTX ISA, "Warp Level Matrix Multiply-Accumulate
Instructions"; CuTe, "MMA Atoms".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warplens_tools.cost.gain import bound_ratio, make_gain
from warplens_tools.cost.removal import cautious_floor
from warplens_tools.evidence import CompiledKernel, Instruction, Observation
from warplens_tools.finding import Finding
from warplens_tools.launches import block_extents
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.room import ARITHMETIC, ARITHMETIC_STALLS, DRAM, ISSUE, L1, L2, judge_by_room
from warplens_tools.sass.attribution import kernel_line, weights
from warplens_tools.sass.flow import analyse
from warplens_tools.sass.pipes import pipe_of
from warplens_tools.sass.throughput import pipe_cycles
from warplens_tools.source.accesses import ArrayAccess, accesses
from warplens_tools.source.constants import UNKNOWN_DIM3
from warplens_tools.source.tree import parse_tree
from warplens_tools.view import KernelView

#: Speedup in the bounded model from which a product is reported.
REPORTED = 1.2
#: Shared-memory clocks of a product on tensor cores over those of one on registers: a matrix load brings
#: four 8 x 8 matrices for a warp where ordinary loads bring a row's element to each thread.
SHARED_SHARE = 0.25
_TYPES = frozenset({"half", "__half", "__nv_bfloat16", "nv_bfloat16"})
_PRODUCTS = frozenset({"FFMA", "HFMA2", "FMUL", "HMUL2"})


def check(view: KernelView) -> Iterator[Finding]:
    """One finding per kernel, on the product in the deepest loop."""
    compiled, binary = view.evidence.worst, view.evidence.binary
    if compiled is None or binary is None or not view.gpu.rates.tensor_fma:
        return
    if any(
        pipe_of(x) == "tensor" and x.opcode.endswith("MMA") and is_matrix(x) for x in compiled.instructions
    ):
        return
    block = block_extents(view.kernel, view.model) or UNKNOWN_DIM3
    products = matrix_products(accesses(parse_tree(view.text), view.kernel, block))
    if not products:
        return
    line, names = max(products.items(), key=lambda p: p[0])
    indices = [
        i
        for i, x in enumerate(compiled.instructions)
        if kernel_line(x, view.model.path, view.kernel) == line and pipe_of(x) in ("fp32", "fp16", "lsu")
    ]
    count = sum(1 for i in indices if compiled.instructions[i].opcode in _PRODUCTS)
    ratio = _ratio(view, compiled, indices)
    if not count or ratio < REPORTED:
        return
    both = " and ".join(names)
    yield TOOL.finding(
        view,
        span=view.line_span(line),
        severity="warning",
        confidence="medium",
        message=(
            f"The product of {both} takes {count} ordinary multiply-adds in {view.kernel.name}; the tensor cores of "
            f"{view.gpu.name} are not used."
        ),
        guidance=(
            f"Multiply the tiles {both} with wmma or a CuTe tiled MMA, accumulating in float: products of 16-bit "
            "values are exact there, only the order of the sums changes."
        ),
        evidence=(
            Observation("source", "tree-sitter", "16-bit tiles multiplied in a loop", both),
            Observation("binary", binary.origin, "multiply-adds of the product", float(count)),
            Observation("binary", binary.origin, "tensor instructions", 0.0),
        ),
        gain=make_gain(ratio, 1.0, 2.0 * ratio),
        index_query="tiled MMA half precision GEMM mainloop",
    )


def is_matrix(instruction: Instruction) -> bool:
    """Whether it multiplies matrices; HFMA2.MMA is an ordinary packed multiply-add on another path."""
    return instruction.opcode not in {"HFMA2", "FFMA2"}


def matrix_products(found: Sequence[ArrayAccess]) -> dict[int, tuple[str, str]]:
    """Lines that multiply two shared 16-bit tiles along one loop, with the tiles' names."""
    lines: dict[int, list[ArrayAccess]] = {}
    for access in found:
        if access.space == "shared" and access.reads and not access.writes and access.element_type in _TYPES:
            lines.setdefault(access.span.line, []).append(access)
    products = {}
    for line, group in lines.items():
        names = tuple(dict.fromkeys(a.name for a in group))
        shared = set.intersection(*(_counters(a) for a in group))
        if len(names) == 2 and shared:
            products[line] = (names[0], names[1])
    return products


def _counters(access: ArrayAccess) -> set[str]:
    """Counters of the loops around that move the access."""
    index = access.index
    if index is None:
        return set()
    return {loop.counter for loop in access.loops if loop.counter and index.mentions(loop.counter)}


def _ratio(view: KernelView, compiled: CompiledKernel, indices: Sequence[int]) -> float:
    """Bounded time as it is over that with the multiply-adds at the tensor cores' rate."""
    weight = weights(analyse(compiled.instructions))
    floor = cautious_floor(view, compiled, weight)
    rates = view.gpu.rates
    faster = rates.fp32_fma / rates.tensor_fma.get("fp16", rates.fp32_fma)
    gone = set(indices)
    after = [
        w * (SHARED_SHARE if pipe_of(x) == "lsu" else faster) if i in gone else w
        for i, (x, w) in enumerate(zip(compiled.instructions, weight, strict=True))
    ]
    before = pipe_cycles(compiled.instructions, weight, view.gpu) | floor
    return bound_ratio(before, pipe_cycles(compiled.instructions, after, view.gpu) | floor)


TOOL = MicroTool(
    code="WL305",
    slug="tensor-cores-unused",
    title="A product of 16-bit matrices leaves the tensor cores idle",
    tiers=("binary",),
    relevant=("compute", "memory", "latency"),
    check=check,
    judge=judge_by_room(own=(*ARITHMETIC, *ISSUE, *L1), stalls=ARITHMETIC_STALLS, kept=(*DRAM, *L2)),
)
