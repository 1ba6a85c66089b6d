# SPDX-License-Identifier: Apache-2.0
"""An idiom of several forms: the steps that bring a kernel into one of them, and what is written of that."""

from __future__ import annotations

import re
from collections.abc import Sequence

from warplens_tools.cuda.model import Kernel, SourceModel
from warplens_tools.rewrite.base import Apply, RewriteResult, Target
from warplens_tools.rewrite.common.chains import Chain
from warplens_tools.rewrite.common.passes import NOT_STRIDED
from warplens_tools.text import SourceText


def first_of(chains: Sequence[Chain], brought: str, title: str, module: str) -> Apply:
    """The first of the chains whose result brings that constant; `module` is the file and the page of the idiom."""

    def apply(text: SourceText, model: SourceModel, kernel: Kernel, target: Target) -> RewriteResult:
        reasons = list[str]()
        for chain in chains:
            found = chain.result(title, text, model, kernel, target)
            after = "".join(edit.new_text for edit in found.edits)
            if brought in after or brought_name(brought) in after:
                return found
            reasons.append(found.refused or f"nothing more than {chain.first.slug} applies")
        # the first form is the kernel as it stands: what is wrong with that says most, unless it is of another form
        return RewriteResult(refused=reasons[-1] if reasons[0] == NOT_STRIDED else reasons[0])

    apply.__module__ = module
    return apply


def brought_name(constant: str) -> str:
    """What a constant is called in a file of `#define`s: `HELD_VECTORS` for `kHeldVectors`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", constant.removeprefix("k")).upper()
