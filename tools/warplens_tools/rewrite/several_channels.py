# SPDX-License-Identifier: Apache-2.0
"""several-channels

Let each thread work out several channels of its output, with the input they share in registers.

In a convolution every output channel reads the same input. Where the channel is an index of the block, blocks read it
again and again; a thread that works out four channels loads each element once for four sums, and the weights, which
are the same for a whole warp, beside it.

```cuda
__global__ void conv(const float* in, const float* weights, float* out, int C, int H, int W, int K, int R) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  int k = blockIdx.z;
  if (x >= W || y >= H) return;
  float sum = 0.0f;
  for (int c = 0; c < C; ++c) {
    for (int r = 0; r < R; ++r) {
      sum += in[(c * (H + R) + y + r) * W + x] * weights[(k * C + c) * R + r];
    }
  }
  out[(k * H + y) * W + x] = sum;
}
void run(const float* in, const float* weights, float* out, int C, int H, int W, int K, int R) {
  dim3 block(32, 8), grid((W + 31) / 32, (H + 7) / 8, K);
  conv<<<grid, block>>>(in, weights, out, C, H, W, K, R);
}
```

```cuda
constexpr int kOutputs = 4;  // of a thread

__global__ void conv(const float* in, const float* weights, float* out, int C, int H, int W, int K, int R) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= W || y >= H) return;
  const int k0 = blockIdx.z * kOutputs;
  float sum[kOutputs] = {};
  for (int c = 0; c < C; ++c) {
    for (int r = 0; r < R; ++r) {
      #pragma unroll
      for (int o = 0; o < kOutputs; ++o) {
        int k = k0 + o < K ? k0 + o : K - 1;
        sum[o] += in[(c * (H + R) + y + r) * W + x] * weights[(k * C + c) * R + r];
      }
    }
  }
  #pragma unroll
  for (int o = 0; o < kOutputs; ++o) {
    int k = k0 + o;
    if (k < K) out[(k * H + y) * W + x] = sum[o];
  }
}
void run(const float* in, const float* weights, float* out, int C, int H, int W, int K, int R) {
  dim3 block(32, 8), grid((W + 31) / 32, (H + 7) / 8, (K + kOutputs - 1) / kOutputs);
  conv<<<grid, block>>>(in, weights, out, C, H, W, K, R);
}
```

A channel that is divided out of the block's index, `blockIdx.z % K` beside `blockIdx.z / K`, is one as well. Left
alone: channels of which nothing says how many there are, and loops in which nothing is read by all of them alike.
"""

from __future__ import annotations

import re

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.declared import Declared, unqualified
from warplens_tools.rewrite.common.digits import factors
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.outputs import Axis, Outputs, launched_outputs
from warplens_tools.rewrite.common.outputs_writer import OutputsWriter
from warplens_tools.rewrite.common.reading import View, refusing, require_apart, squeezed, stores
from warplens_tools.rewrite.common.sizes import host_text


class _Channel(msgspec.Struct, frozen=True):
    """The variable that numbers channels."""

    declared: Declared
    letter: str
    limit: str
    #: The block's index as the kernel names it, and the variable that is its quotient; "" and None for an index alone.
    whole: str = ""
    rest: Declared | None = None


def _apply(view: View, target: Target) -> RewriteResult:
    del target
    require_apart(view)
    launches, outputs = launched_outputs(view)
    if outputs.early or outputs.others or any(not a.letter for a in outputs.axes):
        raise Refused("its outputs are not numbered along the axes of the launch alone")
    if not any(n.type == "for_statement" and not stores(view, n) for n in outputs.work):
        raise Refused("no loop works out an output")
    channel = _channel(view, launches, outputs)
    widened = _with_axis(view, outputs, channel)
    _check(view, widened, channel.declared.name)
    return _Writer(view, widened, launches, channel).result()


def _channel(view: View, launches: Launches, outputs: Outputs) -> _Channel:
    taken = {a.letter for a in outputs.axes}
    named = {
        d.name: squeezed(view.code(d.value)) for d in outputs.declared if d.value is not None and not d.stars
    }
    for letter in (one for one in "zy" if one not in taken):
        index = f"blockIdx.{letter}"
        wholes = {index, *(name for name, code in named.items() if code == index)}
        for one in outputs.declared:
            code = named.get(one.name, "")
            found = re.fullmatch(r"\(?([\w.]+)\)?%([\w.]+)", code)
            if found is not None and found[1] in wholes:
                rests = [d for d in outputs.declared if named.get(d.name) == f"{found[1]}/{found[2]}"]
                if len(rests) == 1:
                    return _Channel(one, letter, found[2], found[1], rests[0])
        for one in outputs.declared:
            divided = any(re.search(rf"\b{one.name}\b[/%]", code) for code in named.values())
            if named.get(one.name) == index and not divided and (limit := _extent(view, launches, letter)):
                return _Channel(one, letter, limit)
    raise Refused("no index of the block numbers channels, or nothing says how many there are")


def _extent(view: View, launches: Launches, letter: str) -> str:
    """The parameter that every launch has as its grid's extent along an axis; "" for none."""
    found: set[str] = set()
    for launch in launches.read():
        extent = launch.grid.axis("xyz".index(letter)).strip()
        given = zip(view.kernel.parameters, launch.site.arguments, strict=False)
        names = [p.name for p, argument in given if argument.strip() == extent and not p.pointer]
        found.add(names[0] if names else "")
    return found.pop() if len(found) == 1 else ""


def _with_axis(view: View, outputs: Outputs, channel: _Channel) -> Outputs:
    """The outputs with channels as their last axis."""
    one, name = channel.declared, channel.declared.name
    axis = Axis(name, one.type, channel.letter, channel.limit, at=one.value.start_byte if one.value else 0)
    rests = dict(outputs.rests)
    rests[name] = frozenset({name})
    if any(channel.rest is not None and channel.whole in view.names(n) for n in outputs.work):
        raise Refused("the work uses the index that its channel is divided out of")
    for other in outputs.declared:
        if other.name == name or other.value is None or _is(other, channel.rest):
            continue
        if name in _reached(view, other.value, rests) or _mentions(view, channel, other):
            rests[other.name] = rests.get(other.name, frozenset()) | {name}
    declared = tuple(d for d in outputs.declared if d.name != name)
    uniform = tuple(c for c in outputs.uniform if squeezed(c) != squeezed(f"{name} < {channel.limit}"))
    if any(re.search(rf"\b{name}\b", condition) for condition in uniform):
        raise Refused("a condition chooses channels")
    return msgspec.structs.replace(
        outputs, axes=(*outputs.axes, axis), declared=declared, rests=rests, uniform=uniform
    )


def _is(one: Declared, other: Declared | None) -> bool:
    return other is not None and one.name == other.name


def _mentions(view: View, channel: _Channel, one: Declared) -> bool:
    """Whether a variable is made of the index that the channel is divided out of."""
    if channel.rest is None or one.value is None or one.name == channel.whole:
        return False
    return bool(re.search(rf"\b{re.escape(channel.whole)}\b", view.written(one.value)))


def _reached(view: View, node: Node, rests: dict[str, frozenset[str]]) -> frozenset[str]:
    return frozenset[str]().union(*(rests.get(n, frozenset()) for n in view.names(node)))


def _check(view: View, outputs: Outputs, name: str) -> None:
    """That channels share what a loop reads, and differ in something of it."""
    shared = apart = False
    loops = [n for work in outputs.work for n in walk(work) if n.type == "for_statement"]
    for element in (e for loop in loops for e in view.elements(loop) if view.space(e) == "global"):
        on = outputs.resting(view.names(element))
        apart, shared = apart or name in on, shared or name not in on
    if not (shared and apart):
        raise Refused("its channels read nothing in common")


class _Writer(OutputsWriter):
    def __init__(self, view: View, outputs: Outputs, launches: Launches, channel: _Channel) -> None:
        self.channel = channel
        super().__init__(view, outputs, launches)

    def _groups(self) -> str:
        limit = self.channel.limit
        return f"(({limit} + {self.count} - 1) / {self.count})"

    def _top(self) -> str:
        top, rest = super()._top(), self.channel.rest
        if rest is None:
            return top
        line = self._declaration(rest)
        if f"\n{line}\n" not in f"\n{top}\n":
            raise Refused("what its channel is divided out of is not declared before the work")
        return top.replace(line, f"{rest.type} {rest.name} = {self.channel.whole} / {self._groups()};")

    def _declaration(self, one: Declared) -> str:
        """Made of the channel and its quotient where it was made of the index that they are divided out of."""
        text, channel = super()._declaration(one), self.channel
        if channel.rest is None or one.name == channel.rest.name or not _mentions(self.view, channel, one):
            return text
        whole = f"({channel.rest.name} * {channel.limit} + {channel.declared.name})"
        return re.sub(rf"\b{re.escape(channel.whole)}\b", whole, text)

    def _first(self) -> str:
        kind = unqualified(self.axis.type)
        value = f"blockIdx.{self.axis.letter}"
        if self.channel.rest is not None:
            value = f"{self.channel.whole} % {self._groups()}"
        return f"const {kind} {self.first} = {value} * {self.count};"

    def _relaunch(self) -> None:
        if self.channel.rest is None:
            super()._relaunch()
            return
        index = "xyz".index(self.axis.letter)
        for launch in self.launches.read():
            limit = host_text(self.view, self.launches, launch, self.channel.limit)
            parts = factors(launch.grid.axis(index))
            if limit not in parts:
                raise Refused("the launch does not say how many channels there are")
            parts[parts.index(limit)] = f"(({limit} + {self.count} - 1) / {self.count})"
            self.launches.set(launch.grid, {index: " * ".join(parts)})


REWRITE = Rewrite(
    slug="several-channels",
    title="Work out several channels of an output a thread",
    apply=refusing(_apply),
    answers=("low-ilp", "missing-cache-reuse"),
    useless_at="dram",
    chance=0.5,
    gain=2.5,
    ranges={"kOutputs": (2, 4, 8)},
)
