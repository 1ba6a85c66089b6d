"""Finds the CUTLASS/CuTe symbol or example that answers a question, from words, a name, or code.

What a caller needs is here; everything else is inside. `search` answers a question; `read`, `look_up`,
`definitions_of` and `workspace_symbols` answer follow-ups; `setup_cutlass`, `build`, `update`, `remove` and
`status` manage corpora; `agent_search` and `agent_read` are the same within a budget of tokens.
"""

from warplens_cutlass.corpus import Corpus, corpora, find_corpus
from warplens_cutlass.engine import SearchOptions, search
from warplens_cutlass.fetch import setup_cutlass
from warplens_cutlass.lookup import Location, definitions_of, look_up, workspace_symbols
from warplens_cutlass.model import KINDS, Answer, CorpusRoot, Kind, Result, SymbolCard
from warplens_cutlass.reading import Excerpt, agent_read, agent_search, read
from warplens_cutlass.search.recognise import recognise
from warplens_cutlass.settings import IndexSettings, RankingSettings
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
    "RankingSettings",
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
    "recognise",
    "remove",
    "search",
    "setup_cutlass",
    "status",
    "update",
    "workspace_symbols",
]
