# SPDX-License-Identifier: Apache-2.0
"""*Set up toolchain* and *Fetch CUTLASS*: what `warplens setup` does, with the editor's progress."""

from __future__ import annotations

from typing import Any

from lsprotocol import types

from warplens.lsp import cutlass, protocol
from warplens.lsp.commands import answer, argument
from warplens.lsp.server import WarplensServer
from warplens_tools.collect.doctor import repair_bundle
from warplens_tools.process.task import Task
from warplens_tools.toolchain.locate import forget_toolchain, resolve_toolchain
from warplens_tools.toolchain.managed import Bundle, install_bundle


def register(server: WarplensServer) -> None:
    """Register with the server."""

    @server.command(protocol.SETUP)
    async def setup(params: types.ExecuteCommandParams) -> Any:
        return await answer(server, _setup(server, params))


async def _setup(server: WarplensServer, params: types.ExecuteCommandParams) -> protocol.SetupResult:
    asked = argument(params, protocol.SetupArguments)
    if asked.what == "cutlass":
        if asked.consent:
            await cutlass.fetch(server, params.work_done_token)
        return protocol.SetupResult(question=cutlass.QUESTION, done=asked.consent)
    bundle = repair_bundle(resolve_toolchain())
    if bundle is None:
        return protocol.SetupResult(question="")
    if asked.consent:
        await server.jobs.run(
            "Warplens: setting up the toolchain",
            params.work_done_token,
            lambda task: _install(bundle, task),
        )
        server.analysis.everything()
    question = (
        f"Warplens will download about {bundle.megabytes:.0f} MB from PyPI (NVIDIA's licence): "
        f"{', '.join(bundle.requirements)}."
    )
    return protocol.SetupResult(question=question, done=asked.consent)


def _install(bundle: Bundle, task: Task) -> None:
    install_bundle(bundle, consent=True, task=task)
    forget_toolchain()
