"""What a concept is: one thing CUDA programmers do, how they say it, how they write it, and what CuTe has for it."""

from __future__ import annotations

import msgspec


class Concept(msgspec.Struct, frozen=True):
    """A technique, with its names in words, its traces in code, and the definitions that provide it.

    Symbols and examples are looked up in the corpus at hand; what it lacks is passed over.
    """

    #: What the user's code does, after "it …": "loads matrix fragments with ldmatrix".
    does: str
    #: Phrases that name it; a query that holds all words of one surely speaks of it.
    phrases: tuple[str, ...]
    #: Names of definitions, the one to use first.
    symbols: tuple[str, ...] = ()
    #: Ends or parts of paths of examples that show it, the best first.
    examples: tuple[str, ...] = ()
    #: Regular expressions: each entry is a set that must all be found in the code.
    traces: tuple[tuple[str, ...], ...] = ()
    #: Names of structural facts (`warplens_cutlass.search.structure`) that show it, any of them.
    structure: tuple[str, ...] = ()
    #: How telling its traces are, relative to others in the same code.
    weight: float = 1.0
    #: A plainer concept that this one makes superfluous when both are seen.
    supersedes: tuple[str, ...] = ()
    #: Further words that people use when they ask for it; single words count, their order does not.
    words: str = ""
    #: The examples answer a question about it rather than the definitions.
    shown: bool = False
