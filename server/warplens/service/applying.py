# SPDX-License-Identifier: Apache-2.0
"""What the user took over: a proven version written over its file, a rewrite that was applied; both are remembered."""

from __future__ import annotations

import os
from pathlib import Path

from warplens.agent.edits import text_hash
from warplens.agent.result import OptimizeResult
from warplens.service.writing import replace_file
from warplens.store.database import data_folder, open_store
from warplens.store.rates import record_decision
from warplens_tools.encoded import EncodedText
from warplens_tools.errors import InputError


def apply_result(result: OptimizeResult) -> None:
    """Write a proven version over the file it was made from, whole or not at all, and remember that.

    Raises:
        InputError: there is nothing proven to write, or the file changed since, or cannot be written.
    """
    path = Path(result.path).resolve()
    if result.proof is None or not result.edits:
        raise InputError("there is no proven version to apply")
    before = EncodedText.read(path)
    if text_hash(before.text) != result.baseline_hash:
        raise InputError(
            f"{path.name} changed since the measurement", remedy="run warplens optimize on it again"
        )
    replace_file(path, before.data, before.apply(result.edits))
    with open_store(data_folder(os.environ)) as store:
        for rule in result.proof.rules:
            for finding in result.proof.answers or ("",):
                record_decision(
                    store,
                    path=str(path),
                    kernel=result.kernel,
                    rule=rule,
                    finding=finding,
                    accepted=True,
                    run=result.run,
                )


def remember_fix(path: Path, kernel: str, rewrite: str, finding: str) -> None:
    """Note that the user applied a rewrite that answers a finding."""
    with open_store(data_folder(os.environ)) as store:
        record_decision(store, path=str(path), kernel=kernel, rule=rewrite, finding=finding, accepted=True)
