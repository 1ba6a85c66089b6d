# SPDX-License-Identifier: Apache-2.0
"""What names of types come to, however many a name is given, and in whatever circles."""

from __future__ import annotations

from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.cuda.values.integer_names import built_in, integer_names
from warplens_tools.text import SourceText


def test_a_name_is_what_all_its_types_come_to() -> None:
    known = {"row_t": {"index_t"}, "index_t": {"const unsigned int", "uint64_t"}, "cell_t": {"Cell"}}
    assert built_in(known, ["row_t", "cell_t"]) == {"row_t": "uint64_t|unsigned int"}


def test_names_in_circles_end_and_mean_nothing_by_themselves() -> None:
    assert built_in({"a_t": {"b_t"}, "b_t": {"a_t"}}, ["a_t", "none"]) == {}


def test_names_with_many_types_of_each_other_are_followed_once_each() -> None:
    """As headers of templates have them: each way by itself would be more than anybody can follow."""
    names = [f"t{i}" for i in range(60)]
    known = {name: {*names, "int"} for name in names}
    assert built_in(known, names) == dict.fromkeys(names, "int")


def test_the_widest_of_a_files_types_is_what_an_integer_is() -> None:
    tree = parse_tree(
        SourceText("typedef int small_t;\ntypedef small_t step_t;\nusing wide_t = long long;\n")
    )
    assert {name: kind.bytes for name, kind in integer_names(tree)} == {
        "small_t": 4,
        "step_t": 4,
        "wide_t": 8,
    }
