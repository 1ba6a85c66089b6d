"""The thesaurus: concepts of the field by subject. To add one, add an entry to the file of its subject."""

from __future__ import annotations

from warplens_cutlass.concepts import (
    copying,
    fusing,
    glossary,
    glossary_cute,
    glossary_examples,
    glossary_library,
    glossary_parts,
    layouts,
    library,
    multiplying,
    numbers,
    scheduling,
    synchronising,
    tiling,
)
from warplens_cutlass.concepts.model import Concept

CONCEPTS: tuple[Concept, ...] = (
    *copying.CONCEPTS,
    *multiplying.CONCEPTS,
    *synchronising.CONCEPTS,
    *tiling.CONCEPTS,
    *layouts.CONCEPTS,
    *scheduling.CONCEPTS,
    *fusing.CONCEPTS,
    *numbers.CONCEPTS,
    *library.CONCEPTS,
    *glossary.entries(glossary_cute.CUTE),
    *glossary.entries(glossary_library.LIBRARY),
    *glossary.entries(glossary_parts.PARTS),
    *glossary.entries(glossary_examples.EXAMPLES, shown=True),
)

__all__ = ["CONCEPTS", "Concept"]
