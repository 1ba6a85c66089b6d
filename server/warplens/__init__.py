# SPDX-License-Identifier: Apache-2.0
"""The product: language server, command line, MCP server, agent and measurement."""

__version__: str


def __getattr__(name: str) -> str:
    """`__version__`, looked up when asked for: reading the installed metadata takes 40 ms of every start."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("warplens")
    except PackageNotFoundError:  # run from a source tree that was never installed
        return "0+source"
