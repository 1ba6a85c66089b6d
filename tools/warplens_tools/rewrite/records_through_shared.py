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

from collections.abc import Iterator, Sequence

from warplens_tools.cuda.facts.aliasing import same_buffer
from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.outputs import Axis, Outputs, launched_outputs
from warplens_tools.rewrite.common.own_records import Record, RecordReader, record_axis
from warplens_tools.rewrite.common.reading import View, refusing, require_apart
from warplens_tools.rewrite.common.through_shared import ThroughShared


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
    return writer.result("Bring records through shared memory")


class _Writer(ThroughShared[Record]):
    """The new text of one kernel."""

    def __init__(
        self, view: View, launches: Launches, outputs: Outputs, axis: Axis, records: Sequence[Record]
    ) -> None:
        super().__init__(view, launches, outputs, axis, records, name="kRecords", of="records")
        self.own = {r.array: self.style.local(f"own{r.array[:1].upper()}{r.array[1:]}") for r in records}

    def bytes_of(self, one: Record) -> int:
        return _padded(one) * (type_bytes(one.type) or 8)

    def shared(self, one: Record) -> str:
        return f"__shared__ {one.type} {self.own[one.array]}[{self.count}][{_padded(one)}];"

    def moved(self, one: Record, *, inward: bool) -> str:
        t, length = self.t, one.length
        own = f"{self.own[one.array]}[{t} / {length}][{t} % {length}]"
        there = f"{one.array}[(size_t){self.first} * {length} + {t}]"
        head = f"for (int {t} = threadIdx.x; {t} < {self.held} * {length}; {t} += {self.count})"
        return f"{head} {own} = {there};" if inward else f"{head} {there} = {own};"

    def named(self) -> Iterator[str]:
        for one in self.every:
            own = f"{self.own[one.array]}[threadIdx.x]"
            self.replaced += [(e, f"{own}[{rest or '0'}]") for e, rest in one.elements]
            for use in one.begins:
                whole = use.parent
                while (
                    whole is not None and whole.parent is not None and whole.parent.type != "init_declarator"
                ):
                    whole = whole.parent
                assert whole is not None
                self.replaced.append((whole, own))
        yield from ()


def _padded(one: Record) -> int:
    """Elements from record to record: an odd number, so that lanes fall into banks of their own."""
    return one.length | 1


REWRITE = Rewrite(
    slug="records-through-shared",
    title="Bring each thread's record in and out through shared memory",
    apply=refusing(_apply),
    answers=("uncoalesced-global-read", "uncoalesced-global-write"),
    chance=0.5,
    gain=2.5,
    ranges={"kRecords": (32, 64, 128, 256)},
)
