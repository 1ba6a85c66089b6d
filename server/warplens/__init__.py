"""The product: language server, command line, MCP server, agent and measurement."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("warplens")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+source"
