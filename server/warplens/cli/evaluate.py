# SPDX-License-Identifier: Apache-2.0
"""`warplens evaluate`: judges the candidates of a folder where the card is."""

from __future__ import annotations

import sys
from pathlib import Path

from warplens.cli.interrupt import command_task
from warplens.cli.main import EXIT_CLEAN
from warplens.service.exchange import answer
from warplens.service.pooled import opener


def evaluate(folder: Path, /, *, cards: int | None = None, cluster: str = "") -> int:
    """Judge what waits in a folder that `warplens optimize --ask` has written, on this machine's card.

    Needs no network, no model and nothing outside the folder but the compiler. Each verdict is kept as soon as it is
    known: killed and started again, it goes on with the rest.

    Parameters
    ----------
    folder
        The folder.
    cards
        Judge on so many cards at once, one process each; 0 for all of the first one's kind.
    cluster
        Judge on the cards of the Ray cluster at this address; local starts one on this machine.
    """
    count = answer(folder, task=command_task(), judge=opener(cards, cluster))
    sys.stdout.write(f"{count} answered in {folder}\n" if count else f"nothing waits in {folder}\n")
    return EXIT_CLEAN
