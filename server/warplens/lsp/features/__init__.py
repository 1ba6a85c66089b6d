# SPDX-License-Identifier: Apache-2.0
"""One file per feature, each with `register(server)`; this list is explicit, and a test compares it."""

from __future__ import annotations

from warplens.lsp.features import (
    apply_proposal,
    code_actions,
    code_lens,
    configuration,
    cute_search,
    definition,
    diagnostics,
    doctor,
    file_watching,
    fix_and_prove,
    fix_applied,
    hover,
    initialization,
    inlay_hints,
    optimize,
    refresh,
    show_evidence,
    synchronization,
    trust,
    workspace_folders,
    workspace_symbols,
)

FEATURES = (
    initialization,
    synchronization,
    configuration,
    workspace_folders,
    trust,
    file_watching,
    diagnostics,
    refresh,
    code_lens,
    inlay_hints,
    hover,
    code_actions,
    show_evidence,
    doctor,
    optimize,
    fix_and_prove,
    fix_applied,
    apply_proposal,
    cute_search,
    definition,
    workspace_symbols,
)
