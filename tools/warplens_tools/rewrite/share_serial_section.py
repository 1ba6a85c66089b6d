# SPDX-License-Identifier: Apache-2.0
"""share-serial-section

Let the whole block do what one of its threads does for it.

Where thread 0 walks an array while the others wait at a barrier, every other thread of the block is idle. All threads
walk it together, join what they fold by shuffles and through shared memory, and one of them writes the result.

```cuda
__global__ void normalize(const float* in, float* out, int cols) {
  __shared__ float scale;
  const float* x = in + blockIdx.x * cols;
  if (threadIdx.x == 0) {
    float sum = 0.0f;
    for (int j = 0; j < cols; ++j) sum += x[j] * x[j];
    scale = rsqrtf(sum);
  }
  __syncthreads();
  for (int j = threadIdx.x; j < cols; j += blockDim.x) out[blockIdx.x * cols + j] = x[j] * scale;
}
```

```cuda
__device__ float warp_sum(float value) {
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, offset);
  }
  return value;
}

__device__ float block_sum(float value) {
  __shared__ float partial[32];
  const int warps = (blockDim.x + 31) / 32;
  value = warp_sum(value);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = warp_sum(threadIdx.x % 32 < warps ? partial[threadIdx.x % 32] : 0.0f);
  __syncthreads();
  return value;
}

__global__ void normalize(const float* in, float* out, int cols) {
  __shared__ float scale;
  const float* x = in + blockIdx.x * cols;
  {
    float sum = 0.0f;
    for (int j = threadIdx.x; j < cols; j += blockDim.x) sum += x[j] * x[j];
    sum = block_sum(sum);
    if (threadIdx.x == 0) scale = rsqrtf(sum);
  }
  __syncthreads();
  for (int j = threadIdx.x; j < cols; j += blockDim.x) out[blockIdx.x * cols + j] = x[j] * scale;
}
```

Left alone: a section that sets variables of its thread which are read behind it, one that not every thread of the
block would come to, and blocks that are no whole warps or of more than one dimension.
"""

from __future__ import annotations

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.values.writes import changes
from warplens_tools.rewrite.base import REORDERED, Refused, Rewrite, RewriteResult
from warplens_tools.rewrite.common.group_edits import GroupEdits
from warplens_tools.rewrite.common.groups import BlockGroup
from warplens_tools.rewrite.common.opened import Opened, opening
from warplens_tools.rewrite.common.sharing import Sharer
from warplens_tools.rewrite.common.uniform import is_uniform, why_not_all

_WARP = 32


@opening
def apply(found: Opened) -> RewriteResult:
    """Open every section of one thread that has a loop to share."""
    size = found.launches.block_value(0)
    if (size is not None and size % _WARP) or any(
        found.launches.block_value(a) not in (None, 1) for a in (1, 2)
    ):
        raise Refused("its blocks are no whole warps of one dimension")
    sections = _Sections(found)
    writer = GroupEdits(found.edits, BlockGroup(found.style, "blockDim.x", "threadIdx.x"))
    opened, joins, reason = 0, 0, ""
    for node, condition, rest in sections.find():
        body = node.child_by_field_name("consequence")
        if body is None:
            continue
        try:
            sections.check(node, body)
            sharing = Sharer(found.reader, found.rows()).share(body)
        except Refused as why:
            reason = reason or str(why)
            continue
        writer.write(sharing)
        sections.open(node, condition, rest)
        opened, joins = opened + 1, joins + len(sharing.joins)
    if not opened:
        raise Refused(reason or "no section of the kernel is executed by one thread alone")
    writer.define_helpers()
    return RewriteResult(
        found.edits.edits(),
        title="Share what one thread does for its block",
        caveat=REORDERED if joins else "",
    )


class _Sections:
    """The sections of a kernel that the first thread of a block executes alone."""

    def __init__(self, found: Opened) -> None:
        self.found, self.reader, self.tree = found, found.reader, found.reader.tree

    def find(self) -> list[tuple[Node, Node, str]]:
        """Each `if`, its condition, and what is left of that without the thread: "" for nothing."""
        sections = []
        for node in walk(self.reader.body):
            test = node.child_by_field_name("condition") if node.type == "if_statement" else None
            if test is None or node.child_by_field_name("alternative") is not None:
                continue
            inner = test.child_by_field_name("value")
            if inner is None:
                continue
            parts = _conjuncts(inner)
            kept = [part for part in parts if not self._is_first(part)]
            if len(kept) == len(parts) - 1 and all(is_uniform(self.reader, part) for part in kept):
                sections.append((node, test, " && ".join(self.tree.text_of(part) for part in kept)))
        return sections

    def _is_first(self, node: Node) -> bool:
        """`threadIdx.x == 0` or `!threadIdx.x`."""
        operator = node.child_by_field_name("operator")
        if node.type == "unary_expression" and operator is not None and operator.type == "!":
            return self._is_thread(node.child_by_field_name("argument"))
        if node.type != "binary_expression" or operator is None or operator.type != "==":
            return False
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        for one, other in ((left, right), (right, left)):
            form = self.reader.forms.form(other)
            if form is not None and form.value == 0 and self._is_thread(one):
                return True
        return False

    def _is_thread(self, node: Node | None) -> bool:
        form = self.reader.forms.form(node)
        return (
            form is not None
            and [s.name for s in form.symbols] == ["threadIdx.x"]
            and (form.coefficient("threadIdx.x") == 1 and form.constant == 0)
        )

    def check(self, node: Node, body: Node) -> None:
        """Raises `Refused` where not all threads come to a section, or it sets what is read behind it."""
        why = why_not_all(self.reader, node)
        if why:
            raise Refused(why)
        code = self.tree.code_of(body)
        shared = {
            a.name for a in self.found.kernel.arrays if a.space == "shared"
        } | self.reader.shared_scalars
        for name, nodes in self.reader.names.items():
            inside = [n for n in nodes if body.start_byte <= n.start_byte < body.end_byte]
            outer = [n for n in inside if not self.reader.is_inside(self.reader.binding(n), body)]
            if outer and name not in shared and changes(self.tree, code, name) and self._is_scalar(outer[0]):
                raise Refused(f"the section sets {name}, which is its thread's")

    def _is_scalar(self, node: Node) -> bool:
        binding = self.reader.binding(node)
        return binding is not None and binding.kind not in ("pointer", "array")

    def open(self, node: Node, condition: Node, rest: str) -> None:
        """Take the thread out of the condition."""
        if rest:
            self.found.edits.replace(condition, f"({rest})")
            return
        body = node.child_by_field_name("consequence")
        if body is None or body.type != "compound_statement":
            raise Refused("the section is one statement without braces")
        start, _ = self.found.edits.offsets(node)
        end, _ = self.found.edits.offsets(body)
        self.found.edits.cut(start, end)


def _conjuncts(node: Node) -> list[Node]:
    while node.type == "parenthesized_expression" and node.named_child_count == 1:
        node = node.named_children[0]
    operator = node.child_by_field_name("operator")
    if node.type != "binary_expression" or operator is None or operator.type != "&&":
        return [node]
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    return [part for side in (left, right) if side is not None for part in _conjuncts(side)]


REWRITE = Rewrite(
    slug="share-serial-section",
    title="Share what one thread does for its block",
    apply=apply,
    answers=("warp-divergence", "uncoalesced-global-read", "barrier-heavy"),
    chance=0.6,
    gain=4.0,
)
