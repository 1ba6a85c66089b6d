# SPDX-License-Identifier: Apache-2.0
from hypothesis import given
from hypothesis import strategies as st
from tests.index.conftest import MINI

from warplens_cutlass.extract.atoms import parse_atom
from warplens_cutlass.extract.body import ptx_operations
from warplens_cutlass.extract.file import extract_file
from warplens_cutlass.model import Definition, FileFacts, Skipped
from warplens_tools.cuda.syntax.mask import first_branches, mask_library


def facts(path: str) -> FileFacts:
    found = extract_file(path, (MINI / path).read_bytes())
    assert isinstance(found, FileFacts)
    return found


def named(found: FileFacts, name: str) -> Definition:
    return next(d for d in found.definitions if d.name == name)


def test_definitions_carry_what_a_reader_asks_for() -> None:
    found = facts("include/mini/arch/copy_sm80.hpp")
    atom = named(found, "SM80_CP_ASYNC_CACHEGLOBAL")
    assert atom.kind == "atom" and atom.atom is not None and atom.atom.operation == "copy"
    assert atom.qualified_name == "mini::SM80_CP_ASYNC_CACHEGLOBAL"
    assert (atom.line, atom.end_line) == (12, 21)
    assert atom.template_parameters == "<class TS, class TD = TS>"
    assert atom.doc.startswith("Copies sixteen bytes from global to shared memory")
    assert atom.ptx == ("cp.async.cg.shared.global.L2::128B",)
    assert atom.guards == ("defined(CUTE_ARCH_CP_ASYNC_SM80_ENABLED)",)
    assert atom.arch == ("sm80",)


def test_every_kind_is_found() -> None:
    kinds = {d.name: d.kind for d in facts("include/mini/layout.hpp").definitions}
    assert kinds["Layout"] == "class" and kinds["make_layout"] == "function" and kinds["Swizzle"] == "struct"
    assert kinds["Major"] == "enum" and kinds["MN"] == "enumerator"
    assert kinds["Integral"] == "concept" and kinds["MINI_VERSION"] == "macro"
    assert named(facts("examples/01_tiled_gemm/tiled_gemm.cu"), "gemm_device").kind == "kernel"
    traits = [d for d in facts("include/mini/arch/mma_sm80.hpp").definitions if d.kind == "traits"]
    assert {t.specialisation for t in traits} == {"", "<SM80_16x8x16_F32F16F16F32_TN>"}


def test_files_say_what_they_are_for() -> None:
    assert facts("include/mini/layout.hpp").title == "Layouts: functions from coordinates to offsets."
    example = facts("examples/01_tiled_gemm/tiled_gemm.cu")
    assert example.role == "example" and example.arch == ("sm80",)
    assert [s.title for s in facts("docs/layouts.md").sections] == ["Layouts", "Swizzles"]
    listed = dict(facts("examples/README.md").listed)
    assert listed["02_async_copy"] == "overlaps copies with work by asynchronous copies"


def test_atoms_are_read_from_their_names() -> None:
    atom = parse_atom("SM90_64x128x16_F32BF16BF16_SS", "")
    assert atom is not None and atom.shape == (64, 128, 16)
    assert atom.types == ("f32", "bf16", "bf16") and atom.operands == "SS" and atom.arch == "sm90"
    sparse = parse_atom("GMMA_64x8x32_F16F16F16_SS", "cute::SM90::GMMA::SPARSE::GMMA_64x8x32_F16F16F16_SS")
    assert sparse is not None and sparse.arch == "sm90"
    assert parse_atom("TiledCopy") is None


def test_what_only_looks_like_ptx_is_not() -> None:
    assert ptx_operations(b'static_assert(x, "cp.async is not there");') == ()
    text = b'asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; }");'
    assert ptx_operations(text) == ("mbarrier.try_wait.parity.shared::cta.b64",)


def test_a_definition_of_a_masked_macro_is_kept() -> None:
    found = extract_file(
        "config.hpp", b"#define CUTE_HOST_DEVICE inline\nCUTE_HOST_DEVICE int one() { return 1; }\n"
    )
    assert isinstance(found, FileFacts)
    assert {d.name: d.kind for d in found.definitions} == {"CUTE_HOST_DEVICE": "macro", "one": "function"}


def test_branches_that_split_a_statement_do_not_lose_the_class() -> None:
    split = b"#if A\n  using T = One<\n#else\n  using T = Two<\n#endif\n    int>;\n"
    found = extract_file("chosen.hpp", b"struct Chosen {\n" + split + b"  int f() { return 1; }\n};\n")
    assert isinstance(found, FileFacts) and found.definitions[0].name == "Chosen"


def test_comments_and_messages_inside_code_are_remarks() -> None:
    body = b'// spins until the phase flips\n  assert(ok && "barrier was never armed"); include("x.h");'
    found = extract_file("wait.h", b"#include <mini/b.hpp>\nvoid wait(bool ok) {\n  " + body + b"\n}\n")
    assert isinstance(found, FileFacts) and found.includes == ("mini/b.hpp",)
    assert "phase flips" in found.definitions[0].remarks and "never armed" in found.definitions[0].remarks
    assert "x.h" not in found.definitions[0].remarks


def test_hostile_texts_are_skipped_with_a_reason() -> None:
    assert extract_file("a.h", b"\x7fELF\0\0\0") == Skipped("a.h", "binary file")
    assert extract_file("b.h", b"(" * 5000) == Skipped("b.h", "brackets nested too deeply")
    assert isinstance(extract_file("c.h", b"struct \xff\xfe A { int x; };"), FileFacts)


@given(st.binary(max_size=400))
def test_masking_keeps_offsets(data: bytes) -> None:
    for changed in (mask_library(data), first_branches(data)):
        assert len(changed) == len(data)
        assert [i for i, b in enumerate(changed) if b == 10] == [i for i, b in enumerate(data) if b == 10]


@given(st.text("struct A{};()<>#if else endif\n\"'/*template", max_size=300))
def test_no_text_breaks_extraction(text: str) -> None:
    assert isinstance(extract_file("x.cu", text.encode()), FileFacts)
