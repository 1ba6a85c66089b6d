# SPDX-License-Identifier: Apache-2.0
"""records-through-shared

Bring each thread's record in and out through shared memory.

Where every thread solves a small problem of its own, as the product of two small matrices, lanes read and write a whole
record apart: each access of a warp takes as many sectors as it has lanes, and caches are too small to keep them for the
next element. The records of a block stand behind each other, so its threads bring them in side by side, work in shared
memory, and bring the results out in the same way.

```cuda
#define N 4
__global__ void multiply(const float* A, const float* B, float* C, int batch) {
  int b = blockIdx.x * blockDim.x + threadIdx.x;
  if (b >= batch) return;
  const float* left = A + b * N * N;
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      float s = 0.0f;
      for (int k = 0; k < N; k++) s += left[i * N + k] * B[b * N * N + k * N + j];
      C[b * N * N + i * N + j] = s;
    }
}
void run(const float* A, const float* B, float* C, int batch) {
  multiply<<<(batch + 255) / 256, 256>>>(A, B, C, batch);
}
```

```cuda
#define N 4

#define RECORDS 128  // of a block, one for each thread

__global__ void multiply(const float* A, const float* B, float* C, int batch) {
  __shared__ float ownA[RECORDS][17];
  __shared__ float ownB[RECORDS][17];
  __shared__ float ownC[RECORDS][17];
  const int b0 = blockIdx.x * RECORDS;
  const int held = batch - b0 < RECORDS ? batch - b0 : RECORDS;
  for (int t = threadIdx.x; t < held * 16; t += RECORDS) ownA[t / 16][t % 16] = A[(size_t)b0 * 16 + t];
  for (int t = threadIdx.x; t < held * 16; t += RECORDS) ownB[t / 16][t % 16] = B[(size_t)b0 * 16 + t];
  __syncthreads();
  int b = b0 + threadIdx.x;
  if (b < batch) {
    const float* left = ownA[threadIdx.x];
    for (int i = 0; i < N; i++)
      for (int j = 0; j < N; j++) {
        float s = 0.0f;
        for (int k = 0; k < N; k++) s += left[i * N + k] * ownB[threadIdx.x][k * N + j];
        ownC[threadIdx.x][i * N + j] = s;
      }
  }
  __syncthreads();
  for (int t = threadIdx.x; t < held * 16; t += RECORDS) C[(size_t)b0 * 16 + t] = ownC[t / 16][t % 16];
}
void run(const float* A, const float* B, float* C, int batch) {
  multiply<<<(batch + RECORDS - 1) / RECORDS, RECORDS>>>(A, B, C, batch);
}
```

Left alone: records of a length that the run tells, shorter than 32 bytes or too long for a warp of them to fit into
shared memory, indices that nothing keeps inside a record, and elements that are no words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tree_sitter import Node

from warplens_tools.cuda.facts.aliasing import same_buffer
from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.declared import Declared, unqualified
from warplens_tools.rewrite.common.launches import Launches, rounded_up
from warplens_tools.rewrite.common.outputs import Axis, Outputs, launched_outputs
from warplens_tools.rewrite.common.own_records import Record, RecordReader, record_axis
from warplens_tools.rewrite.common.reading import View, refusing, require_apart, substituted
from warplens_tools.rewrite.common.sizes import host_text
from warplens_tools.rewrite.common.style import Style, indented
from warplens_tools.text import TextEdit

_STATIC_BYTES = 48 * 1024
_CAVEAT = "undefined results if two of the buffers overlap"


def _apply(view: View, target: Target) -> RewriteResult:
    del target
    require_apart(view)
    launches, outputs = launched_outputs(view)
    axis = record_axis(launches, outputs)
    records = list(RecordReader(view, axis).records())
    if not records:
        raise Refused("no record of a constant length is each thread's own")
    if len(same_buffer(view.file, view.model, view.kernel) & {r.array for r in records}) > 1:
        raise Refused("a launch passes the same memory twice")
    writer = _Writer(view, launches, outputs, axis, records)
    return writer.result()


class _Writer:
    """The new text of one kernel."""

    def __init__(
        self, view: View, launches: Launches, outputs: Outputs, axis: Axis, records: Sequence[Record]
    ) -> None:
        self.view, self.launches, self.outputs, self.axis = view, launches, outputs, axis
        self.style = Style(view)
        self.records, threads = records, _fitting(records)
        self.count = self.style.constant("kRecords", str(threads), "of a block, one for each thread")
        self.first, self.held = self.style.local(f"{axis.name}0"), self.style.local("held")
        self.t = self.style.local("t")
        self.own = {r.array: self.style.local(f"own{r.array[:1].upper()}{r.array[1:]}") for r in self.records}

    def result(self) -> RewriteResult:
        """All edits."""
        for launch in self.launches.read():
            limit = host_text(self.view, self.launches, launch, self.axis.limit)
            self.launches.set(launch.grid, {0: rounded_up(limit, self.count)})
            self.launches.set(launch.block, {0: self.count})
        view, newline = self.view, self.view.text.newline
        code = self.style.lines("\n".join(self._lines()))
        text = f"{{{newline}{code}{newline}{self.style.margin}}}"
        edit = TextEdit(view.text.span(view.start(view.body), view.end(view.body)), text)
        edits = (self.style.constants(), edit, *self.launches.edits())
        return RewriteResult(edits, title="Bring records through shared memory", caveat=_CAVEAT)

    def _lines(self) -> Iterator[str]:
        kind, axis = unqualified(self.axis.type), self.axis
        for one in self.records:
            yield f"__shared__ {one.type} {self.own[one.array]}[{self.count}][{_padded(one)}];"
        yield f"const {kind} {self.first} = blockIdx.x * {self.count};"
        left = f"{axis.limit} - {self.first}"
        yield f"const int {self.held} = {left} < {self.count} ? {left} : {self.count};"
        yield from (self._moved(r, inward=True) for r in self.records if r.needed)
        if any(r.needed for r in self.records):
            yield "__syncthreads();"
        yield f"{axis.type} {axis.name} = {self.first} + threadIdx.x;"
        tests = [f"{axis.name} < {axis.limit}", *self.outputs.uniform, *self.outputs.others]
        yield f"if ({' && '.join(tests)}) {{"
        yield from (indented(line) for line in self._work())
        yield "}"
        if any(r.written for r in self.records):
            yield "__syncthreads();"
        yield from (self._moved(r, inward=False) for r in self.records if r.written)

    def _moved(self, one: Record, *, inward: bool) -> str:
        """The loop that brings the records of one array in or out."""
        t, length = self.t, one.length
        own = f"{self.own[one.array]}[{t} / {length}][{t} % {length}]"
        there = f"{one.array}[(size_t){self.first} * {length} + {t}]"
        head = f"for (int {t} = threadIdx.x; {t} < {self.held} * {length}; {t} += {self.count})"
        return f"{head} {own} = {there};" if inward else f"{head} {there} = {own};"

    def _work(self) -> Iterator[str]:
        replaced = list[tuple[Node, str]]()
        for one in self.records:
            own = f"{self.own[one.array]}[threadIdx.x]"
            replaced += [(e, f"{own}[{rest or '0'}]") for e, rest in one.elements]
            for use in one.begins:
                whole = use.parent
                while (
                    whole is not None and whole.parent is not None and whole.parent.type != "init_declarator"
                ):
                    whole = whole.parent
                assert whole is not None
                replaced.append((whole, own))
        for declared in self.outputs.declared:
            yield self._declaration(declared, replaced)
        for node in self.outputs.work:
            inside = [(n, s) for n, s in replaced if node.start_byte <= n.start_byte < node.end_byte]
            yield self.style.code(substituted(self.view, node, inside), self.view.margin(node))

    def _declaration(self, one: Declared, replaced: Sequence[tuple[Node, str]]) -> str:
        if one.value is None:
            return f"{one.type} {one.stars}{one.name}{f' = {one.text}' if one.text else ''};"
        node, head = one.value, f"{one.type} {one.stars}{one.name}"
        if one.stars and re.search(rf"\*\s+{one.name}\b", self.view.code(one.statement)):
            head = f"{one.type}{one.stars} {one.name}"
        inside = [(n, s) for n, s in replaced if node.start_byte <= n.start_byte < node.end_byte]
        return f"{head} = {substituted(self.view, node, inside)};"


def _padded(one: Record) -> int:
    """Elements from record to record: an odd number, so that lanes fall into banks of their own."""
    return one.length | 1


def _fitting(records: Sequence[Record]) -> int:
    """Of how many threads the records fit into shared memory.

    Raises:
        Refused: not even those of a warp fit.
    """
    bytes_each = sum(_padded(r) * (type_bytes(r.type) or 8) for r in records)
    found = next((n for n in (128, 64, 32) if n * bytes_each <= _STATIC_BYTES), 0)
    if not found:
        raise Refused("the records of a warp do not fit into shared memory")
    return found


REWRITE = Rewrite(
    slug="records-through-shared",
    title="Bring each thread's record in and out through shared memory",
    apply=refusing(_apply),
    answers=("uncoalesced-global-read", "uncoalesced-global-write"),
    chance=0.5,
    gain=2.5,
    ranges={"kRecords": (32, 64, 128, 256)},
)
