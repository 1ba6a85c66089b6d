# SPDX-License-Identifier: Apache-2.0
"""Workspace symbols: the user's own kernels, then names of the indexed corpora, exact, in part or misspelt."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from lsprotocol import types

from warplens.lsp import uris
from warplens.lsp.features.definition import location
from warplens.lsp.server import WarplensServer
from warplens.service.files import expand
from warplens_cutlass.lookup import Location, workspace_symbols

_MOST = 60
#: Files of the workspace that are looked through, and bytes of each.
_MOST_FILES = 500
_MOST_BYTES = 1_000_000
_KERNEL = re.compile(r"__global__\s+(?:\w+\s+)*?(?:__launch_bounds__\s*\([^)]*\)\s*)?(?:\w+\s+)*?(\w+)\s*\(")
#: Shorter queries match everything.
_LEAST_LETTERS = 3
_KINDS = {
    "function": types.SymbolKind.Function,
    "kernel": types.SymbolKind.Function,
    "class": types.SymbolKind.Class,
    "macro": types.SymbolKind.Constant,
    "enum": types.SymbolKind.Enum,
    "enumerator": types.SymbolKind.EnumMember,
    "variable": types.SymbolKind.Variable,
    "concept": types.SymbolKind.Interface,
}


def register(server: WarplensServer) -> None:
    """Register with the server."""

    @server.feature(types.WORKSPACE_SYMBOL)
    async def symbols(params: types.WorkspaceSymbolParams) -> list[types.WorkspaceSymbol]:
        if len(params.query.strip()) < _LEAST_LETTERS:
            return []
        own = await asyncio.to_thread(_own, server, list(server.session.folders()), params.query.strip())
        places = await asyncio.to_thread(workspace_symbols, params.query.strip(), limit=_MOST)
        return [*own, *(_symbol(place) for place in places)][:_MOST]


def _own(server: WarplensServer, roots: list[Path], query: str) -> list[types.WorkspaceSymbol]:
    """Kernels of the workspace whose name holds the query's letters, in order."""
    letters = re.compile(".*?".join(map(re.escape, query)), re.IGNORECASE)
    found: list[types.WorkspaceSymbol] = []
    for root in roots:
        for path in expand([root], server.session.settings(root).exclude)[:_MOST_FILES]:
            text = path.read_bytes()[:_MOST_BYTES].decode("utf-8", "replace")
            for match in _KERNEL.finditer(text):
                if letters.search(match[1]):
                    at = types.Position(text.count("\n", 0, match.start(1)), 0)
                    where = types.Location(uris.from_path(path), types.Range(at, at))
                    kind = types.SymbolKind.Function
                    found.append(types.WorkspaceSymbol(where, match[1], kind, container_name=path.name))
    return sorted(found, key=lambda symbol: len(symbol.name))


def _symbol(place: Location) -> types.WorkspaceSymbol:
    scope = place.qualified_name.rsplit("::", 1)[0] if "::" in place.qualified_name else None
    kind = _KINDS.get(place.kind, types.SymbolKind.Struct)
    return types.WorkspaceSymbol(location(place), place.name, kind, container_name=scope)
