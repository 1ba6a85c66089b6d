# SPDX-License-Identifier: Apache-2.0
"""Awkward files and machines, against the real server over stdio: a clear message each, and no crash."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from lsprotocol import types
from tests.patience import PATIENCE
from tests.server.lsp.client import REAL, Client

from warplens.lsp import protocol

KERNEL = """__global__ void scale(float *a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] = a[i] * 2.0;
}
"""
LAUNCHED = KERNEL + "void run(float *a, int n) { scale<<<n / 256, 256>>>(a, n); }\n"
EXAMPLES = Path(__file__).parents[2] / "examples" / "first"
SOURCE_ONLY = {"settings": {"tier": "source"}}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    client = Client()
    yield client
    with contextlib.suppress(Exception):
        await client.end()


def write(folder: Path, text: str, name: str = "k.cu") -> str:
    path = folder / name
    path.write_text(text)
    return path.as_uri()


async def opened(client: Client, uri: str, text: str, seconds: float = 30) -> None:
    """Open a document, and wait for its first analysis."""
    client.open(uri, text)
    await client.until(lambda: uri in client.published, seconds)


async def lenses(client: Client, uri: str) -> list[str]:
    params = types.CodeLensParams(types.TextDocumentIdentifier(uri))
    found = await client.text_document_code_lens_async(params) or ()
    commands = [(await client.code_lens_resolve_async(lens)).command for lens in found]
    return [command.title for command in commands if command is not None]


async def hover(client: Client, uri: str, line: int, character: int) -> str:
    where = types.HoverParams(types.TextDocumentIdentifier(uri), types.Position(line, character))
    answer = await client.text_document_hover_async(where)
    return answer.contents.value if answer and isinstance(answer.contents, types.MarkupContent) else ""


async def unharmed(client: Client) -> None:
    """The server still answers, raised nothing, and ends in order."""
    assert not [m for m in client.logged if "internal error" in m], client.explain()
    assert await client.end() == 0


async def test_a_file_without_a_kernel_shows_nothing(client: Client, tmp_path: Path) -> None:
    await client.begin(tmp_path, command=REAL, options=SOURCE_ONLY)
    texts = ["", "\n", "// only a comment\n", "int add(int a, int b) { return a + b; }\n", "\ufeff", "}}}((("]
    for number, text in enumerate(texts):
        uri = write(tmp_path, text, f"{number}.cu")
        await opened(client, uri, text)
        assert await lenses(client, uri) == [], text
        assert await hover(client, uri, 0, 0) == "", text
    await unharmed(client)


async def test_a_kernel_that_is_never_launched_says_so(client: Client, tmp_path: Path) -> None:
    await client.begin(tmp_path, command=REAL, options=SOURCE_ONLY)
    uri = write(tmp_path, KERNEL)
    await opened(client, uri, KERNEL)
    assert len(await lenses(client, uri)) == 2
    assert "No launch of this kernel in this file" in await hover(client, uri, 0, 18)
    await unharmed(client)


def spent(client: Client) -> float:
    """Seconds of processor of the server: those on the clock say more of what else the machine does."""
    times = psutil.Process(client.pid).cpu_times()
    return times.user + times.system


async def test_a_large_generated_file_does_not_stop_the_editor(client: Client, tmp_path: Path) -> None:
    table = "".join(
        f"__device__ const float table{n}[4] = {{1.f, 2.f, 3.f, {n}.f}};\n" for n in range(35_000)
    )
    text = table + LAUNCHED
    assert len(text) > 2_000_000
    await client.begin(tmp_path, command=REAL, options=SOURCE_ONLY)
    uri = write(tmp_path, text)
    before = spent(client)
    await opened(client, uri, text, PATIENCE)
    whole = spent(client) - before
    last = text.count("\n") - 1
    before = spent(client)
    for version in range(2, 12):
        client.insert(uri, version, last, 0, "// ")
    assert len(await lenses(client, uri)) == 2
    # ten edits cost less than reading it all once
    assert spent(client) - before < whole
    await unharmed(client)


async def test_line_endings_keep_lines(client: Client, tmp_path: Path) -> None:
    await client.begin(tmp_path, command=REAL, options=SOURCE_ONLY)
    for number, ending in enumerate(("\r\n", "\r")):
        text = LAUNCHED.replace("\n", ending)
        path = tmp_path / f"{number}.cu"
        path.write_bytes(text.encode())
        await opened(client, path.as_uri(), text)
        assert "`scale`" in await hover(client, path.as_uri(), 0, 18)
        assert "`scale`" in await hover(client, path.as_uri(), 4, 31)
    await unharmed(client)


async def test_a_utf_16_file_has_the_lines_of_the_editor(client: Client, tmp_path: Path) -> None:
    text = "// µ 😀\r\n" + LAUNCHED.replace("\n", "\r\n")
    await client.begin(tmp_path, command=REAL)
    path = tmp_path / "k.cu"
    path.write_bytes(b"\xff\xfe" + text.encode("utf-16-le"))
    await opened(client, path.as_uri(), text)
    assert "`scale`" in await hover(client, path.as_uri(), 1, 18)
    await unharmed(client)


async def test_a_syntax_error_still_shows_the_kernels(client: Client, tmp_path: Path) -> None:
    text = LAUNCHED + "__global__ void broken(float *a { a[0] = ; }\n"
    await client.begin(tmp_path, command=REAL, options=SOURCE_ONLY)
    uri = write(tmp_path, text)
    await opened(client, uri, text)
    assert "`scale`" in await hover(client, uri, 0, 18)
    await unharmed(client)


async def test_an_unknown_architecture_is_named(client: Client, tmp_path: Path) -> None:
    await client.begin(tmp_path, command=REAL, options={"settings": {"architecture": "sm_999"}})
    uri = write(tmp_path, LAUNCHED)
    client.open(uri, LAUNCHED)
    await client.until(lambda: any("sm_999" in message for _, message in client.found(uri)))
    await unharmed(client)


async def test_without_a_compiler_the_source_tier_stays(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    await client.begin(
        tmp_path, command=REAL, options={"settings": {"tier": "binary"}, "accepts": ["warplens/status"]}
    )
    uri = write(tmp_path, LAUNCHED)
    client.open(uri, LAUNCHED)
    await client.until(lambda: [s for _, s in client.custom if s["state"] in ("limited", "error")])
    said = next(s for _, s in client.custom if s["state"] in ("limited", "error"))
    assert said["message"] and said["remedy"]
    assert len(await lenses(client, uri)) == 2
    await unharmed(client)


@pytest.mark.compiler
@pytest.mark.skipif(shutil.which("nvdisasm") is not None, reason="the toolkit here has its own nvdisasm")
async def test_without_a_disassembler_the_lens_offers_what_is_lacking(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPLENS_HOME", str(tmp_path / "home"))
    accepts = ["warplens/status", "warplens.setupToolchain", protocol.DOCTOR]
    await client.begin(tmp_path, command=REAL, options={"accepts": accepts})
    uri = write(tmp_path, LAUNCHED)
    client.open(uri, LAUNCHED)
    await client.until(lambda: [s for _, s in client.custom if s["state"] == "limited"])
    said = next(s for _, s in client.custom if s["state"] == "limited")
    assert said["label"] == "no SASS" and "setup toolchain" in said["remedy"]
    assert "Set up toolchain" in await lenses(client, uri)
    page: Any = await client.workspace_execute_command_async(types.ExecuteCommandParams(protocol.DOCTOR))
    assert page["markdown"].startswith("**Kernels are compiled here, but not read:")
    assert "[Set up toolchain](command:warplens.setupToolchain)" in page["markdown"]
    await unharmed(client)


async def test_a_loop_of_links_is_survived(client: Client, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "itself.cu").symlink_to(tmp_path / "itself.cu")
    await client.begin(tmp_path, command=REAL, options=SOURCE_ONLY)
    write(tmp_path, LAUNCHED)
    through = (tmp_path / "loop" / "loop" / "k.cu").as_uri()
    await opened(client, through, LAUNCHED)
    assert len(await lenses(client, through)) == 2
    client.open((tmp_path / "itself.cu").as_uri(), LAUNCHED)
    await client.until(lambda: any("itself.cu" in message for message in client.logged))
    await unharmed(client)


async def test_a_file_that_is_gone_from_disk_keeps_its_source_findings(
    client: Client, tmp_path: Path
) -> None:
    await client.begin(tmp_path, command=REAL)
    uri = (tmp_path / "gone.cu").as_uri()
    client.open(uri, LAUNCHED)
    await client.until(lambda: any("cannot read" in message for _, message in client.found(uri)))
    assert len(await lenses(client, uri)) == 2
    await unharmed(client)


@pytest.mark.compiler
async def test_saving_adds_registers_occupancy_and_the_compilers_findings(
    client: Client, tmp_path: Path
) -> None:
    path = tmp_path / "lennard_jones.cu"
    shutil.copy(EXAMPLES / "lennard_jones.cu", path)
    text, uri = path.read_text(), path.as_uri()
    await client.begin(tmp_path, command=REAL)
    client.open(uri, text)
    await client.until(lambda: any("double instructions" in message for _, message in client.found(uri)), 60)
    whole = types.Range(types.Position(0, 0), types.Position(999, 0))
    params = types.InlayHintParams(types.TextDocumentIdentifier(uri), whole)

    labels = [str(hint.label) for hint in await client.text_document_inlay_hint_async(params) or ()]
    assert any("regs" in label for label in labels)
    assert any("occupancy" in title for title in await lenses(client, uri))
    line = next(n for n, row in enumerate(text.splitlines()) if "void forces(" in row)
    page = await hover(client, uri, line, text.splitlines()[line].index("forces") + 1)
    assert " registers per thread" in page and "WL301" in page
    await unharmed(client)


@pytest.mark.compiler
async def test_a_missing_include_is_said_on_its_line(client: Client, tmp_path: Path) -> None:
    text = '#include <cstdio>\n#include "not_there.cuh"\n' + LAUNCHED
    await client.begin(tmp_path, command=REAL)
    uri = write(tmp_path, text)
    client.open(uri, text)
    await client.until(lambda: any("not_there.cuh" in message for _, message in client.found(uri)), 60)
    assert any(line == 1 and "not_there.cuh" in message for line, message in client.found(uri))
    assert len(await lenses(client, uri)) == 2
    await unharmed(client)


@pytest.mark.compiler
async def test_a_read_only_folder_is_checked(client: Client, tmp_path: Path) -> None:
    uri = write(tmp_path, LAUNCHED)
    tmp_path.chmod(0o555)
    try:
        await client.begin(tmp_path, command=REAL)
        client.open(uri, LAUNCHED)
        await client.until(lambda: client.found(uri), 60)
        assert {path.name for path in tmp_path.iterdir()} == {"k.cu"}
        await unharmed(client)
    finally:
        tmp_path.chmod(0o755)


async def test_the_doctor_answers_with_a_page(client: Client, tmp_path: Path) -> None:
    await client.begin(tmp_path, command=REAL, options={"accepts": [protocol.DOCTOR]})
    params = types.ExecuteCommandParams(protocol.DOCTOR)
    page: Any = await client.workspace_execute_command_async(params)
    assert page["title"] == "Warplens Doctor"
    assert "| nvcc |" in page["markdown"] and "| GPU |" in page["markdown"]
    assert not client.shown
    await unharmed(client)


@pytest.mark.compiler
async def test_optimize_without_a_gpu_offers_an_unproven_edit_and_says_why(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    path = tmp_path / "transpose.cu"
    shutil.copy(EXAMPLES / "transpose.cu", path)
    uri = path.as_uri()
    await client.begin(tmp_path, command=REAL, options={"accepts": [protocol.PROPOSAL]})
    await opened(client, uri, path.read_text())
    params = types.ExecuteCommandParams(protocol.OPTIMIZE, [{"uri": uri, "kernel": "transpose"}])
    proposal: Any = await client.workspace_execute_command_async(params)
    assert proposal["state"] == "unproven" and proposal["title"].endswith("(unproven)")
    assert "nothing can be measured" in proposal["proof"] and proposal["newText"] != path.read_text()
    await client.until(lambda: ("proposal", proposal) in client.custom)
    await unharmed(client)
