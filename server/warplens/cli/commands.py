# SPDX-License-Identifier: Apache-2.0
"""The commands: name, where each is, and a line on it. Imports nothing, so that `--help` is there at once."""

from __future__ import annotations

from pathlib import Path

#: Where `make generate` writes the help of each command, as its parser prints it: parsing takes longer than reading.
PAGES = Path(__file__).with_name("help")

ABOUT = "A performance lens for CUDA: findings on the line, and faster kernels with their proof."

#: Name, "module:attribute", help.
COMMANDS: tuple[tuple[str, str, str], ...] = (
    ("check", "warplens.cli.check:check", "Findings on the lines of files and folders."),
    ("explain", "warplens.cli.explain:explain", "The page of one check: what it sees, and what to do about it."),
    ("profile", "warplens.cli.profile:profile", "Everything known of a file's kernels, reports imported."),
    ("optimize", "warplens.cli.optimize:optimize", "Search for a faster version of a kernel, proven on this GPU."),
    ("evaluate", "warplens.cli.evaluate:evaluate", "Judge the candidates that `optimize --ask` has written."),
    ("task", "warplens.cli.task:task", "Judge a ModelNew against a PyTorch task, as KernelBench writes them."),
    ("bench", "warplens.cli.bench:app", "Solutions of KernelBench's tasks, judged by its rule and by ours."),
    ("spec", "warplens.cli.spec:spec", "Write a first launch spec for kernels without a program."),
    ("tune", "warplens.cli.tune:tune", "The numbers of a kernel alone, searched and proven; results in T4 too."),
    ("history", "warplens.cli.history:app", "Past runs, and what the rules were worth."),
    ("search", "warplens.cli.search:search", "Find a CUTLASS/CuTe symbol or example."),
    ("index", "warplens.cli.index:app", "Build and update the CUTLASS/CuTe index."),
    ("calibrate", "warplens.cli.calibrate:calibrate", "Measure this card's ceilings with ruler kernels."),
    ("config", "warplens.cli.config:app", "Write a settings file, or show the settings that count."),
    ("doctor", "warplens.cli.doctor:doctor", "What this machine has and what is missing."),
    ("setup", "warplens.cli.setup:app", "Bring what this machine lacks, with consent."),
    ("completion", "warplens.cli.completion:completion", "A completion script for bash, zsh or fish."),
    ("lsp", "warplens.lsp.serve:main", "Run the language server on standard streams."),
)  # fmt: skip


def help_text() -> str:
    """What `warplens --help` prints."""
    width = max(len(name) for name, _, _ in COMMANDS)
    lines = ["Usage: warplens COMMAND", "", ABOUT, "", "Commands:"]
    lines += [f"  {name:<{width}}  {about}" for name, _, about in COMMANDS]
    lines += ["", "Options:", "  --help, -h    This page; after a command, its own."]
    lines += ["  --version     The version.", "", "Exit status: 0 clean, 1 findings at or above --fail-on, "]
    lines[-1] += "2 something asked for could not be done."
    return "\n".join(lines) + "\n"


def help_page(words: list[str]) -> str:
    """What `warplens WORDS --help` prints; "" where there is no such page."""
    try:
        return (PAGES / f"{'-'.join(words)}.txt").read_text("utf-8")
    except (OSError, ValueError):
        return ""
