# SPDX-License-Identifier: Apache-2.0
import string

from hypothesis import given
from hypothesis import strategies as st

from warplens_cutlass.vocabulary import query_words
from warplens_cutlass.words import edit_distance, normal_name, split, stem


def test_identifiers_split_at_case_underscores_and_types() -> None:
    assert split("TmaWarpSpecializedPingpong") == ("tma", "warp", stem("specialized"), stem("pingpong"))
    assert split("SM80_16x8x16_F32F16F16F32_TN") == ("sm80", "16x8x16", "f32", "f16", "f16", "f32", "tn")
    assert split("m64n128k16") == ("64x128x16",)
    assert split("make_tiled_copy") == ("make", stem("tiled"), "copy")


def test_spellings_of_one_word_meet() -> None:
    assert stem("schedulers") == stem("scheduler")
    assert stem("swizzled") == stem("swizzling") == stem("swizzle")
    assert stem("specialised") == stem("specialized")
    assert stem("copies") == stem("copy")


def test_phrases_of_questions_fold() -> None:
    assert query_words("how do I write a matrix multiplication") == ["gemm"]
    assert "warpspecializ" in " ".join(query_words("warp-specialized kernel"))
    assert query_words("shared memory") == ["smem"]


@given(st.text(string.ascii_letters + string.digits + "_", max_size=40))
def test_splitting_loses_no_letter(name: str) -> None:
    joined = "".join(split(name))
    assert len(joined) <= len(normal_name(name)) + 2 * len(split(name))


@given(st.text("abc", max_size=8), st.text("abc", max_size=8))
def test_edit_distance_is_a_distance(a: str, b: str) -> None:
    assert edit_distance(a, b) == edit_distance(b, a)
    assert (edit_distance(a, b) == 0) == (a == b)
    assert edit_distance(a, b) <= max(len(a), len(b))
