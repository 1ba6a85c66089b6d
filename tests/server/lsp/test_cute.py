# SPDX-License-Identifier: Apache-2.0
"""CuTe from the editor: code actions and their page, hover, definition, workspace symbols."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from lsprotocol import types
from tests.server.lsp.client import Client

from warplens.lsp import protocol
from warplens.lsp.cute_symbols import name_at
from warplens_cutlass.store.build import build
from warplens_tools.text import SourceText

MINI = Path(__file__).parents[2] / "data" / "mini_corpus"
KERNEL = """#include <cute/tensor.hpp>
__global__ void copy(float4 const* in, float4* out) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(0), "l"(in));
  mini::cp_async_wait<0>();
}
"""


@pytest.fixture
async def opened(
    client: Client, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Client, str]:
    """A session with one open kernel, and the small corpus indexed."""
    monkeypatch.setenv("WARPLENS_HOME", str(tmp_path / "home"))
    build(Path(shutil.copytree(MINI, tmp_path / "mini")), name="mini")
    await client.begin(folder)
    uri = (folder / "copy.cu").as_uri()
    client.open(uri, KERNEL)
    return client, uri


def _range(line: int, start: int, end_line: int, end: int) -> types.Range:
    return types.Range(types.Position(line, start), types.Position(end_line, end))


async def test_a_selection_leads_to_definition_and_example(opened: tuple[Client, str]) -> None:
    client, uri = opened
    asked = types.CodeActionParams(
        types.TextDocumentIdentifier(uri), _range(2, 0, 3, 0), types.CodeActionContext(diagnostics=[])
    )
    actions = await client.raw(types.TEXT_DOCUMENT_CODE_ACTION, asked)
    command = next(a["command"] for a in actions if a["title"] == "Show CuTe for this")
    assert command["command"] == protocol.SHOW_CUTE
    page = await client.raw(
        types.WORKSPACE_EXECUTE_COMMAND, types.ExecuteCommandParams(protocol.SHOW_CUTE, command["arguments"])
    )
    assert [r["symbol"].rsplit("::", 1)[-1] for r in page["results"][:2]] == [
        "SM80_CP_ASYNC_CACHEGLOBAL",
        "copy_kernel",
    ]
    assert "asynchronously with cp.async" in page["markdown"] and "copy_sm80.hpp#L12" in page["markdown"]


async def test_words_without_a_corpus_say_what_to_do(client: Client, folder: Path, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WARPLENS_HOME", str(tmp_path / "nothing"))
        await client.begin(folder)
    arguments = [{"query": "swizzle"}]
    answer = await client.raw(
        types.WORKSPACE_EXECUTE_COMMAND, types.ExecuteCommandParams(protocol.SHOW_CUTE, arguments)
    )
    assert answer is None and any("warplens setup cutlass" in text for text in client.shown)
    # before that it is offered, and what it would download is said
    assert "nvidia-cutlass" in client.shown[0]


async def test_an_offer_that_is_taken_but_cannot_be_kept_says_why(
    client: Client, folder: Path, tmp_path: Path
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WARPLENS_HOME", str(tmp_path / "nothing"))
        patch.setenv("PIP_NO_INDEX", "1")
        await client.begin(folder)
    client.answer_request = lambda _: "Fetch CUTLASS"
    arguments = [{"query": "swizzle"}]
    answer = await client.raw(
        types.WORKSPACE_EXECUTE_COMMAND, types.ExecuteCommandParams(protocol.SHOW_CUTE, arguments)
    )
    assert answer is None and len(client.shown) == 2 and "nvidia-cutlass" in client.shown[1]


async def test_hover_definition_and_symbols(opened: tuple[Client, str]) -> None:
    client, uri = opened
    here = types.Position(3, 12)
    hover = await client.text_document_hover_async(types.HoverParams(types.TextDocumentIdentifier(uri), here))
    assert hover is not None and isinstance(hover.contents, types.MarkupContent)
    assert "Waits until at most N groups" in hover.contents.value and "async_copy.cu" in hover.contents.value
    places = await client.text_document_definition_async(
        types.DefinitionParams(types.TextDocumentIdentifier(uri), here)
    )
    assert isinstance(places, list)
    first = places[0]
    assert isinstance(first, types.Location)
    assert first.uri.endswith("copy_sm80.hpp") and first.range.start.line == 27
    symbols = await client.workspace_symbol_async(types.WorkspaceSymbolParams("cp_asinc_wait"))
    assert symbols and symbols[0].name == "cp_async_wait" and symbols[0].container_name == "mini"


@pytest.mark.parametrize(
    ("line", "column", "name", "argument"),
    [
        ("cute::copy(a, b);", 8, "cute::copy", ""),
        ("cute::copy(a, b);", 3, "cute", None),
        ("MMA_Atom<SM80_16x8x16_F32F16F16F32_TN> m;", 4, "MMA_Atom", "SM80_16x8x16_F32F16F16F32_TN"),
        ("int x = 1;", 5, "", None),
        ("for (int i = 0;;)", 2, "", None),
    ],
)
def test_names_are_told_from_other_words(line: str, column: int, name: str, argument: str | None) -> None:
    found = name_at(SourceText("#include <cute/layout.hpp>\n" + line), 2, column)
    if argument is None:
        assert found is None or found.name == name
    else:
        assert found is not None and (found.name, found.argument) == (name, argument)
    assert name_at(SourceText(line), 1, column) is None or "cute::" in line
