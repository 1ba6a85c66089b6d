# SPDX-License-Identifier: Apache-2.0
"""scan-by-shuffle

Scan a block's elements by shuffles instead of in shared memory.

A scan in shared memory (of Hillis and Steele) takes ten rounds for 1,024 elements, with one or two barriers each. The
lanes of a warp exchange their sums without any; the warps' totals meet in shared memory once, and three barriers are
left.

```cuda
__global__ void scan(const int* in, int* out) {
  __shared__ int sums[256];
  int tid = threadIdx.x;
  int i = blockIdx.x * 256 + tid;
  sums[tid] = in[i];
  __syncthreads();
  for (int d = 1; d < 256; d *= 2) {
    int v = 0;
    if (tid >= d) v = sums[tid - d];
    __syncthreads();
    sums[tid] += v;
    __syncthreads();
  }
  out[i] = sums[tid];
}
void run(const int* in, int* out, int blocks) { scan<<<blocks, 256>>>(in, out); }
```

```cuda
__device__ int block_scan(int value) {
  __shared__ int totals[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int offset = 1; offset < 32; offset *= 2) {
    const int other = __shfl_up_sync(0xffffffff, value, offset);
    if (lane >= offset) value = other + value;
  }
  if (lane == 31) totals[warp] = value;
  __syncthreads();
  if (warp == 0) {
    int total = totals[lane < blockDim.x / 32 ? lane : 0];
    for (int offset = 1; offset < 32; offset *= 2) {
      const int other = __shfl_up_sync(0xffffffff, total, offset);
      if (lane >= offset) total = other + total;
    }
    __syncwarp();
    totals[lane] = total;
  }
  __syncthreads();
  if (warp > 0) value = totals[warp - 1] + value;
  return value;
}

__global__ void scan(const int* in, int* out) {
  __shared__ int sums[256];
  int tid = threadIdx.x;
  int i = blockIdx.x * 256 + tid;
  sums[tid] = in[i];
  __syncthreads();
  sums[tid] = block_scan(sums[tid]);
  __syncthreads();
  out[i] = sums[tid];
}
void run(const int* in, int* out, int blocks) { scan<<<blocks, 256>>>(in, out); }
```

Sums, products, minima and maxima are taken, in one buffer with a value kept over the barrier, or in two that change
places. Left alone: blocks that are no whole warps, scans of less than the block, and loops whose threads read what
others have written without a barrier between.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.rewrite.base import REORDERED, Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.block_scan import FLOATING, check_block, scan_function, shared_kind
from warplens_tools.rewrite.common.groups import style_of
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.reading import View, assigned, field, refusing, squeezed
from warplens_tools.rewrite.common.style import Style
from warplens_tools.text import TextEdit

_BARRIER = "__syncthreads();"
_HEAD = re.compile(
    r"(?:(?:const|unsigned|size_t|int|long|auto|uint32_t)*)(?P<d>\w+)=1;"
    r"(?:(?P=d)<(?P<limit>[^;]+)|(?P<other>[^;]+)>(?P=d));"
    r"(?P=d)(?:\*=2|<<=1|=(?P=d)\*2|=2\*(?P=d)|=(?P=d)<<1|\+=(?P=d))"
)
#: The type in front of a variable that is declared.
_DECLARED = re.compile(r"\b(?!else\b)(?:[A-Za-z_]\w*\s+)+(?=\w+\s*[=;])")
_ZERO = re.compile(r"0+(?:\.0*)?[fFuU]*")
_CAST = re.compile(r"\((?:int|unsigned|unsignedint|size_t)\)(?=\w)")


class _Found(msgspec.Struct, frozen=True):
    """One scan: its loop, its thread's number, the element that is scanned, how two are joined."""

    loop: Node
    thread: str
    array: str
    element: str
    limit: str
    #: `{a}` is before `{b}`.
    joined: str
    #: Its body begins with a barrier.
    waits: bool


def _apply(view: View, target: Target) -> RewriteResult:
    found = [s for s in _scans(view) if not target.lines or view.span(s.loop).line in target.lines]
    if not found:
        raise Refused("no loop scans the elements of a block in shared memory")
    launches = Launches(view.text, view.model, view.kernel)
    launches.read()
    kinds = {shared_kind(view, one.array) for one in found}
    ways = {one.joined for one in found}
    if len(kinds) > 1 or len(ways) > 1:
        raise Refused("it scans elements of several types")
    kind, joined = kinds.pop(), ways.pop()
    for one in found:
        _check(view, launches, one)
    style = Style(view)
    name = style.name(style_of(view.kernel.name, style.step).function("block", "scan"))
    edits = [scan_function(view, style, name, kind, joined)]
    for one in found:
        margin = re.match(r"[ \t]*", view.text.line_text(view.span(one.loop).line))
        between = view.text.newline + (margin[0] if margin is not None else "")
        lines = [_BARRIER] * one.waits + [f"{one.element} = {name}({one.element});", _BARRIER]
        edits.append(TextEdit(view.span(one.loop), between.join(lines)))
    is_exact = kind not in FLOATING or "max" in joined or "min" in joined
    caveat = "" if is_exact else REORDERED
    return RewriteResult(tuple(edits), title="Scan by shuffles, not in shared memory", caveat=caveat)


def _scans(view: View) -> Iterator[_Found]:
    for loop in walk(view.body):
        if loop.type != "for_statement" or not view.is_plain_enough(loop):
            continue
        body = field(loop, "body")
        written = squeezed(view.code(loop))
        head = _HEAD.match(written.removeprefix("for("))
        if head is None or "#" in view.written(loop):
            continue
        plain = _DECLARED.sub("", view.code(body))
        code = _CAST.sub("", squeezed(plain).replace("{", "").replace("}", ""))
        limit = head["limit"] or head["other"]
        found = _kept(code, head["d"]) or _swapped(code, head["d"])
        if found is not None:
            thread, array, element, joined = found
            own = next((n for n in view.elements(body) if squeezed(view.code(n)) == element), None)
            if own is not None:
                written = view.written(own)
                yield _Found(loop, thread, array, written, limit, joined, code.startswith(_BARRIER))


def _kept(code: str, d: str) -> tuple[str, str, str, str] | None:
    """One buffer: what is before is kept in a variable over a barrier."""
    parts = [p for p in code.split(_BARRIER) if p]
    if len(parts) != 2:
        return None
    at_least = rf"if\((?:(?P<t>[\w.]+)>={d}|{d}<=(?P<u>[\w.]+))\)"
    read = re.fullmatch(
        rf"(?:(?P<v>\w+)(?:=(?P<empty>[\w.]+))?;)?{at_least}(?P<w>\w+)=(?P<e>[^;]+);", parts[0]
    ) or re.fullmatch(rf"(?P<w>\w+)=\(?(?P<t>[\w.]+)>={d}\)?\?(?P<e>[^;:]+):(?P<empty>[\w.]+);", parts[0])
    if read is None:
        return None
    groups = read.groupdict()
    t, v, value = groups["t"] or groups.get("u", ""), groups["w"], groups["e"]
    own = rf"(?P<s>\w+)\[{re.escape(t)}\]"
    first = re.match(r"\w+", value)
    if first is None or groups.get("v") not in (None, v):
        return None
    put = re.fullmatch(rf"(?:if\((?:{re.escape(t)}>={d}|{d}<={re.escape(t)})\))?(?P<put>[^;]+);", parts[1])
    place = re.match(own, put["put"]) if put is not None else None
    if put is None or place is None:
        return None
    mine, other = f"{place['s']}[{t}]", f"{place['s']}[{t}-{d}]"
    whole = put["put"].replace(mine, "<own>") if v in put["put"] else ""
    # what is kept is the neighbour's element, or the join already
    if value == other:
        step = re.sub(rf"\b{v}\b", "<other>", whole)
        adds_nothing = _ZERO.fullmatch(groups["empty"] or "") is not None and "+" in step
        joined = _join(step) if adds_nothing or parts[1].startswith("if(") else None
    else:
        is_plain = whole == f"<own>={v}" and parts[1].startswith("if(")
        joined = (
            _join("<own>=" + value.replace(mine, "<own>").replace(other, "<other>")) if is_plain else None
        )
    return (t, place["s"], mine, joined) if joined else None


def _join(step: str) -> str | None:
    """`{a} + {b}` of `own += other` in its spellings."""
    if step in ("<own>+=<other>", "<own>=<own>+<other>", "<own>=<other>+<own>"):
        return "{a} + {b}"
    if step in ("<own>*=<other>", "<own>=<own>*<other>", "<own>=<other>*<own>"):
        return "{a} * {b}"
    called = re.fullmatch(r"<own>=(f?(?:max|min)f?)\((?:<own>,<other>|<other>,<own>)\)", step)
    return f"{called[1]}({{a}}, {{b}})" if called is not None else None


def _swapped(code: str, d: str) -> tuple[str, str, str, str] | None:
    """Two buffers that change places: `pout = 1 - pout; pin = 1 - pout;`."""
    bare = code.removeprefix(_BARRIER)
    if bare.count(_BARRIER) + code.startswith(_BARRIER) < 1:
        return None
    read = re.fullmatch(
        r"(?P<o>\w+)=1-(?P=o);(?P<i>\w+)=1-(?P=o);"
        rf"if\((?P<t>[\w.]+)>={d}\)(?P<to>[^=;]+)=(?P<from>[^;]+);else(?P<to2>[^=;]+)=(?P<own>[^;]+);",
        bare.replace(_BARRIER, ""),
    )
    if read is None or read["to"] != read["to2"]:
        return None
    to, own, t = read["to"], read["own"], read["t"]
    if re.sub(rf"\b{read['o']}\b", read["i"], to) != own or not re.search(rf"\b{read['o']}\b", to):
        return None
    if not own.endswith((f"+{t}]", f"[{t}]")):
        return None
    other = own.removesuffix("]") + f"-{d}]"
    array = re.match(r"\w+", to)
    joined = _join("<own>=" + read["from"].replace(other, "<other>").replace(own, "<own>"))
    return (t, array[0], to, joined) if array is not None and joined else None


def _check(view: View, launches: Launches, one: _Found) -> None:
    """Raises `Refused` where not the whole block scans, one element a thread."""
    block = check_block(view, launches, one.thread)
    known = view.expanded.constants.value(one.limit, one.loop.start_byte)
    if one.limit != "blockDim.x" and (known is None or block is None or known < block):
        raise Refused("it is not known to scan the whole block")
    behind = view.tree.masked.code[one.loop.end_byte : view.body.end_byte].decode("ascii")
    changed = {name for name, _ in assigned(field(one.loop, "body"), view)} - {one.array}
    used = (name for name in changed if re.search(rf"\b{name}\b", behind))
    if any(not re.search(rf"\b{name}\b", one.element) for name in used):
        raise Refused("what the scan leaves in a variable is used behind it")
    outer = one.loop.parent
    while outer is not None and outer.id != view.body.id:
        if outer.type == "if_statement":
            raise Refused("the scan stands under a condition")
        outer = outer.parent


REWRITE = Rewrite(
    slug="scan-by-shuffle",
    title="Scan by shuffles instead of in shared memory",
    apply=refusing(_apply),
    answers=("barrier-heavy", "excess-barriers", "shared-bank-conflicts"),
    chance=0.6,
    gain=1.8,
)
