# SPDX-License-Identifier: Apache-2.0
"""`warplens completion`: completion scripts for shells."""

from __future__ import annotations

import sys
from typing import Literal

from warplens.cli.commands import COMMANDS
from warplens.cli.main import EXIT_CLEAN, build_app


def completion(shell: Literal["bash", "zsh", "fish"], /) -> int:
    """Print a completion script: `warplens completion bash > ~/.local/share/bash-completion/completions/warplens`.

    Parameters
    ----------
    shell
        The shell that is to read it.
    """
    app = build_app([name for name, _, _ in COMMANDS])
    sys.stdout.write(app.generate_completion(shell=shell))
    return EXIT_CLEAN
