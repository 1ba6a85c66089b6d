# SPDX-License-Identifier: Apache-2.0
"""Writes a product for tensor cores whose tiles come in stages: some are on their way while one is multiplied."""

from __future__ import annotations

import msgspec

from warplens_tools.idioms.common.bounds import bounded
from warplens_tools.rewrite.base import RewriteResult
from warplens_tools.rewrite.common.declared import unqualified
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.operand_tiles import Operand, Product
from warplens_tools.rewrite.common.reading import View, renamed
from warplens_tools.rewrite.common.style import indented
from warplens_tools.rewrite.common.tensor_writer import EDGE, TensorWriter, including

#: Bytes of a sum, in float or int.
SUM_BYTES = 4


class StagedWriter(TensorWriter):
    """The new text of one kernel, and of its launches. Raises as `TensorWriter`."""

    def __init__(self, view: View, product: Product, launches: Launches) -> None:
        super().__init__(view, product, launches)
        self.stages = self.style.constant("kTensorStages", "2", "tiles of either operand that are held")
        local = self.style.local
        self.memory = local("memory")
        self.sizes = {i: local(f"bytes{n[4:].lstrip('_').title()}") for i, n in self.tiles.items()}
        self.fetch, self.stage, self.now, self.next = (
            local("fetch"),
            local("stage"),
            local("now"),
            local("next"),
        )

    def result(self, title: str, caveat: str) -> RewriteResult:
        """All edits."""
        found = super().result(title, caveat)
        headers = [e for name in ("cuda_pipeline.h", "mma.h") for e in including(self.view.text, name)]
        joined = (
            [msgspec.structs.replace(headers[0], new_text="".join(e.new_text for e in headers))]
            if headers
            else []
        )
        return msgspec.structs.replace(found, edits=(*joined, bounded(self.view, self.threads), *found.edits))

    def _shared(self) -> str:
        """The tiles of all stages in one stretch of memory, which the sums have in the end."""
        lines, sizes = list[str](), list[str]()
        for operand in self.product.operands:
            size, kind = self.sizes[id(operand)], operand.element_type
            rows, columns = self._extents(operand)
            lines.append(f"constexpr int {size} = sizeof({kind}) * {self.stages} * {rows} * ({columns});")
            sizes.append(size)
        all_of, sums = " + ".join(sizes), f"{self.rows.threads} * {self._sums_bytes()}"
        extent = f"{all_of} > {sums} ? {all_of} : {sums}"
        lines.append(f"__shared__ __align__(32) unsigned char {self.memory}[{extent}];")
        for at, operand in enumerate(self.product.operands):
            place = " + ".join([self.memory, *sizes[:at]])
            rows, columns = self._extents(operand)
            kind = f"{operand.element_type} (*)[{rows}][{columns}]"
            lines.append(f"auto {self.tiles[id(operand)]} = reinterpret_cast<{kind}>({place});")
        return "\n".join(lines)

    def _sums_bytes(self) -> int:
        """Of one warp's matrix of sums."""
        return SUM_BYTES * EDGE * (EDGE + 4)

    def _staging(self) -> str:
        kind = f"{self.kind.type} (*)[{EDGE}][{EDGE + 4}]"
        return f"__syncthreads();\nauto {self.staged} = reinterpret_cast<{kind}>({self.memory});"

    def _tile(self, operand: Operand) -> str:
        return f"{self.tiles[id(operand)]}[{self.stage}]"

    def _read_tile(self, operand: Operand) -> str:
        return f"{self.tiles[id(operand)]}[{self.now}]"

    def _copied(self, target: str, source: str) -> str:
        return f"__pipeline_memcpy_async({target}, {source}, 16);"

    def _loop(self) -> str:
        product, written = self.product, unqualified(self.product.type)
        condition = self.view.written(product.condition)
        here, further = (renamed(condition, {product.variable: at}) for at in (self.outer, self.next))
        begin = "" if product.first == "0" else f"{product.first} + "
        ahead = f"({self.stages} - 1)"
        last = f"({self.now} + {self.stages} - 1) % {self.stages}"
        loop = "\n".join(
            [
                f"auto {self.fetch} = [&](int {self.stage}, {written} {self.outer}) {{",
                *(indented(self._load(operand)) for operand in product.operands),
                "};",
                f"for (int {self.stage} = 0; {self.stage} + 1 < {self.stages}; ++{self.stage}) {{",
                f"  const {written} {self.next} = {begin}{self.stage} * {self.depth};",
                f"  if ({further}) {self.fetch}({self.stage}, {self.next});",
                "  __pipeline_commit();",
                "}",
                f"int {self.now} = 0;",
                f"for ({written} {self.outer} = {product.first}; {here}; {self.outer} += {self.depth}) {{",
                f"  __pipeline_wait_prior({self.stages} - 2);",
                "  __syncthreads();",
                f"  const {written} {self.next} = {self.outer} + {ahead} * {self.depth};",
                f"  if ({further}) {self.fetch}({last}, {self.next});",
                "  __pipeline_commit();",
                indented(self._compute()),
                f"  {self.now} = ({self.now} + 1) % {self.stages};",
                "}",
            ]
        )
        return f"{self._needed()}\n{indented(loop)}\n}}" if self.outputs.early else loop
