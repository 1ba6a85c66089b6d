# SPDX-License-Identifier: Apache-2.0
"""Workspace symbols: names of the indexed corpora, exact, in part or misspelt."""

from __future__ import annotations

import asyncio

from lsprotocol import types

from warplens.lsp.features.definition import location
from warplens.lsp.server import WarplensServer
from warplens_cutlass.lookup import Location, workspace_symbols

_MOST = 60
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
        places = await asyncio.to_thread(workspace_symbols, params.query.strip(), limit=_MOST)
        return [_symbol(place) for place in places]


def _symbol(place: Location) -> types.WorkspaceSymbol:
    scope = place.qualified_name.rsplit("::", 1)[0] if "::" in place.qualified_name else None
    kind = _KINDS.get(place.kind, types.SymbolKind.Struct)
    return types.WorkspaceSymbol(location(place), place.name, kind, container_name=scope)
