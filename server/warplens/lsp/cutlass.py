# SPDX-License-Identifier: Apache-2.0
"""CUTLASS for an editor that has none: what would be downloaded is said, and done where the user agrees."""

from __future__ import annotations

from lsprotocol import types

from warplens.lsp.server import WarplensServer
from warplens_cutlass.corpus import NoCorpusError
from warplens_cutlass.fetch import VERSION, setup_cutlass

QUESTION = (
    f"Warplens will download the nvidia-cutlass {VERSION} wheel from PyPI (6 MB, BSD-3-Clause) and index it."
)
_FETCH = "Fetch CUTLASS"


async def fetch(server: WarplensServer, token: types.ProgressToken | None = None) -> None:
    """Download and index it, with progress. Raises as `Jobs.run` and `setup_cutlass`."""
    await server.jobs.run(
        "Warplens: fetching CUTLASS",
        token,
        lambda task: setup_cutlass(version=VERSION, task=task),
    )


async def offered(server: WarplensServer, error: NoCorpusError) -> bool:
    """Offer it where a search found nothing to search; whether it is there now. Raises as `fetch`."""
    answer = await server.window_show_message_request_async(
        types.ShowMessageRequestParams(
            types.MessageType.Info,
            f"{error}. {QUESTION}",
            actions=[types.MessageActionItem(_FETCH), types.MessageActionItem("Not now")],
        )
    )
    if answer is None or answer.title != _FETCH:
        return False
    await fetch(server)
    return True
