# SPDX-License-Identifier: Apache-2.0
"""What a model may look up in CUTLASS: `search`, `examples` and `read` over the index, with bounds.

Only corpora that are CUTLASS trees are open to it, never a folder of the user's own that is indexed as well. What a
look found stays in the run's memory, so that the next question need not find it again.
"""

from __future__ import annotations

import re

from warplens.agent.llm.provider import CHARACTERS_PER_TOKEN
from warplens.agent.llm.replies import Look
from warplens_cutlass.corpus import Corpus
from warplens_cutlass.engine import SearchOptions, search
from warplens_cutlass.lookup import look_up, ready_corpora
from warplens_cutlass.reading import bounded, describe, read
from warplens_tools.errors import WarplensError

#: Tokens of one answer, results of one search, and discoveries that the run keeps.
ANSWER_TOKENS, RESULTS, MOST_DISCOVERIES = 900, 5, 24
#: A path in a corpus: a file's name with its suffix.
_FILE = re.compile(r"\.(?:hpp|h|cuh|cu|inl|md|py)$")


class Library:
    """The looks of one run."""

    def __init__(self, trees: tuple[Corpus, ...], arch: str = "") -> None:
        self.trees, self._arch = trees, arch
        #: What was found, in the order of finding: "include/cute/…:12 struct Copy_Atom (for: TMA load)".
        self.discoveries: list[str] = []

    def look(self, look: Look) -> str:
        """The answer to one look, within its bound; a look that fails says why."""
        try:
            found = self._read(look) if look.tool == "read" else self._search(look)
        except (WarplensError, OSError) as error:
            found = f"nothing: {error}"
        return found[: ANSWER_TOKENS * CHARACTERS_PER_TOKEN] or "nothing"

    def remembered(self) -> str:
        """What the run found so far, the latest first."""
        return "\n".join(f"- {line}" for line in reversed(self.discoveries))

    def _search(self, look: Look) -> str:
        options = SearchOptions(
            arch=self._arch,
            kinds=("example",) if look.tool == "examples" else (),
            limit=RESULTS,
            corpora=tuple(corpus.name for corpus in self.trees),
        )
        answer = search(look.query, options=options)
        for result in answer.results[:2]:
            self._discover(f"{result.path}:{result.line} {result.kind} {result.symbol} (for: {look.query})")
        return bounded(answer, ANSWER_TOKENS)

    def _read(self, look: Look) -> str:
        if _FILE.search(look.query) or look.line:
            return self._file(look.query, look.line)
        card = look_up(look.query)
        if card is None or card.corpus.name not in {corpus.name for corpus in self.trees}:
            return self._file(look.query, look.line)
        self._discover(f"{card.path}:{card.line} {card.kind} {card.qualified_name}")
        body = read(
            card.path,
            line=card.line,
            end_line=card.end_line,
            corpus=card.corpus.name,
            max_tokens=ANSWER_TOKENS // 2,
        )
        return f"{describe(card)}\n{body.text}"

    def _file(self, path: str, line: int) -> str:
        for corpus in self.trees:
            try:
                found = read(path, line=max(line, 1), corpus=corpus.name, max_tokens=ANSWER_TOKENS - 30)
            except WarplensError:
                continue
            self._discover(f"{found.path}:{found.line}")
            more = f"\n(more from line {found.next_line})" if found.next_line else ""
            return f"{found.path}:{found.line}-{found.end_line}\n{found.text}{more}"
        return f"nothing: CUTLASS has neither a file nor a definition {path}"

    def _discover(self, line: str) -> None:
        if line not in self.discoveries:
            self.discoveries.append(line)
            del self.discoveries[:-MOST_DISCOVERIES]


def open_library(arch: str) -> Library | None:
    """The library over the CUTLASS trees that are indexed now; None where there are none: a search builds nothing."""
    trees = tuple(corpus for corpus in ready_corpora() if corpus.version)
    return Library(trees, arch) if trees else None
