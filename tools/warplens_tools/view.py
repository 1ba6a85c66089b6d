# SPDX-License-Identifier: Apache-2.0
"""What a micro-profiling tool, and all it is made of, may look at."""

from __future__ import annotations

import msgspec

from warplens_tools.arch.gpu import Gpu
from warplens_tools.cuda.model import Kernel, SourceModel
from warplens_tools.evidence import KernelEvidence
from warplens_tools.finding import Bottleneck
from warplens_tools.text import SourceText, Span


class KernelView(msgspec.Struct, frozen=True):
    """All a tool may look at: the kernel, its file, the GPU, the class, and the evidence present."""

    kernel: Kernel
    model: SourceModel
    text: SourceText
    gpu: Gpu
    bottleneck: Bottleneck
    evidence: KernelEvidence

    def line_span(self, line: int | None) -> Span:
        """The text of a 1-based line without its indentation; the kernel's name where there is no line."""
        if line is None:
            return self.kernel.name_span
        text = self.text.line_text(line)
        start = len(text) - len(text.lstrip()) + 1
        return Span(line, start, line, max(len(text.rstrip()) + 1, start + 1))
