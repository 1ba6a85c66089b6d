"""The language server process: `python -P -m warplens lsp`, over standard input and output."""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Callable
from pathlib import Path

from warplens.lsp.features import FEATURES
from warplens.lsp.judging import Judging, ServiceJudging
from warplens.lsp.server import WarplensServer
from warplens.service.service import Service


def main() -> None:
    """Serve one client on standard input and output until it ends the session."""
    serve(Service)


def serve(
    make_service: Callable[[Path], Service], make_judging: Callable[[Service], Judging] = ServiceJudging
) -> None:
    """As `main`, with services made by `make_service`; exits 0 after an orderly shutdown, else 1."""
    logging.basicConfig(
        level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s"
    )
    server = WarplensServer(make_service, make_judging)
    for feature in FEATURES:
        feature.register(server)
    # The protocol's thousand classes live as long as the process: a collection need not look at them again.
    gc.freeze()
    # An analysis allocates by the ten thousand and leaves few cycles: looking for them each time took a tenth of it.
    gc.set_threshold(20_000, 20, 20)
    gc.enable()
    try:
        server.start_io()
    finally:
        server.close()
    sys.exit(0 if server.protocol.shut_down else 1)
