"""Finds the CUTLASS/CuTe symbol or example that answers a question, from words, a name, or code.

What a caller needs is here; everything else is inside. `search` answers a question; `read`, `look_up`,
`definitions_of` and `workspace_symbols` answer follow-ups; `setup_cutlass`, `build`, `update`, `remove` and
`status` manage corpora; `agent_search` and `agent_read` are the same within a budget of tokens.
"""

from warplens_cutlass.engine import SearchOptions, search
from warplens_cutlass.model import Answer, CorpusRoot, Result
from warplens_cutlass.settings import IndexSettings, RankingSettings

__all__ = ["Answer", "CorpusRoot", "IndexSettings", "RankingSettings", "Result", "SearchOptions", "search"]
