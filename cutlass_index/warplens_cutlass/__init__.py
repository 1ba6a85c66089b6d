# SPDX-License-Identifier: Apache-2.0
"""Finds the CUTLASS/CuTe symbol or example that answers a question, from words, a name, or code.

What a caller needs is here; everything else is inside. `search` answers a question; `read`, `look_up`,
`definitions_of` and `workspace_symbols` answer follow-ups; `setup_cutlass`, `build`, `update`, `remove` and
`status` manage corpora; `agent_search` and `agent_read` are the same within a budget of tokens.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warplens_cutlass.corpus import Corpus, NoCorpusError, corpora, find_corpus
    from warplens_cutlass.engine import SearchOptions, search, unbuilt
    from warplens_cutlass.fetch import setup_cutlass
    from warplens_cutlass.index_settings import IndexSettings, RankingWeights
    from warplens_cutlass.lookup import Location, definitions_of, look_up, workspace_symbols
    from warplens_cutlass.model import KINDS, Answer, CorpusRoot, Kind, Result, SymbolCard
    from warplens_cutlass.reading import Excerpt, agent_read, agent_search, read
    from warplens_cutlass.store.build import BuildReport, build, remove, update
    from warplens_cutlass.store.status import CorpusStatus, status

__all__ = [
    "KINDS",
    "Answer",
    "BuildReport",
    "Corpus",
    "CorpusRoot",
    "CorpusStatus",
    "Excerpt",
    "IndexSettings",
    "Kind",
    "Location",
    "NoCorpusError",
    "RankingWeights",
    "Result",
    "SearchOptions",
    "SymbolCard",
    "agent_read",
    "agent_search",
    "build",
    "corpora",
    "definitions_of",
    "find_corpus",
    "look_up",
    "read",
    "remove",
    "search",
    "setup_cutlass",
    "status",
    "unbuilt",
    "update",
    "workspace_symbols",
]

#: Imported when first asked for: a search from the command line shall not wait for what builds an index.
_HOMES = {
    "Answer": "warplens_cutlass.model",
    "BuildReport": "warplens_cutlass.store.build",
    "Corpus": "warplens_cutlass.corpus",
    "CorpusRoot": "warplens_cutlass.model",
    "CorpusStatus": "warplens_cutlass.store.status",
    "Excerpt": "warplens_cutlass.reading",
    "IndexSettings": "warplens_cutlass.index_settings",
    "KINDS": "warplens_cutlass.model",
    "Kind": "warplens_cutlass.model",
    "Location": "warplens_cutlass.lookup",
    "NoCorpusError": "warplens_cutlass.corpus",
    "RankingWeights": "warplens_cutlass.index_settings",
    "Result": "warplens_cutlass.model",
    "SearchOptions": "warplens_cutlass.engine",
    "SymbolCard": "warplens_cutlass.model",
    "agent_read": "warplens_cutlass.reading",
    "agent_search": "warplens_cutlass.reading",
    "build": "warplens_cutlass.store.build",
    "corpora": "warplens_cutlass.corpus",
    "definitions_of": "warplens_cutlass.lookup",
    "find_corpus": "warplens_cutlass.corpus",
    "look_up": "warplens_cutlass.lookup",
    "read": "warplens_cutlass.reading",
    "remove": "warplens_cutlass.store.build",
    "search": "warplens_cutlass.engine",
    "setup_cutlass": "warplens_cutlass.fetch",
    "status": "warplens_cutlass.store.status",
    "unbuilt": "warplens_cutlass.engine",
    "update": "warplens_cutlass.store.build",
    "workspace_symbols": "warplens_cutlass.lookup",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
