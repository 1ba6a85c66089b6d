# SPDX-License-Identifier: Apache-2.0
"""The model of a search, as the settings and the command line choose it: consent, provider, and what it is told."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from warplens.agent.llm.asking import Asker, Bounds
from warplens.agent.llm.cases import Briefing
from warplens.agent.llm.consent import Destination, agree, agreed
from warplens.agent.llm.editor import AskEditor, EditorModel
from warplens.agent.llm.files import Files
from warplens.agent.llm.library import open_library
from warplens.agent.llm.openai_chat import OPENAI, OpenAIChat
from warplens.agent.llm.provider import Provider
from warplens.agent.llm.secret import Secret
from warplens.agent.llm.source import ModelSource
from warplens.agent.llm.spending import Allowance, Ledger, Prices
from warplens.measure.judge_settings import Allowed
from warplens.settings import Loaded, Model, take_variable
from warplens.store.database import data_folder
from warplens_tools.arch.gpu import Gpu
from warplens_tools.errors import InputError
from warplens_tools.finding import Finding
from warplens_tools.text import SourceText

FILES = "files:"


class ConsentError(InputError):
    """The user has not agreed to what would be sent; `destination` says it in words."""

    def __init__(self, destination: Destination) -> None:
        super().__init__(
            f"nothing was sent: {destination.words()}",
            remedy="agree to it once with --yes, or leave out the model with --provider none",
        )
        self.destination = destination


def chosen(loaded: Loaded, provider: str = "", name: str = "") -> Model:
    """The settings' model, or the one that the command line names.

    Raises:
        InputError: there is no such provider.
    """
    configured = loaded.settings.model
    changed = {key: value for key, value in (("provider", provider), ("name", name)) if value}
    try:
        return msgspec.convert(
            {
                **{f.encode_name: getattr(configured, f.name) for f in msgspec.structs.fields(Model)},
                **changed,
            },
            Model,
        )
    except msgspec.ValidationError as error:
        raise InputError(
            f"there is no provider {provider}", remedy="give none, openai, editor, or files:FOLDER"
        ) from error


def destination_of(model: Model) -> Destination | None:
    """Who gets what a search sends; None where nothing leaves the machine."""
    if model.provider == "openai":
        key = model.key_variable if take_variable(model.key_variable) else ""
        return Destination("openai", model.base_url or OPENAI, key)
    return Destination("editor") if model.provider == "editor" else None


def require_consent(model: Model) -> None:
    """Go on only where the user agreed, now or earlier.

    Raises:
        ConsentError: the user did not.
    """
    destination = destination_of(model)
    if destination is not None and not agreed(data_folder(os.environ), destination):
        raise ConsentError(destination)


def give_consent(destination: Destination) -> None:
    """Remember that the user agreed. Raises as `agree`."""
    agree(data_folder(os.environ), destination)


def open_asker(model: Model, root: str, arch: str, ask_editor: AskEditor | None = None) -> Asker | None:
    """Who is asked in one search, with its account; None where no provider is configured.

    Raises:
        ConsentError: the user has not agreed to what would be sent.
        InputError: the provider cannot be used as it is set up.
    """
    if model.provider == "none":
        return None
    require_consent(model)
    prices = Prices(model.input_price, model.output_price)
    return Asker(
        _provider(model, root, ask_editor),
        Ledger(Allowance(model.max_tokens, model.max_dollars, prices)),
        Bounds(model.prompt_tokens, model.reply_tokens, model.reply_seconds),
        open_library(arch),
    )


def _provider(model: Model, root: str, ask_editor: AskEditor | None) -> Provider:
    if model.provider.startswith(FILES):
        return Files(Path(root) / Path(model.provider.removeprefix(FILES)).expanduser())
    if model.provider == "editor":
        if ask_editor is None:
            raise InputError(
                "the editor's models can be asked from the editor alone",
                remedy="use --provider openai or files:FOLDER here",
            )
        return EditorModel(ask_editor, model.name)
    if not model.name:
        raise InputError("no model is named", remedy="give --model NAME, or set model.name")
    key = Secret(take_variable(model.key_variable))
    if not key and not model.base_url:
        raise InputError(
            f"there is no key in ${model.key_variable}",
            remedy="set that variable, or name another by model.key-variable",
        )
    return OpenAIChat(model.name, base_url=model.base_url, key=key, retries=model.retries)


def model_source(
    asker: Asker,
    model: Model,
    *,
    path: Path,
    kernel: str,
    gpu: Gpu,
    allowed: Allowed,
    findings: Callable[[SourceText], Sequence[Finding]],
    metrics: Callable[[], Mapping[str, float]],
) -> ModelSource:
    """The model as a source of steps for one kernel."""
    return ModelSource(
        asker,
        Briefing(
            path=str(path),
            kernel=kernel,
            host_edits=allowed.host_edits,
            lower_precision=allowed.lower_precision,
            arch=gpu.arch,
            card=card_words(gpu),
            feedback=model.feedback,
            findings=findings,
            metrics=metrics,
        ),
    )


def card_words(gpu: Gpu) -> str:
    """What a plan must know of the card."""
    limits = gpu.limits
    roofs = ", ".join(
        f"{name} {gpu.ceilings[name].value / 1e12:.3g} T{gpu.ceilings[name].unit}"
        for name in ("dram", "l2", "fp32")
        if name in gpu.ceilings
    )
    return (
        f"{gpu.name} ({gpu.arch}): {gpu.multiprocessors} SMs; per SM {limits.shared_bytes} bytes of shared memory "
        f"(at most {limits.default_shared_bytes_per_block} per block, opt-in {limits.max_shared_bytes_per_block}), "
        f"{limits.registers} registers, {limits.max_threads} threads; L2 {gpu.l2_bytes >> 20} MiB. Roofs: {roofs}."
    )
