# SPDX-License-Identifier: Apache-2.0
"""The protocol's page names the version of the definition it describes."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from warplens.lsp import protocol

ROOT = Path(__file__).resolve().parents[2]
DEFINITION = ROOT / "server" / "warplens" / "lsp" / "protocol.py"
PAGE = ROOT / "docs" / "protocol.md"
CLIENT = ROOT / "extension" / "src" / "protocol.ts"


def test_the_page_was_revised_with_the_definition() -> None:
    said = re.match(r"<!-- lsp/protocol\.py hash: (\w+)", PAGE.read_text("utf-8"))
    digest = hashlib.sha256(DEFINITION.read_bytes()).hexdigest()[:16]
    assert said is not None
    assert said[1] == digest, (
        f"the protocol changed: revise docs/protocol.md, then write {digest} on its first line"
    )


def test_the_page_and_the_client_name_every_message() -> None:
    page, client = PAGE.read_text("utf-8"), CLIENT.read_text("utf-8")
    names = (
        *protocol.COMMANDS,
        protocol.STATUS,
        protocol.PROPOSAL,
        protocol.MODEL,
        protocol.DID_CHANGE_TRUST,
    )
    for name in names:
        assert f"`{name}`" in page
        assert f"'{name}'" in client
