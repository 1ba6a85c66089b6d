# SPDX-License-Identifier: Apache-2.0
"""One session over standard input and output, from a bare client, against a service with known answers."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from pathlib import Path
from typing import Any

import psutil
import pytest
from lsprotocol import types
from tests.patience import PATIENCE
from tests.server.lsp.client import REAL, Client

from warplens.lsp import protocol

KERNEL = """__global__ void scale(float* a) {
  a[0] = 1;  // source: early
  a[1] = 2;  // binary: late
}
"""
EVERYTHING = types.ClientCapabilities(
    workspace=types.WorkspaceClientCapabilities(
        configuration=True,
        did_change_watched_files=types.DidChangeWatchedFilesClientCapabilities(dynamic_registration=True),
        did_change_configuration=types.DidChangeConfigurationClientCapabilities(dynamic_registration=True),
        code_lens=types.CodeLensWorkspaceClientCapabilities(refresh_support=True),
        inlay_hint=types.InlayHintWorkspaceClientCapabilities(refresh_support=True),
        workspace_edit=types.WorkspaceEditClientCapabilities(document_changes=True),
    ),
    window=types.WindowClientCapabilities(work_done_progress=True),
)


STATUS = {"accepts": [protocol.STATUS]}


def write(folder: Path, text: str, name: str = "k.cu") -> str:
    """Write a file; returns its URI."""
    path = folder / name
    path.write_text(text)
    return path.as_uri()


def document(uri: str) -> types.TextDocumentIdentifier:
    return types.TextDocumentIdentifier(uri)


async def test_opening_shows_both_tiers(client: Client, folder: Path) -> None:
    await client.begin(folder)
    uri = write(folder, KERNEL)
    client.open(uri, KERNEL)
    await client.until(lambda: client.found(uri) == [(1, "early"), (2, "late")])
    assert all((1, "early") in shown for shown in client.shown_of(uri) if shown)
    late = client.published[uri].diagnostics[1]
    assert late.code == "WL902" and late.source == "warplens"
    assert late.code_description is not None and late.code_description.href.endswith("/sample-binary.md")
    assert await client.end() == 0


async def test_typing_moves_and_marks_what_a_save_found(client: Client, folder: Path) -> None:
    await client.begin(folder)
    uri = write(folder, KERNEL)
    client.open(uri, KERNEL)
    await client.until(lambda: client.found(uri) == [(1, "early"), (2, "late")])
    client.insert(uri, 2, 0, 0, "// 😀 first\n")
    await client.until(lambda: client.published[uri].version == 2)
    assert client.found(uri) == [(2, "early"), (3, "late")]
    client.insert(uri, 3, 3, 2, "b = ")
    await client.until(lambda: client.published[uri].version == 3)
    assert client.found(uri) == [(2, "early"), (3, "late (edited, being checked)")]


async def test_a_text_in_the_midst_of_typing_is_not_analysed(client: Client, folder: Path) -> None:
    await client.begin(folder)
    uri = write(folder, KERNEL)
    client.open(uri, KERNEL)
    await client.until(lambda: len(client.found(uri)) == 2)
    client.insert(uri, 2, 1, 2, "run( // raise ")
    await client.until(lambda: client.published[uri].version == 2)
    assert len(client.found(uri)) == 2 and not any("internal error" in m for m in client.logged)
    client.insert(uri, 3, 1, 6, ")")
    await client.until(lambda: any("internal error" in m for m in client.logged))


async def test_an_error_of_its_own_ends_a_check_with_a_word_and_the_next_one_is_made(
    client: Client, folder: Path
) -> None:
    await client.begin(folder, options={"accepts": [protocol.STATUS]})
    uri = write(folder, KERNEL + "// break\n")
    client.open(uri, KERNEL + "// break\n")
    await client.until(lambda: (uri, "error") in _states(client))
    said = [params for method, params in client.custom if method == "status"][-1]
    assert "an error in Warplens itself, FileNotFoundError: what was cached has gone" in said["message"]
    assert said["remedy"].startswith("save the file again")
    await client.until(lambda: any("internal error" in m for m in client.logged))
    client.replace(uri, 2, KERNEL)
    write(folder, KERNEL)
    client.save(uri)
    await client.until(lambda: client.found(uri) == [(1, "early"), (2, "late")])
    await client.until(lambda: _states(client)[-1] == (uri, "ready"))


async def test_closing_clears(client: Client, folder: Path) -> None:
    await client.begin(folder)
    uri = write(folder, KERNEL)
    client.open(uri, KERNEL)
    await client.until(lambda: len(client.found(uri)) == 2)
    client.close(uri)
    await client.until(lambda: client.found(uri) == [])


async def test_a_save_during_a_compile_cancels_the_older_one(client: Client, folder: Path) -> None:
    await client.begin(folder)
    slow = KERNEL + "// sleep: 600\n"
    uri = write(folder, slow)
    client.open(uri, slow)
    await client.until(lambda: _compilers(client))
    compiler = _compilers(client)[0]
    client.replace(uri, 2, KERNEL)
    write(folder, KERNEL)
    client.save(uri)
    await client.until(lambda: client.found(uri) == [(1, "early"), (2, "late")])
    await client.until(lambda: not compiler.is_running())


async def test_results_of_an_older_text_are_moved_to_the_present_one(client: Client, folder: Path) -> None:
    await client.begin(folder)
    slow = KERNEL + "// waits for: typed\n"
    uri = write(folder, slow)
    client.open(uri, slow)
    await client.until(lambda: _compilers(client))
    client.insert(uri, 2, 0, 0, "\n\n")
    await client.until(lambda: client.found(uri) == [(3, "early")])
    (folder / "typed").touch()
    await client.until(lambda: (4, "late") in client.found(uri))
    late = {line for shown in client.shown_of(uri) for line, words in shown if words.startswith("late")}
    assert late == {4}


async def test_an_unsaved_text_gets_the_files_results_on_its_own_lines(client: Client, folder: Path) -> None:
    await client.begin(folder)
    uri = write(folder, KERNEL)
    client.open(uri, "// not saved yet\n" + KERNEL)
    await client.until(lambda: client.found(uri) == [(2, "early"), (3, "late")])


async def test_progress_is_created_and_its_cancel_kills_the_compiler(client: Client, folder: Path) -> None:
    await client.begin(folder, capabilities=EVERYTHING)
    slow = KERNEL + "// sleep: 600\n"
    uri = write(folder, slow)
    client.open(uri, slow)
    await client.until(lambda: client.reports and _compilers(client))
    token, begin = client.reports[0]
    assert token in client.created and begin["cancellable"]
    compiler = _compilers(client)[0]
    client.window_work_done_progress_cancel(types.WorkDoneProgressCancelParams(token))
    await client.until(lambda: client.reports[-1][1]["kind"] == "end")
    assert not compiler.is_running()
    assert client.found(uri) == [(1, "early")]


async def test_the_end_of_the_session_ends_the_compiler(client: Client, folder: Path) -> None:
    await client.begin(folder)
    slow = KERNEL + "// sleep: 600\n"
    uri = write(folder, slow)
    client.open(uri, slow)
    await client.until(lambda: _compilers(client))
    compiler = _compilers(client)[0]
    assert await client.end() == 0
    assert not compiler.is_running()


async def test_a_client_that_dies_leaves_nothing_behind(client: Client, folder: Path) -> None:
    await client.begin(folder)
    slow = KERNEL + "// sleep: 600\n"
    uri = write(folder, slow)
    client.open(uri, slow)
    await client.until(lambda: _compilers(client))
    compiler, server = _compilers(client)[0], psutil.Process(client.pid)
    assert client._server is not None and client._server.stdin is not None
    client._server.stdin.close()
    await client.until(lambda: not compiler.is_running() and not server.is_running())


async def test_an_untrusted_workspace_is_parsed_only(client: Client, folder: Path) -> None:
    await client.begin(folder, options={"trusted": False, "accepts": ["warplens/status"]})
    slow = KERNEL + "// sleep: 600\n"
    uri = write(folder, slow)
    client.open(uri, slow)
    client.save(uri)
    await client.until(lambda: client.found(uri) == [(1, "early")])
    await client.until(lambda: (uri, "limited") in _states(client))
    # a later request is answered after what the save began
    await client.text_document_code_lens_async(types.CodeLensParams(document(uri)))
    assert not _compilers(client) and (uri, "ready") not in _states(client)
    client.replace(uri, 2, KERNEL)
    write(folder, KERNEL)
    client.protocol.notify(protocol.DID_CHANGE_TRUST, {"trusted": True})
    await client.until(lambda: client.found(uri) == [(1, "early"), (2, "late")])


async def test_options_that_cannot_be_read_are_not_taken_as_trust(client: Client, folder: Path) -> None:
    await client.begin(folder, options={"trusted": "yes"})
    uri = write(folder, KERNEL)
    client.open(uri, KERNEL)
    await client.until(lambda: client.found(uri) == [(1, "early")])
    assert any("not trusted" in message for message in client.logged)


async def test_lenses_hints_and_refresh(client: Client, folder: Path) -> None:
    await client.begin(folder, capabilities=EVERYTHING)
    uri = write(folder, KERNEL)
    client.open(uri, KERNEL)
    await client.until(lambda: len(client.found(uri)) == 2)
    await client.until(lambda: {"lens", "hint"} <= set(client.refreshed))
    lenses = await client.text_document_code_lens_async(types.CodeLensParams(document(uri)))
    assert lenses is not None and all(lens.command is None for lens in lenses)
    resolved = [await client.code_lens_resolve_async(lens) for lens in lenses]
    titles = [lens.command.title for lens in resolved if lens.command is not None]
    assert titles == ["memory-bound · sample source +1 · occupancy 50%", "Optimize"]
    assert await _hints(client, uri) == ["40 regs"]
    client.insert(uri, 2, 1, 2, "a[9] = ")
    await client.until(lambda: client.published[uri].version == 2)
    assert await _hints(client, uri) == ["40 regs (before the edit)"]


async def test_each_kind_of_hint_and_the_lens_can_be_switched_off(client: Client, folder: Path) -> None:
    client.settings = {"hints": {"registers": False}, "codeLens": False}
    await client.begin(folder, capabilities=EVERYTHING)
    uri = write(folder, KERNEL)
    client.open(uri, KERNEL)
    await client.until(lambda: len(client.found(uri)) == 2)
    await client.until(lambda: types.WORKSPACE_DID_CHANGE_CONFIGURATION in client.registered)
    assert await _hints(client, uri) == ["occ 50%"]
    client.settings = {"codeLens": False}
    client.workspace_did_change_configuration(types.DidChangeConfigurationParams(None))
    while await _hints(client, uri) == ["occ 50%"]:  # the settings are asked for, and come some time
        await asyncio.sleep(0.01)
    assert await _hints(client, uri) == ["40 regs · occ 50%"]
    assert not await client.text_document_code_lens_async(types.CodeLensParams(document(uri)))


async def test_a_client_without_configuration_may_push_it(client: Client, folder: Path) -> None:
    await client.begin(folder, options={"settings": {"tier": "source"}})
    uri = write(folder, KERNEL)
    client.open(uri, KERNEL)
    await client.until(lambda: client.found(uri) == [(1, "early")])
    client.workspace_did_change_configuration(
        types.DidChangeConfigurationParams({"warplens": {"tier": "auto"}})
    )
    await client.until(lambda: client.found(uri) == [(1, "early"), (2, "late")])


async def test_hover_shows_the_evidence(client: Client, folder: Path) -> None:
    await client.begin(folder)
    uri = write(folder, KERNEL)
    client.open(uri, KERNEL)
    await client.until(lambda: len(client.found(uri)) == 2)
    kernel = await _hover(client, uri, 0, 18)
    assert "memory-bound" in kernel and "40 registers per thread" in kernel and "WL902" in kernel
    finding = await _hover(client, uri, 2, 15)
    assert "| marks | 1 | 0 (this test) | sample 1.0 (binary) |" in finding and "WL901" not in finding
    assert await _hover(client, uri, 2, 0) == ""


async def test_code_actions_fix_suppress_and_optimize(client: Client, folder: Path) -> None:
    await client.begin(folder, capabilities=EVERYTHING)
    uri = write(folder, KERNEL)
    client.open(uri, KERNEL)
    await client.until(lambda: len(client.found(uri)) == 2)
    actions = await actions_at(client, uri, 2)
    assert [a["title"] for a in actions] == [
        "Remove the mark (unproven)",
        "Fix and prove: Remove the mark",
        "Show the evidence of WL902",
        "Optimize this kernel",
        "Show CuTe for this",
        "Ignore WL902 here, with a reason",
    ]
    assert [a.get("isPreferred") for a in actions] == [True, None, None, None, None, None]
    # an editor puts those that name a diagnostic first
    assert [bool(a.get("diagnostics")) for a in actions] == [True, True, True, False, False, False]
    assert client.published[uri].diagnostics[1].message == "scale: late"
    edit = actions[0]["edit"]["documentChanges"][0]
    assert edit["textDocument"] == {"uri": uri, "version": 1}
    assert edit["edits"][0]["newText"] == "" and edit["edits"][0]["range"]["start"]["line"] == 2
    comment = actions[5]["edit"]["documentChanges"][0]["edits"][0]
    assert comment["newText"] == "  // warplens: ignore WL902: reason\n"
    only = await actions_at(client, uri, 2, only=["refactor"])
    assert [a["title"] for a in only] == ["Optimize this kernel", "Show CuTe for this"]


async def test_a_kernel_without_a_program_gets_a_launch_spec(client: Client, folder: Path) -> None:
    await client.begin(folder, capabilities=EVERYTHING)
    uri = write(folder, KERNEL)
    client.open(uri, KERNEL)
    title = "Write a launch spec for scale"
    (action,) = [a for a in await actions_at(client, uri, 0) if a["title"] == title]
    (edit,) = action["edit"]["documentChanges"][0]["edits"]
    assert edit["range"]["start"] == edit["range"]["end"] == {"line": 0, "character": 0}
    assert edit["newText"].startswith("/* warplens: launch\ngrid = 1024\n")
    client.change(uri, 2, types.TextDocumentContentChangeWholeDocument(edit["newText"] + KERNEL))
    line = edit["newText"].count("\n")
    assert title not in [a["title"] for a in await actions_at(client, uri, line)]


TWO = (
    KERNEL
    + """__global__ void other(float* a, int n) {
  a[2] = 1;  // source: second
}
void run(float* a) {
  other<<<1, 32>>>(a, 4);
}
"""
)


async def test_actions_follow_the_range_and_fix_all_of_a_code(client: Client, folder: Path) -> None:
    await client.begin(folder, options={"accepts": [protocol.IGNORE]})
    uri = write(folder, TWO)
    client.open(uri, TWO)
    await client.until(lambda: len(client.found(uri)) == 3)
    whole = types.Range(types.Position(1, 0), types.Position(6, 0))
    params = types.CodeActionParams(document(uri), whole, types.CodeActionContext([]))
    actions = await client.raw(types.TEXT_DOCUMENT_CODE_ACTION, params)
    titles = [a["title"] for a in actions]
    assert titles.count("Optimize this kernel") == 2 and titles.count("Show CuTe for this") == 1
    (everything,) = [a for a in actions if a["title"] == "Fix all WL901 in this file (unproven)"]
    assert [e["range"]["start"]["line"] for e in everything["edit"]["changes"][uri]] == [1, 5]
    (ignore,) = [a for a in actions if a["title"].startswith("Ignore WL902")]
    asked = ignore["command"]["arguments"][0] | {"reason": "it is /* cold */ code"}
    assert (await _command(client, protocol.IGNORE, asked))["applied"]
    (edit,) = client.applied[0].changes[uri]  # type: ignore[index]
    assert edit.new_text == "  // warplens: ignore WL902: it is /* cold code\n"
    assert await _command(client, protocol.IGNORE, asked | {"reason": " "}) is None
    assert "needs a reason" in client.shown[-1]


async def test_a_launch_means_its_kernel(client: Client, folder: Path) -> None:
    await client.begin(folder)
    uri = write(folder, TWO)
    client.open(uri, TWO)
    await client.until(lambda: len(client.found(uri)) == 3)
    actions = await actions_at(client, uri, 8)
    (optimize,) = [a for a in actions if a["title"] == "Optimize this kernel"]
    assert optimize["command"]["arguments"][0]["kernel"] == "other"
    where = types.DefinitionParams(document(uri), types.Position(8, 4))
    places = await client.text_document_definition_async(where)
    assert isinstance(places, list) and isinstance(places[0], types.Location)
    assert places[0].uri == uri and places[0].range.start == types.Position(4, 16)
    outline = await client.text_document_document_symbol_async(types.DocumentSymbolParams(document(uri)))
    assert [s.name for s in outline or ()] == ["scale", "other"]
    symbols = await client.workspace_symbol_async(types.WorkspaceSymbolParams("oth"))
    assert symbols and symbols[0].name == "other"


async def test_a_file_is_checked_on_request(client: Client, folder: Path) -> None:
    await client.begin(folder, options=STATUS)
    uri = write(folder, KERNEL)
    client.open(uri, KERNEL)
    await client.until(lambda: (uri, "ready") in _states(client))
    client.custom.clear()
    await _command(client, protocol.CHECK_FILE, {"uri": uri})
    await client.until(lambda: _states(client) == [(uri, "checking"), (uri, "ready")])


async def test_what_would_be_brought_is_said_before_it_is(client: Client, folder: Path) -> None:
    await client.begin(folder)
    answer = await _command(client, protocol.SETUP, {"what": "cutlass"})
    assert not answer["done"] and "nvidia-cutlass" in answer["question"]


async def test_show_evidence_answers_and_shows_a_bare_client(client: Client, folder: Path) -> None:
    await client.begin(folder)
    uri = write(folder, KERNEL)
    client.open(uri, KERNEL)
    await client.until(lambda: len(client.found(uri)) == 2)
    page = await _command(client, protocol.SHOW_EVIDENCE, {"uri": uri, "kernel": "scale"})
    assert page["title"] == "scale" and "WL902" in page["markdown"]
    assert client.shown == [page["markdown"]]
    assert await _command(client, protocol.SHOW_EVIDENCE, {"uri": uri, "kernel": "other"}) is None
    assert client.shown[-1] == "there is no kernel 'other' in this file."


async def test_a_fault_in_one_request_stops_no_other(client: Client, folder: Path) -> None:
    await client.begin(folder)
    bad, good = write(folder, "// raise\n", "bad.cu"), write(folder, KERNEL)
    client.open(bad, "// raise\n")
    client.open(good, KERNEL)
    await client.until(lambda: len(client.found(good)) == 2)
    # what is logged and what is found come in no order
    await client.until(lambda: any("a fault in the service" in message for message in client.logged))
    assert not client.shown


async def test_without_a_compiler_saving_keeps_the_kernels(client: Client, folder: Path) -> None:
    await client.begin(folder, options={"settings": {"tier": "source"}} | STATUS)
    uri = write(folder, KERNEL)
    client.open(uri, KERNEL)
    await client.until(lambda: (uri, "ready") in _states(client))
    client.save(uri)
    await client.until(lambda: _states(client)[-2:] == [(uri, "checking"), (uri, "ready")])
    assert client.found(uri) == [(1, "early")]
    assert await client.text_document_code_lens_async(types.CodeLensParams(document(uri)))


async def test_a_failed_check_says_why_on_the_file(client: Client, folder: Path) -> None:
    await client.begin(folder, options={"settings": {"architecture": "sm_1"}})
    uri = write(folder, KERNEL)
    client.open(uri, KERNEL)
    reason = "sm_1 is not an architecture Warplens knows (set warplens.architecture)"
    await client.until(lambda: (0, reason) in client.found(uri))
    assert (1, "early") in client.found(uri)


@pytest.mark.parametrize("by_client", [True, False], ids=["client", "watchdog"])
async def test_a_changed_header_checks_the_units_that_include_it(
    client: Client, folder: Path, by_client: bool
) -> None:
    await client.begin(folder, capabilities=EVERYTHING if by_client else None, options=STATUS)
    header = write(folder, "int h;\n", "h.cuh")
    text = '#include "h.cuh"\n' + KERNEL
    unit, other = write(folder, text), write(folder, KERNEL, "other.cu")
    client.open(unit, text)
    client.open(other, KERNEL)
    await client.until(lambda: len(client.found(unit)) == 2 and len(client.found(other)) == 2)
    # what is found is told before the status: the first checks' end would be taken for the next ones'
    await client.until(lambda: {(unit, "ready"), (other, "ready")} <= set(_states(client)))
    await client.until(lambda: not by_client or types.WORKSPACE_DID_CHANGE_WATCHED_FILES in client.registered)
    client.custom.clear()
    write(folder, "int h, i;\n", "h.cuh")
    added = write(folder, KERNEL, "new.cu")
    if by_client:
        events = [types.FileEvent(uri, types.FileChangeType.Changed) for uri in (header, added)]
        client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams(events))
    for number in itertools.count():
        # the observer starts beside the first checks, and sees what is written since
        with contextlib.suppress(AssertionError):
            await client.until(lambda: (unit, "checking") in _states(client), 90 if by_client else 1)
            break
        assert number < 90, client.explain()
        write(folder, f"int h, i{number};\n", "h.cuh")
    await client.until(lambda: (unit, "ready") in _states(client))
    assert not [(uri, state) for uri, state in _states(client) if uri == other]


async def test_a_small_file_does_not_wait_behind_slow_ones(client: Client, folder: Path) -> None:
    await client.begin(folder, options=STATUS)
    for number in range(6):
        slow = KERNEL + f"// sleep: 60{number}\n"
        client.open(write(folder, slow, f"slow{number}.cu"), slow)
    await client.until(lambda: _compilers(client))
    uri = write(folder, KERNEL)
    client.open(uri, KERNEL)
    await client.until(lambda: client.found(uri) == [(1, "early"), (2, "late")])
    running = len(_compilers(client))
    assert running <= (os.cpu_count() or 1) + 1
    for number in range(6):
        client.close((folder / f"slow{number}.cu").as_uri())
    await client.until(lambda: not _compilers(client))


async def test_a_deleted_file_is_no_longer_worked_on(client: Client, folder: Path) -> None:
    await client.begin(folder)
    slow = KERNEL + "// sleep: 600\n"
    uri = write(folder, slow)
    client.open(uri, slow)
    await client.until(lambda: _compilers(client))
    (folder / "k.cu").unlink()
    event = types.FileEvent(uri, types.FileChangeType.Deleted)
    client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([event]))
    await client.until(lambda: not _compilers(client))


async def test_the_status_of_a_file_that_is_checked_is_never_ready(client: Client, folder: Path) -> None:
    await client.begin(folder, options=STATUS)
    slow, go = KERNEL + "// waits for: go\n", folder / "go"
    uri, other = write(folder, slow), write(folder, KERNEL, "other.cu")
    client.open(uri, slow)
    client.open(other, KERNEL)

    def states() -> list[str]:
        return [state for of, state in _states(client) if of == uri]

    await client.until(lambda: (other, "ready") in _states(client) and _compilers(client))
    assert states() == ["checking"]
    go.touch()
    await client.until(lambda: states() == ["checking", "ready"])
    go.unlink()
    client.save(uri)
    client.save(uri)
    await client.until(lambda: len(states()) >= 4)
    assert states() == ["checking", "ready", "checking", "checking"]
    go.touch()
    await client.until(lambda: len(states()) >= 5)
    assert states() == ["checking", "ready", "checking", "checking", "ready"]


async def test_folders_may_come_and_go(client: Client, folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    await client.begin(folder)
    (other / "warplens.toml").write_text('tier = "source"\n')
    uri = write(other, KERNEL)
    event = types.WorkspaceFoldersChangeEvent(
        added=[types.WorkspaceFolder(other.as_uri(), "other")], removed=[]
    )
    client.workspace_did_change_workspace_folders(types.DidChangeWorkspaceFoldersParams(event))
    client.open(uri, KERNEL)
    await client.until(lambda: client.found(uri) == [(1, "early")])


async def test_a_broken_settings_file_is_said_once(client: Client, folder: Path) -> None:
    await client.begin(folder)
    (folder / "warplens.toml").write_text("tier = 3\n")
    uri = write(folder, KERNEL)
    client.open(uri, KERNEL)
    await client.until(lambda: len(client.found(uri)) == 3)
    assert "warplens.toml" in client.found(uri)[0][1]
    assert client.found(uri)[1:] == [(1, "early"), (2, "late")]
    wrong = (folder / "warplens.toml").as_uri()
    await client.until(lambda: client.found(wrong))
    (only,) = client.published[wrong].diagnostics
    assert only.range.start.line == 0
    assert "tier" in only.message
    (folder / "warplens.toml").write_text("tier = 'source'\n")
    event = types.FileEvent(wrong, types.FileChangeType.Changed)
    client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([event]))
    await client.until(
        lambda: not client.found(wrong) and not any("warplens.toml" in said for _, said in client.found(uri))
    )


async def test_an_untitled_document_gets_the_source_tier(client: Client, folder: Path) -> None:
    await client.begin(folder)
    client.open("untitled:Untitled-1", KERNEL)
    await client.until(lambda: client.found("untitled:Untitled-1") == [(1, "early")])


async def test_a_uri_may_be_spelled_in_several_ways(client: Client, folder: Path) -> None:
    await client.begin(folder)
    uri = write(folder, KERNEL)
    spelled = uri.replace("%20", " ").replace("%2C", ",").replace(",", "%2c")
    client.open(spelled, KERNEL)
    await client.until(lambda: len(client.found(spelled)) == 2)
    client.save(uri)
    client.insert(uri, 2, 0, 0, "\n")
    await client.until(lambda: client.found(spelled) == [(2, "early"), (3, "late")])


@pytest.mark.parametrize(
    ("encoding", "column"),
    [
        (types.PositionEncodingKind.Utf8, 14),
        (types.PositionEncodingKind.Utf16, 11),
        (types.PositionEncodingKind.Utf32, 10),
    ],
)
async def test_positions_are_in_the_negotiated_encoding(
    client: Client, folder: Path, encoding: types.PositionEncodingKind, column: int
) -> None:
    general = types.GeneralClientCapabilities(position_encodings=[encoding])
    await client.begin(folder, capabilities=types.ClientCapabilities(general=general))
    assert client.capabilities.position_encoding == encoding
    text = "/* 😀µ */  // source: here\n"
    uri = write(folder, text)
    client.open(uri, text)
    await client.until(lambda: client.found(uri))
    assert client.published[uri].diagnostics[0].range.start.character == column
    client.insert(uri, 2, 0, column, "xx")
    await client.until(lambda: client.published[uri].diagnostics[0].range.start.character == column + 2)


async def test_a_form_feed_is_not_a_line_ending(client: Client, folder: Path) -> None:
    await client.begin(folder)
    text = "int a;\f\u2028int b;\r\nint c;  // source: third\r\n"
    uri = write(folder, text)
    client.open(uri, text)
    await client.until(lambda: client.found(uri) == [(1, "third")])
    client.insert(uri, 2, 1, 0, "x")
    await client.until(lambda: client.published[uri].diagnostics[0].range.start.character == 9)


async def test_exit_without_shutdown_fails(client: Client, folder: Path) -> None:
    await client.begin(folder)
    client.exit(None)
    assert client._server is not None
    assert await asyncio.wait_for(client._server.wait(), PATIENCE) == 1


async def test_the_command_starts_the_server(client: Client, folder: Path) -> None:
    result = await client.begin(folder, command=REAL, fresh=True)
    assert result.server_info is not None and result.server_info.name == "warplens"
    commands = result.capabilities.execute_command_provider
    assert commands is not None and set(commands.commands) <= set(protocol.COMMANDS)
    assert await client.end() == 0


def _states(client: Client) -> list[tuple[str, str]]:
    return [(params["uri"], params["state"]) for method, params in client.custom if method == "status"]


def _compilers(client: Client) -> list[psutil.Process]:
    return client.running("time.sleep")


async def _hints(client: Client, uri: str) -> list[str]:
    whole = types.Range(types.Position(0, 0), types.Position(99, 0))
    hints = await client.text_document_inlay_hint_async(types.InlayHintParams(document(uri), whole))
    return [str(hint.label) for hint in hints or ()]


async def _hover(client: Client, uri: str, line: int, character: int) -> str:
    params = types.HoverParams(document(uri), types.Position(line, character))
    hover = await client.text_document_hover_async(params)
    return hover.contents.value if hover and isinstance(hover.contents, types.MarkupContent) else ""


async def actions_at(client: Client, uri: str, line: int, only: list[str] | None = None) -> list[Any]:
    """As JSON: the library reads an action with a command as a command."""
    where = types.Position(line, 4)
    context = types.CodeActionContext([], only=only)
    params = types.CodeActionParams(document(uri), types.Range(where, where), context)
    return list(await client.raw(types.TEXT_DOCUMENT_CODE_ACTION, params))


async def _command(client: Client, command: str, argument: Any) -> Any:
    params = types.ExecuteCommandParams(command, [argument])
    return await client.workspace_execute_command_async(params)


async def test_check_this_file_says_what_it_came_to(client: Client, folder: Path) -> None:
    await client.begin(folder, options={"accepts": [protocol.NOTICE, protocol.STATUS]})
    uri = write(folder, KERNEL)
    client.open(uri, KERNEL)
    await client.until(lambda: len(client.found(uri)) == 2)
    await _command(client, protocol.CHECK_FILE, {"uri": uri})
    notices = [params for method, params in client.custom if method == "notice"]
    assert notices == [{"message": "k.cu: 2 findings in 1 kernel, compiled for sm_90.", "actions": []}]


async def test_a_file_has_a_status_from_the_moment_it_is_opened(client: Client, folder: Path) -> None:
    await client.begin(folder, options={"accepts": [protocol.STATUS], "trusted": False})
    uri = write(folder, KERNEL)
    client.open(uri, KERNEL)
    await client.until(lambda: (uri, "limited") in _states(client))
    assert [state for of, state in _states(client) if of == uri] == ["checking", "limited"]
    assert [p["label"] for m, p in client.custom if m == "status"][-1] == "not trusted"


async def test_what_does_not_compile_is_said_to_be_limited_by_that(client: Client, folder: Path) -> None:
    await client.begin(folder, options={"accepts": [protocol.STATUS]})
    text = KERNEL + "// does not compile\n"
    uri = write(folder, text)
    client.open(uri, text)
    await client.until(lambda: (uri, "limited") in _states(client))
    (said,) = [p for m, p in client.custom if m == "status" and p["state"] == "limited"]
    assert said["message"] == "What is shown rests on the text alone: it does not compile"
    assert said["label"] == "source only"
