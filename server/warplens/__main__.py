"""`python -P -m warplens`."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of the `warplens` command.

    The language server starts without the command line's libraries: an editor waits for it.
    """
    if sys.argv[1:] == ["lsp"]:
        from warplens.lsp.server import main as serve

        serve()


if __name__ == "__main__":
    main()
