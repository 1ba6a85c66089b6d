# SPDX-License-Identifier: Apache-2.0
"""A text read as an edit of another gives the model and the tree that it gives by itself."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from warplens_tools.cuda.parse import model_of
from warplens_tools.cuda.syntax.mask import mask
from warplens_tools.cuda.syntax.recovery import parse_code
from warplens_tools.cuda.syntax.tree import SourceTree, parse_tree, walk
from warplens_tools.text import SourceText

ROOT = Path(__file__).parents[3]
PROGRAMS = sorted([*(ROOT / "tests" / "planted").glob("*.cu"), *(ROOT / "examples" / "first").glob("*.cu")])
INSERTED = (
    "\n", " ", "x", "// c\n", "", "{", "}", "(", ")", "/*", "*/", "#if 0\n", "#endif\n", "#define N 7\n", '"',
    "template <int N>\n", "__global__ void k(float* p) {", "struct S { int n; };", "k<<<1, n>>>(p);", "é",
)  # fmt: skip


def by_itself(text: str) -> SourceTree:
    """The tree of a text that nothing is known of."""
    masked = mask(text, {})
    code, tree, blanked = parse_code(masked.code)
    return SourceTree(
        SourceText(text),
        type(masked)(
            code, masked.source, masked.directives, masked.macros, masked.uses, (*masked.repairs, *blanked)
        ),
        tree,
    )


def nodes(tree: SourceTree) -> list[tuple[str, int, int]]:
    return [(n.type, n.start_byte, n.end_byte) for n in walk(tree.root)]


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(PROGRAMS),
    st.lists(
        st.tuples(st.floats(0, 1), st.sampled_from(INSERTED), st.sampled_from((0, 0, 1, 3, 40))),
        min_size=1,
        max_size=5,
    ),
)
def test_an_edit_is_read_as_the_whole_text(program: Path, edits: list[tuple[float, str, int]]) -> None:
    text = program.read_text()
    parse_tree(SourceText(text))
    for share, new, removed in edits:
        at = round(share * len(text))
        text = text[:at] + new + text[at + removed :]
        edited, whole = parse_tree(SourceText(text)), by_itself(text)
        assert nodes(edited) == nodes(whole)
        assert model_of(edited, "k.cu") == model_of(whole, "k.cu")
