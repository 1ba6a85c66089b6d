# SPDX-License-Identifier: Apache-2.0
import shutil
from pathlib import Path

import msgspec
import pytest

from warplens_cutlass.corpus import Corpus, NoCorpusError, unregister
from warplens_cutlass.engine import SearchOptions, search, unbuilt
from warplens_cutlass.index_settings import IndexSettings, RankingWeights
from warplens_cutlass.lookup import definitions_of, look_up, workspace_symbols
from warplens_cutlass.reading import CHARACTERS_PER_TOKEN, agent_read, agent_search, read
from warplens_cutlass.store.build import build
from warplens_cutlass.store.load import read_concepts
from warplens_tools.errors import InputError

pytestmark = pytest.mark.usefixtures("mini")


def first(query: str, **options: object) -> str:
    return search(query, options=msgspec.convert(options, SearchOptions)).results[0].symbol


@pytest.mark.parametrize(
    "query",
    [
        "SM80_CP_ASYNC_CACHEGLOBAL",
        "mini::SM80_CP_ASYNC_CACHEGLOBAL",
        "sm80_cp_async_cacheglobal",
        "CP_ASYNC_CACHEGLOBAL",
        "SM80_CP_ASYCN_CACHEGLOBL",
        "sm80 cp async cacheglobal",
        "sm80 cp asinc cacheglobal",
        "ASYNC_CACHEGLOB",
        "asynchronous copy from global to shared memory",
    ],
)
def test_a_symbol_is_found_however_it_is_spelled(query: str) -> None:
    assert first(query) == "mini::SM80_CP_ASYNC_CACHEGLOBAL"


def test_the_definition_comes_first_and_an_example_next() -> None:
    results = search("cp_async_wait").results
    assert (results[0].symbol, results[0].kind) == ("mini::cp_async_wait", "function")
    assert (results[1].path, results[1].kind) == ("examples/02_async_copy/async_copy.cu", "example")
    assert results[0].snippet.startswith("template <int N>") and results[0].why == (
        "the symbol itself: Waits until at most N groups of asynchronous copies are in flight."
    )
    assert [r.score for r in results] == sorted((r.score for r in results), reverse=True)


def test_words_find_by_meaning() -> None:
    assert first("avoid bank conflicts") == "mini::Swizzle"
    assert search("matmul on A100 tensor cores").results[0].path.endswith(("tiled_gemm.cu", "mma_sm80.hpp"))
    assert any(r.kind == "section" for r in search("how does a swizzle permute offsets").results)


@pytest.mark.parametrize(
    ("query", "symbol"),
    [
        ("my shared tile suffers from conflicts, permute its address bits", "mini::Swizzle"),
        (
            "move sixteen bytes into shared memory in the background on A100",
            "mini::SM80_CP_ASYNC_CACHEGLOBAL",
        ),
    ],
)
def test_questions_are_understood_without_the_words_of_the_code(query: str, symbol: str) -> None:
    assert symbol in [r.symbol for r in search(query).results[:2]]


def test_every_entry_of_the_thesaurus_says_and_names_something() -> None:
    found = read_concepts()
    assert len({c.does for c in found}) == len(found)
    assert all(c.words.strip() and (c.symbols or c.files) for c in found)
    assert not any("/" in s or "." in s for c in found for s in c.symbols)


@pytest.mark.parametrize("name", RankingWeights.__struct_fields__)
def test_a_weight_may_be_nought(name: str) -> None:
    nought = IndexSettings(ranking=msgspec.structs.replace(RankingWeights(), **{name: 0.0}))
    code = 'asm volatile("cp.async.wait_group 0;"); // wait for copies'
    for query, like in (("avoid bank conflicts", ""), ("Swizzle", ""), ("", code)):
        assert search(query, like=like, settings=nought).results


def test_code_finds_what_replaces_it() -> None:
    answer = search(like='asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(s), "l"(g));')
    assert answer.results[0].symbol == "mini::SM80_CP_ASYNC_CACHEGLOBAL"
    assert answer.results[1].path == "examples/02_async_copy/async_copy.cu"
    assert answer.recognised == ("copies from global to shared memory asynchronously with cp.async (line 1)",)


def test_filters_keep_what_they_name() -> None:
    assert all(r.kind == "example" for r in search("copy", options=SearchOptions(kinds=("example",))).results)
    assert not search(
        "SM80_CP_ASYNC_CACHEGLOBAL", options=SearchOptions(arch="sm_90", kinds=("atom",))
    ).results
    assert (
        search("mma", options=SearchOptions(type="fp16")).results[0].symbol.startswith("mini::SM80_16x8x16")
    )
    assert len(search("copy", options=SearchOptions(limit=2)).results) == 2


def test_the_wire_form_is_what_the_issue_says() -> None:
    wire = msgspec.to_builtins(search("Swizzle"))
    assert {"path", "symbol", "kind", "line", "end_line", "score", "why", "snippet"} == set(
        wire["results"][0]
    )
    assert wire["results"][0]["path"] == "include/mini/layout.hpp" and wire["root"].endswith("mini")


def test_nothing_to_search_for_is_said() -> None:
    with pytest.raises(InputError):
        search("  ")
    assert search("xyzzyplugh").results == ()
    for odd in ('"', "AND OR NOT", "name: (", "*", "a" * 5000, "'; DROP TABLE symbols;", "ß∂ƒ", "\0"):
        search(odd)


def test_a_hover_card_tells_all() -> None:
    card = look_up("mini::SM80_16x8x16_F32F16F16F32_TN")
    assert card is not None and card.atom is not None and card.atom.shape == (16, 8, 16)
    assert card.doc == "Multiply 16x8x16, half by half into float" and card.arch == ("sm80",)
    assert card.usages[0].path == "examples/01_tiled_gemm/tiled_gemm.cu" and card.usages[0].line == 9
    traits = look_up("MMA_Traits", argument="SM80_16x8x16_F32F16F16F32_TN")
    assert traits is not None and traits.line == 24
    assert look_up("no_such_thing") is None


def test_definitions_and_workspace_symbols() -> None:
    place = definitions_of("mini::make_layout")[0]
    assert place.file.name == "layout.hpp" and place.line == 22
    assert [p.name for p in workspace_symbols("cp_async")][:2] == ["cp_async_wait", "cp_async_fence"]
    assert workspace_symbols("Swizle")[0].name == "Swizzle"


@pytest.mark.parametrize("tokens", [10, 40, 200, 1000])
def test_answers_for_agents_keep_their_budget(tokens: int) -> None:
    assert len(agent_search("copy", max_tokens=tokens)) <= tokens * CHARACTERS_PER_TOKEN
    assert len(agent_read("Swizzle", max_tokens=tokens)) <= tokens * CHARACTERS_PER_TOKEN


def test_reading_goes_on_where_it_stopped() -> None:
    part = read("include/mini/layout.hpp", line=1, max_tokens=20)
    assert part.line == 1 and part.next_line == part.end_line + 1
    rest = read("include/mini/layout.hpp", line=part.next_line, max_tokens=5000)
    assert rest.next_line == 0 and "MINI_VERSION" in rest.text
    for path in ("../outside.h", "/etc/hostname", "include"):
        with pytest.raises(InputError):
            read(path)


@pytest.mark.parametrize(
    ("code", "does"),
    [
        ("v += __shfl_down_sync(~0u, v, 16);", "shuffle"),
        ('asm("setmaxnreg.inc.sync.aligned.u32 240;");', "setmaxnreg"),
        ('x = 1;\nasm("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0}, [%1];");', "ldmatrix"),
    ],
)
def test_what_code_calls_is_recognised(code: str, does: str) -> None:
    sentence = search(like=code).recognised[0]
    assert does in sentence and sentence.endswith(f"(line {code.count(chr(10)) + 1})")


def test_plain_code_is_not_called_anything_grand() -> None:
    assert search(like="int add(int a, int b) { return a + b; }").recognised == ()


def test_a_file_is_found_by_its_name() -> None:
    for name in ("layout.hpp", "mini/layout.hpp", "include/mini/layout.hpp"):
        best = search(name).results[0]
        assert (best.path, best.kind) == ("include/mini/layout.hpp", "file")
    assert search("no_such_file.hpp").results == () or search("no_such_file.hpp").results[0].kind != "file"


def test_the_users_own_code_comes_before_cutlass_for_its_exact_name(tmp_path: Path, mini: Corpus) -> None:
    library, own = tmp_path / "library", tmp_path / "own"
    for folder in (library / "include/cutlass", own):
        folder.mkdir(parents=True)
    version = "\n".join(f"#define CUTLASS_{part} 1" for part in ("MAJOR", "MINOR", "PATCH"))
    (library / "include/cutlass/version.h").write_text(version)
    many = "/// Swizzles.\nstruct BlockSwizzle {};\n"
    (library / "include/cutlass/block_swizzle.h").write_text(many)
    (own / "a_file_with_a_long_name.cuh").write_text(
        "namespace detail { struct BlockSwizzle { int width; }; }\n"
    )
    build(library)
    build(own, name="own")
    results = search("BlockSwizzle").results
    assert (results[0].corpus, results[1].corpus) == ("own", "cutlass")
    assert search("a_file_with_a_long_name.cuh").results[0].corpus == "own"
    assert definitions_of("BlockSwizzle")[0].file.parent == own
    assert {
        r.corpus for r in search("BlockSwizzle swizzle", options=SearchOptions(corpora=("cutlass",))).results
    } == {""}
    assert search("Swizzle", options=SearchOptions(corpora=("mini",))).corpora[0].root == mini.root
    with pytest.raises(InputError, match="no corpus nowhere"):
        search("Swizzle", options=SearchOptions(corpora=("nowhere",)))


def test_what_is_not_indexed_yet_is_named_beforehand(home: Path, mini: Corpus) -> None:
    assert unbuilt() == ()
    shutil.rmtree(home / "index")
    assert unbuilt() == (mini,) and search("Swizzle").results
    unregister(mini)
    with pytest.raises(NoCorpusError):
        unbuilt()
    with pytest.raises(NoCorpusError):
        search("Swizzle", options=SearchOptions(corpora=("mini",)))


def test_a_deleted_file_is_gone_from_answers(mini: Corpus) -> None:
    (mini.root_path / "include/mini/layout.hpp").unlink()
    paths = [r.path for q in ("Swizzle", "avoid bank conflicts", "layout.hpp") for r in search(q).results]
    assert paths and "include/mini/layout.hpp" not in paths
    assert look_up("mini::Swizzle") is None and not definitions_of("mini::make_layout")
