# SPDX-License-Identifier: Apache-2.0
"""*Optimize*, *Fix and prove* and *Apply*, from a bare client and from one that shows proposals itself."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from tests.patience import PATIENCE
from tests.server.lsp.client import Client
from tests.server.lsp.test_session import EVERYTHING, KERNEL, actions_at, write

from warplens.lsp import protocol
from warplens.store.database import data_folder, open_store
from warplens.store.rates import hit_rates

PROPOSALS = {"accepts": [protocol.PROPOSAL, protocol.STATUS]}


async def _opened(client: Client, folder: Path, text: str = KERNEL, **begin: Any) -> str:
    await client.begin(folder, **begin)
    uri = write(folder, text)
    client.open(uri, text)
    await client.until(lambda: client.found(uri))
    return uri


async def _command(client: Client, command: str, argument: Any, token: str | None = None) -> Any:
    params = types.ExecuteCommandParams(command, [argument], work_done_token=token)
    return await client.workspace_execute_command_async(params)


async def test_a_proposal_is_shown_and_applied(client: Client, folder: Path) -> None:
    uri = await _opened(client, folder, options=PROPOSALS, capabilities=EVERYTHING)
    answer = await _command(client, protocol.OPTIMIZE, {"uri": uri, "kernel": "scale"})
    shown = [params for method, params in client.custom if method == "proposal"]
    assert shown == [answer]
    assert answer["state"] == "faster" and answer["newText"] == KERNEL.replace("a[0] = 1", "a[0] = 2")
    assert answer["edits"][0]["range"]["start"] == {"line": 1, "character": 9} and answer["version"] == 1
    assert await _command(client, protocol.APPLY_PROPOSAL, {"id": answer["id"]}) == {
        "applied": True,
        "reason": "",
    }
    assert client.applied[0].document_changes is not None


async def test_a_bare_client_is_asked_and_gets_the_edit(client: Client, folder: Path) -> None:
    client.answer_request = lambda _: "Apply"
    uri = await _opened(client, folder)
    await _command(client, protocol.OPTIMIZE, {"uri": uri, "kernel": "scale"})
    await client.until(lambda: client.applied)
    assert client.shown[0].startswith("scale: 1.42× faster")
    assert client.applied[0].changes is not None
    assert [edit.new_text for edit in client.applied[0].changes[uri]] == ["2"]


async def test_the_clients_own_progress_token_is_used(client: Client, folder: Path) -> None:
    uri = await _opened(client, folder, options=PROPOSALS)
    await _command(client, protocol.OPTIMIZE, {"uri": uri, "kernel": "scale"}, token="mine")
    await client.until(lambda: client.reports[-1][1]["kind"] == "end")
    values = [value for token, value in client.reports if token == "mine"]
    assert [value["kind"] for value in values] == ["begin", "report", "end"]
    assert values[1]["percentage"] == 50 and not client.created


@pytest.mark.parametrize("way", ["progress", "request"])
async def test_cancel_ends_the_process_tree(client: Client, folder: Path, way: str) -> None:
    # a check of the same text compiles in no time, so that the one process that sleeps is the candidate's
    uri = await _opened(client, folder, KERNEL + "// judge: 600\n", options=PROPOSALS)
    argument = {"uri": uri, "kernel": "scale"}
    params = types.ExecuteCommandParams(protocol.OPTIMIZE, [argument], work_done_token="mine")
    future = client.protocol.send_request(types.WORKSPACE_EXECUTE_COMMAND, params, msg_id="the-request")
    await client.until(lambda: client.running("sleep(600)"))
    (worker,) = client.running("sleep(600)")
    if way == "progress":
        client.window_work_done_progress_cancel(types.WorkDoneProgressCancelParams("mine"))
        assert await asyncio.wait_for(asyncio.wrap_future(future), PATIENCE) is None
    else:
        client.cancel_request(types.CancelParams("the-request"))
        with pytest.raises(JsonRpcException):
            await asyncio.wait_for(asyncio.wrap_future(future), PATIENCE)
    await client.until(lambda: not worker.is_running())
    await client.until(lambda: client.reports[-1][1]["kind"] == "end")
    states = [params["state"] for method, params in client.custom if method == "status"]
    assert "optimizing" in states and not client.shown


async def test_nothing_faster_is_said(client: Client, folder: Path) -> None:
    uri = await _opened(client, folder, KERNEL.replace("a[0] = 1", "a[0] = 3"))
    assert await _command(client, protocol.OPTIMIZE, {"uri": uri, "kernel": "scale"}) is None
    assert client.shown == ["nothing faster was found for scale"]


async def test_without_a_gpu_the_edit_is_offered_unproven_and_says_why(client: Client, folder: Path) -> None:
    uri = await _opened(client, folder, KERNEL + "// no GPU\n", options=PROPOSALS)
    argument = {"uri": uri, "code": "WL901", "kernel": "scale", "line": 2, "rewrite": "remove-mark"}
    answer = await _command(client, protocol.FIX_AND_PROVE, argument)
    assert answer["state"] == "unproven" and "unproven" in answer["title"]
    assert "there is no CUDA GPU in this machine" in answer["proof"]
    assert "run it where there is one" in answer["proof"]


async def test_fix_and_prove_gives_the_verdict_on_that_fix(client: Client, folder: Path) -> None:
    uri = await _opened(client, folder, options=PROPOSALS)
    argument = {"uri": uri, "code": "WL901", "kernel": "scale", "line": 2, "rewrite": "remove-mark"}
    answer = await _command(client, protocol.FIX_AND_PROVE, argument)
    assert answer["state"] == "slower" and answer["title"] == "Remove the mark: slower"
    assert "source: early" not in answer["newText"]


async def test_a_quick_fix_that_is_applied_is_remembered(
    client: Client, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("WARPLENS_HOME", str(home))
    uri = await _opened(client, folder)
    (fix,) = [a for a in await actions_at(client, uri, 1) if a["title"] == "Remove the mark (unproven)"]
    assert fix["edit"]
    # the client applies the edit, then runs the command
    await _command(client, fix["command"]["command"], *fix["command"]["arguments"])
    with open_store(data_folder({"WARPLENS_HOME": str(home)})) as store:
        assert {(r.kind, r.subject, r.accepted) for r in hit_rates(store)} == {
            ("rule", "remove-mark", 1),
            ("tool", "WL901", 1),
        }


async def test_an_unsaved_file_is_not_measured(client: Client, folder: Path) -> None:
    uri = await _opened(client, folder, options=PROPOSALS)
    client.insert(uri, 2, 0, 0, "// new\n")
    assert await _command(client, protocol.OPTIMIZE, {"uri": uri, "kernel": "scale"}) is None
    assert client.shown == ["k.cu has unsaved changes. Save it first: the file on disk is measured."]


async def test_an_untrusted_workspace_is_not_measured(client: Client, folder: Path) -> None:
    uri = await _opened(client, folder, options={"trusted": False})
    assert await _command(client, protocol.OPTIMIZE, {"uri": uri, "kernel": "scale"}) is None
    assert client.shown == ["the workspace is not trusted: nothing in it is built or run. Trust it."]


async def test_an_edit_elsewhere_moves_the_proposal_and_one_in_the_kernel_ends_it(
    client: Client, folder: Path
) -> None:
    uri = await _opened(client, folder, options=PROPOSALS)
    answer = await _command(client, protocol.OPTIMIZE, {"uri": uri, "kernel": "scale"})
    client.insert(uri, 2, 0, 0, "// one\n// two\n")
    assert (await _command(client, protocol.APPLY_PROPOSAL, {"id": answer["id"]}))["applied"]
    assert client.applied[0].changes is not None
    assert client.applied[0].changes[uri][0].range.start.line == 3
    client.insert(uri, 3, 4, 0, "int more;\n")
    refused = await _command(client, protocol.APPLY_PROPOSAL, {"id": answer["id"]})
    assert not refused["applied"] and "edited since" in refused["reason"]


async def test_a_client_that_refuses_the_edit_is_believed(client: Client, folder: Path) -> None:
    client.accept_edits = False
    uri = await _opened(client, folder, options=PROPOSALS)
    answer = await _command(client, protocol.OPTIMIZE, {"uri": uri, "kernel": "scale"})
    assert not (await _command(client, protocol.APPLY_PROPOSAL, {"id": answer["id"]}))["applied"]
    unknown = await _command(client, protocol.APPLY_PROPOSAL, {"id": "none"})
    assert unknown == {"applied": False, "reason": "there is no such proposal"}


async def test_a_malformed_argument_is_a_sentence(client: Client, folder: Path) -> None:
    await _opened(client, folder)
    assert await _command(client, protocol.OPTIMIZE, {"kernel": "scale"}) is None
    assert client.shown == ["warplens.optimize: Object missing required field `uri`."]


async def test_without_a_gpu_and_a_finding_nothing_is_offered_and_nothing_has_failed(
    client: Client, folder: Path
) -> None:
    text = KERNEL.replace("// source: early", "").replace("// binary: late", "") + "// no GPU\n"
    await client.begin(folder, options={"accepts": [protocol.PROPOSAL, protocol.NOTICE]})
    uri = write(folder, text)
    client.open(uri, text)
    assert await _command(client, protocol.OPTIMIZE, {"uri": uri, "kernel": "scale"}) is None
    (said,) = [params for method, params in client.custom if method == "notice"]
    assert said["message"] == "scale: no finding asks for an edit" and not client.shown
    assert [action["command"] for action in said["actions"]] == ["warplens.runDoctor"]
