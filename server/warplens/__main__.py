# SPDX-License-Identifier: Apache-2.0
"""`python -P -m warplens`."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Entry point of the `warplens` command.

    The language server starts without the command line's libraries: an editor waits for it.
    """
    if sys.argv[1:] == ["lsp"]:
        # Of the thousand classes imported now none is garbage; the server turns collection on again.
        gc.disable()
        from warplens.lsp.serve import main as serve

        serve()
        return
    from warplens.cli.main import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
