"""Every constant of the index and of its ranking, in one place.

Ranking works on *evidence per query word*: a word counts by how rare it is (idf), by the best field it is
found in (`field_weights`), and once per definition. Kind, role, architecture, usage and file-level evidence
then scale or add to that sum. `docs/index.md` explains the formula and how these numbers were tuned.
"""

from __future__ import annotations

import msgspec


def _kinds() -> dict[str, float]:
    return {
        "kernel": 1.1, "class": 1.05, "struct": 1.0, "concept": 1.0, "function": 0.95, "atom": 0.85, "traits": 0.55,
        "alias": 0.75, "macro": 0.6, "enum": 0.75, "enumerator": 0.55, "variable": 0.5, "union": 0.4,
    }  # fmt: skip


def _roles() -> dict[str, float]:
    return {
        "header": 1.0, "example": 1.0, "tool": 0.6, "test": 0.5, "documentation": 0.75, "source": 0.9,
    }  # fmt: skip


class RankingSettings(msgspec.Struct, frozen=True):
    """Constants of the ranking."""

    #: Weight of a query word by the field it is found in.
    name_weight: float = 3.0
    path_weight: float = 2.1
    title_weight: float = 2.4
    doc_weight: float = 1.2
    signature_weight: float = 0.9
    remark_weight: float = 0.7
    body_weight: float = 0.4
    #: What a word of plain prose weighs beside one of code; the power to which the weights of words count, so
    #: that a very rare one does not outweigh all others.
    prose: float = 0.45
    rarity: float = 0.7
    #: A synonym counts this much of the word itself.
    synonym_weight: float = 0.8
    #: What neighbouring words of a question add where they stand together, of the lighter one's weight.
    neighbours: float = 0.4
    #: Share of a definition's score that its file's (or example's) evidence adds.
    file_share: float = 0.55
    kinds: dict[str, float] = msgspec.field(default_factory=_kinds)
    roles: dict[str, float] = msgspec.field(default_factory=_roles)
    #: A member of a class, a forward declaration, a specialisation, relative to a definition of its own.
    member: float = 0.6
    declaration: float = 0.5
    specialisation: float = 0.85
    #: A namespace `detail`, which is not for users.
    detail: float = 0.75
    #: An architecture that was asked for and matches, or one that speaks against.
    arch_match: float = 1.25
    arch_conflict: float = 0.55
    #: ln(1 + files that mention it) times this is added as a share.
    usage: float = 0.03
    #: … and ln(1 + files that include its file) times this.
    included: float = 0.06
    #: Each further result from one file, from one example folder, is worth this much of the one before.
    same_file: float = 0.3
    same_folder: float = 0.85
    #: The same for further definitions of one qualified name (overloads, specialisations).
    same_name: float = 0.8
    #: A query whose joined words are a name exactly: added to the score, in units of the best words score.
    joined_name: float = 0.5
    #: An identifier in the query that names a definition, in the same units.
    written_name: float = 1.5
    #: … and among prose only from this closeness on.
    name_in_prose: float = 0.82
    #: What a name that holds nothing but words of the query gains over one that holds half of them, twice.
    name_focus: float = 0.6
    #: A definition that is not what its file is about gets this much of the file's evidence.
    not_main: float = 0.8
    #: A concept of the thesaurus whose words the query covers adds up to this, in the same units.
    concept: float = 1.35
    #: … times the covered share to this power, times this per place in its list, and this for its examples.
    concept_power: float = 2.0
    concept_decay: float = 0.85
    concept_example: float = 0.75
    #: The same scale and power for concepts seen in code.
    concept_in_code: float = 1.1
    code_power: float = 1.5
    #: What a candidate that answers nothing else of the question keeps of its concept.
    concept_alone: float = 0.85
    #: Matching a question with a concept: what a word of its symbols' names counts, what a word of the question
    #: that no concept speaks of weighs, how much long concepts are discounted, the scale of the share, its floor.
    concept_name: float = 0.3
    concept_unknown: float = 1.0
    concept_length: float = 0.2
    concept_share: float = 1.0
    concept_floor: float = 0.2
    #: What each file beyond the third that defines the same name takes from what a concept adds to it.
    crowd: float = 0.03
    #: What a file gains of each further concept that names it.
    further_concept: float = 0.5
    #: What a candidate gains per covered share above 0.6 of the question's weight.
    full_coverage: float = 1.2
    #: As `name_focus`, for the name of the file.
    file_focus: float = 0.3
    #: A query that is a name: how its best score compares with words, what a matching qualification and a
    #: file of that name multiply, what its examples are worth, and how close a name split over words must be.
    name_scale: float = 1.6
    qualified_name: float = 1.25
    name_of_file: float = 1.04
    example_of_name: float = 1.2
    split_name_floor: float = 0.78
    #: From this closeness on the query is taken for a name alone.
    sure_name: float = 0.9
    #: The same for a single word, which is more likely a name.
    sure_single_name: float = 0.68
    #: A definition that wraps a PTX operation of the code, each further operation, least likeness of two operations.
    ptx: float = 1.3
    ptx_decay: float = 0.93
    ptx_floor: float = 0.45
    #: Plain loads, stores and arithmetic count this much.
    ptx_plain: float = 0.5
    #: A symbol of the corpus that the code already uses.
    known_name: float = 0.5
    #: What an example gains at most for using all recognised concepts.
    together: float = 0.5
    #: Words given with code count this much beside it; those of its own function names and comments this much.
    words_beside_code: float = 0.8
    words_in_code: float = 0.35
    #: For names and code the best definition leads unless it scores below this share of the best example.
    definition_floor: float = 0.6
    #: Candidates read from the full-text index.
    candidates: int = 60
    file_candidates: int = 30
    #: Least similarity (0 to 1) for a misspelt name.
    fuzzy_floor: float = 0.62


class IndexSettings(msgspec.Struct, frozen=True):
    """Limits of what is read, and the ranking."""

    ranking: RankingSettings = msgspec.field(default_factory=RankingSettings)
    #: Files above this size are skipped; the largest header of CUTLASS 4.2 has 2.9 MB.
    max_file_bytes: int = 8_000_000
    max_depth: int = 40
    max_files: int = 50_000
    #: Processes that parse during a build; 0 means one per core, at most four.
    processes: int = 0
    #: Fewer changed files than this are read in the calling process.
    parallel_from: int = 24
    #: Folders that hold no source of their own.
    skipped_folders: tuple[str, ...] = (
        ".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", "build", "_build", "CMakeFiles",
        ".cache", ".tox", "dist",
    )  # fmt: skip
    #: Files that name everything and explain nothing.
    skipped_files: tuple[str, ...] = ("CHANGELOG.md",)
    snippet_lines: int = 8
    #: Seconds to wait for another process that builds the same index.
    lock_timeout: float = 120.0
