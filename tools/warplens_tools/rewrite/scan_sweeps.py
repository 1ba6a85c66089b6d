# SPDX-License-Identifier: Apache-2.0
"""scan-sweeps

Scan two elements a thread by shuffles instead of by sweeps up and down a tree.

A scan that sums pairs up a tree in shared memory and hands the sums down again (Blelloch's) takes two barriers for
every level, half of its threads idle from the first on, and strides that meet in one bank. Each thread adds up its two
elements, the lanes of a warp exchange what they have without a barrier, and the warps' totals meet once.

```cuda
#define N 512

__global__ void prescan(const float* in, float* out) {
  __shared__ float temp[N];
  int thid = threadIdx.x, offset = 1;
  temp[2 * thid] = in[2 * thid];
  temp[2 * thid + 1] = in[2 * thid + 1];
  for (int d = N >> 1; d > 0; d >>= 1) {
    __syncthreads();
    if (thid < d) {
      int ai = offset * (2 * thid + 1) - 1;
      int bi = offset * (2 * thid + 2) - 1;
      temp[bi] += temp[ai];
    }
    offset *= 2;
  }
  if (thid == 0) temp[N - 1] = 0;
  for (int d = 1; d < N; d *= 2) {
    offset >>= 1;
    __syncthreads();
    if (thid < d) {
      int ai = offset * (2 * thid + 1) - 1;
      int bi = offset * (2 * thid + 2) - 1;
      float t = temp[ai];
      temp[ai] = temp[bi];
      temp[bi] += t;
    }
  }
  __syncthreads();
  out[2 * thid] = temp[2 * thid];
  out[2 * thid + 1] = temp[2 * thid + 1];
}
void run(const float* in, float* out) { prescan<<<1, N / 2>>>(in, out); }
```

```cuda
#define N 512

__device__ float block_scan(float value) {
  __shared__ float totals[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int offset = 1; offset < 32; offset *= 2) {
    const float other = __shfl_up_sync(0xffffffff, value, offset);
    if (lane >= offset) value = other + value;
  }
  if (lane == 31) totals[warp] = value;
  __syncthreads();
  if (warp == 0) {
    float total = totals[lane < blockDim.x / 32 ? lane : 0];
    for (int offset = 1; offset < 32; offset *= 2) {
      const float other = __shfl_up_sync(0xffffffff, total, offset);
      if (lane >= offset) total = other + total;
    }
    __syncwarp();
    totals[lane] = total;
  }
  __syncthreads();
  if (warp > 0) value = totals[warp - 1] + value;
  return value;
}

__global__ void prescan(const float* in, float* out) {
  __shared__ float temp[N];
  int thid = threadIdx.x, offset = 1;
  temp[2 * thid] = in[2 * thid];
  temp[2 * thid + 1] = in[2 * thid + 1];
  __syncthreads();
  const float left = temp[2 * thid];
  const float upto = block_scan(left + temp[2 * thid + 1]);
  temp[2 * thid + 1] = upto;
  __syncthreads();
  const float before = thid > 0 ? temp[2 * thid - 1] : 0;
  __syncthreads();
  temp[2 * thid] = before;
  temp[2 * thid + 1] = before + left;
  __syncthreads();
  out[2 * thid] = temp[2 * thid];
  out[2 * thid + 1] = temp[2 * thid + 1];
}
void run(const float* in, float* out) { prescan<<<1, N / 2>>>(in, out); }
```

What the kernel stores of the whole sum before it clears it is stored by the last thread. Left alone: sweeps over
another number of elements than two for each thread of the block, a number that is no power of two, and padded indices.
"""

from __future__ import annotations

import re

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.rewrite.base import REORDERED, Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.block_scan import FLOATING, check_block, scan_function, shared_kind
from warplens_tools.rewrite.common.groups import style_of
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.reading import View, field, refusing, renamed, squeezed, statements
from warplens_tools.rewrite.common.style import Style
from warplens_tools.text import TextEdit

_BARRIER = "__syncthreads();"
_NONE = "no tree in shared memory is swept up and down"
_TYPES = re.compile(r"\b(?:const|unsigned|int|long|float|double|auto|size_t|uint32_t|T)\s+")
_PLACES = (
    r"(?P<ai>\w+)=(?P<o>\w+)\*\(2\*(?P<t>[\w.]+)\+1\)-1;"
    r"(?P<bi>\w+)=(?P=o)\*\(2\*(?P=t)\+2\)-1;"
)
_UP = re.compile(
    r"for\((?P<d>\w+)=(?P<half>[^;]+);(?P=d)>0;(?P=d)(?:>>=1|/=2)\)"
    rf"__syncthreads\(\);if\((?P<t0>[\w.]+)<(?P=d)\){_PLACES}"
    r"(?P<s>\w+)\[(?P=bi)\]\+=(?P=s)\[(?P=ai)\];(?P=o)(?:\*=2|<<=1);"
)
_DOWN = re.compile(
    r"for\((?P<d>\w+)=1;(?P=d)<(?P<n>[^;]+);(?P=d)(?:\*=2|<<=1)\)"
    r"(?P<o0>\w+)(?:>>=1|/=2);__syncthreads\(\);"
    rf"if\((?P<t0>[\w.]+)<(?P=d)\){_PLACES}"
    r"(?P<v>\w+)=(?P<s>\w+)\[(?P=ai)\];(?P=s)\[(?P=ai)\]=(?P=s)\[(?P=bi)\];(?P=s)\[(?P=bi)\]\+=(?P=v);"
)


class _Sweeps(msgspec.Struct, frozen=True):
    """Both loops, what clears the whole between them, and the barrier behind them if there is one."""

    up: Node
    clear: Node
    down: Node
    barrier: Node | None
    thread: str
    array: str
    offset: str
    #: How many elements there are, as written.
    count: str


def _apply(view: View, target: Target) -> RewriteResult:
    del target
    found = _sweeps(view)
    launches = Launches(view.text, view.model, view.kernel)
    launches.read()
    block = check_block(view, launches, found.thread)
    if block is None:
        raise Refused("its blocks are not known to be whole warps")
    count = view.expanded.constants.value(found.count, found.up.start_byte)
    twice = squeezed(found.count) in ("2*blockDim.x", "blockDim.x*2", "blockDim.x<<1", "(blockDim.x*2)")
    if (count is None or count != 2 * block) and not twice:
        raise Refused("the sweeps are not known to go over two elements for each thread of a block")
    if block & (block - 1):
        raise Refused("its elements are no power of two")
    before = view.tree.masked.code[view.body.start_byte : found.up.start_byte].decode("ascii")
    if not re.search(rf"\b{found.offset}\s*=\s*1\s*[;,]", before):
        raise Refused(_NONE)
    behind = view.tree.masked.code[found.down.end_byte : view.body.end_byte].decode("ascii")
    if re.search(rf"\b{found.offset}\b", behind):
        raise Refused("what the sweeps leave in a variable is used behind them")
    kind = shared_kind(view, found.array)
    style = Style(view)
    name = style.name(style_of(view.kernel.name, style.step).function("block", "scan"))
    last = found.barrier or found.down
    begin, end = view.start(found.up), view.end(last)
    text = style.lines("\n".join(_lines(view, style, found, kind, name))).lstrip()
    edits = (
        scan_function(view, style, name, kind, "{a} + {b}"),
        TextEdit(view.text.span(begin, end), text),
    )
    caveat = REORDERED if kind in FLOATING else ""
    return RewriteResult(edits, title="Scan two elements a thread by shuffles", caveat=caveat)


def _plain(view: View, node: Node) -> str:
    """Code without types, braces and white space."""
    return squeezed(_TYPES.sub("", view.code(node))).replace("{", "").replace("}", "")


def _sweeps(view: View) -> _Sweeps:
    top = statements(view.body)
    for index, node in enumerate(top[:-2]):
        up = _UP.fullmatch(_plain(view, node)) if node.type == "for_statement" else None
        if up is None:
            continue
        clear, loop = top[index + 1], top[index + 2]
        if _plain(view, clear) == _BARRIER and index + 3 < len(top):
            clear, loop = top[index + 2], top[index + 3]
        down = _DOWN.fullmatch(_plain(view, loop)) if loop.type == "for_statement" else None
        if down is None or clear.type != "if_statement" or clear.child_by_field_name("alternative"):
            continue
        named = [(m["t"], m["t0"], m["s"], m["o"]) for m in (up, down)]
        if named[0] != named[1] or up["t"] != up["t0"] or down["o0"] != down["o"]:
            continue
        count = down["n"]
        halves = {f"{count}>>1", f"{count}/2", f"({count})/2", f"({count})>>1"}
        if up["half"] not in halves | ({"blockDim.x"} if "blockDim.x" in count else set()):
            continue
        later = [n for n in top if n.start_byte >= loop.end_byte]
        barrier = later[0] if later and _plain(view, later[0]) == _BARRIER else None
        return _Sweeps(node, clear, loop, barrier, up["t"], up["s"], up["o"], count)
    raise Refused(_NONE)


def _lines(view: View, style: Style, found: _Sweeps, kind: str, name: str) -> list[str]:
    """What stands in the place of the sweeps."""
    s, t = found.array, found.thread
    left, upto, before = style.local("left"), style.local("upto"), style.local("before")
    return [
        _BARRIER,
        f"const {kind} {left} = {s}[2 * {t}];",
        f"const {kind} {upto} = {name}({left} + {s}[2 * {t} + 1]);",
        *_stored(view, found, upto),
        f"{s}[2 * {t} + 1] = {upto};",
        _BARRIER,
        f"const {kind} {before} = {t} > 0 ? {s}[2 * {t} - 1] : 0;",
        _BARRIER,
        f"{s}[2 * {t}] = {before};",
        f"{s}[2 * {t} + 1] = {before} + {left};",
        _BARRIER,
    ]


def _stored(view: View, found: _Sweeps, upto: str) -> list[str]:
    """What the first thread stored of the whole, stored by the last; it then cleared it."""
    inside = statements(field(found.clear, "consequence"))
    test = squeezed(view.code(field(found.clear, "condition"))).strip("()")
    if test not in (f"{found.thread}==0", f"!{found.thread}"):
        raise Refused(_NONE)
    whole = f"{found.array}[{found.count}-1]"
    if not inside or not re.fullmatch(rf"{re.escape(whole)}=0(?:\.0*)?f?;", squeezed(view.code(inside[-1]))):
        raise Refused(_NONE)
    lines = []
    for node in inside[:-1]:
        target, _, value = squeezed(view.code(node)).partition("=")
        if value != f"{whole};" or found.array in target:
            raise Refused("more than the whole sum is stored between the sweeps")
        element = next(n for n in walk(node) if n.type == "assignment_expression")
        place = renamed(view.written(field(element, "left")), {})
        lines.append(f"if ({found.thread} == blockDim.x - 1) {place} = {upto};")
    return lines


REWRITE = Rewrite(
    slug="scan-sweeps",
    title="Scan two elements a thread by shuffles instead of by sweeps",
    apply=refusing(_apply),
    answers=("barrier-heavy", "excess-barriers", "shared-bank-conflicts"),
    chance=0.6,
    gain=2.0,
)
