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
from warplens.agent.llm.library import Library, open_library
from warplens.agent.llm.measured import Measured, card_words, stand_in_words
from warplens.agent.llm.openai_chat import OPENAI, OpenAIChat
from warplens.agent.llm.provider import Provider
from warplens.agent.llm.secret import Secret, public
from warplens.agent.llm.situation import judged_from
from warplens.agent.llm.source import ModelSource
from warplens.agent.llm.spending import Allowance, Ledger, Prices
from warplens.agent.result import ModelUse
from warplens.agent.versions import Node
from warplens.measure.judge_settings import Allowed
from warplens.measure.session import Baseline
from warplens.read_settings import take_variable
from warplens.service.library_build import finds_library, library_options
from warplens.service.measured import Launched, raw_of
from warplens.service.report import FileReport
from warplens.settings import Loaded, Model
from warplens.store.database import data_folder
from warplens_cutlass.corpus import Corpus
from warplens_tools.arch.gpu import Gpu
from warplens_tools.arch.load import target_architecture
from warplens_tools.decode import from_builtins
from warplens_tools.errors import InputError
from warplens_tools.finding import Bottleneck
from warplens_tools.run.build import flags_of
from warplens_tools.run.workload import Workload
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


class Choice(msgspec.Struct, frozen=True):
    """Who answers, as a command names it; "" means the setting."""

    provider: str = ""
    name: str = ""


def chosen(loaded: Loaded, choice: Choice) -> Model:
    """The settings' model, or the one that the command line names.

    Raises:
        InputError: there is no such provider.
    """
    configured = loaded.settings.model
    changed = {key: value for key, value in msgspec.structs.asdict(choice).items() if value}
    try:
        return from_builtins(
            {
                **{f.encode_name: getattr(configured, f.name) for f in msgspec.structs.fields(Model)},
                **changed,
            },
            Model,
        )
    except msgspec.ValidationError as error:
        raise InputError(
            f"there is no provider {choice.provider}", remedy="give none, openai, editor, or files:FOLDER"
        ) from error


def destination_of(model: Model) -> Destination | None:
    """Who gets what a search sends; None where nothing leaves the machine."""
    if model.provider == "openai":
        key = model.key_variable if take_variable(model.key_variable) else ""
        return Destination("openai", public(model.base_url or OPENAI), key)
    return Destination("editor") if model.provider == "editor" else None


def wants_counters(loaded: Loaded, choice: Choice) -> bool:
    """Whether somebody who answers is told what was counted. Raises as `chosen`."""
    model = chosen(loaded, choice)
    return model.provider != "none" and model.feedback != "nothing"


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


def open_asker(
    model: Model,
    root: str,
    ask_editor: AskEditor | None = None,
    library: Library | None = None,
    *,
    waits: bool = True,
) -> Asker:
    """Who is asked in one search, with its account. `waits`: for answers that come as files.

    Raises:
        ConsentError: the user has not agreed to what would be sent.
        InputError: the provider cannot be used as it is set up.
    """
    require_consent(model)
    prices = Prices(model.input_price, model.output_price)
    return Asker(
        _provider(model, root, ask_editor, waits),
        Ledger(Allowance(model.max_tokens, model.max_dollars, prices)),
        Bounds(model.prompt_tokens, model.reply_tokens, model.reply_seconds),
        library,
    )


def _provider(model: Model, root: str, ask_editor: AskEditor | None, waits: bool) -> Provider:
    if model.provider.startswith(FILES):
        folder = Path(root) / Path(model.provider.removeprefix(FILES)).expanduser()
        return Files(folder, waits=waits)
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


class FileCase(msgspec.Struct, frozen=True):
    """What a search knows of its file."""

    path: Path
    text: SourceText
    workload: Workload
    gpu: Gpu
    allowed: Allowed
    #: Gives the file's report, which may take until it is made.
    report: Callable[[], FileReport]
    #: Architecture that the user asked for; "" for the card's own.
    arch: str = ""
    #: Candidates that are judged at once on another machine; 0 where they are judged here. Then nobody waits for a
    #: file with an answer, and a round's questions are asked at once.
    round_of: int = 0
    #: The card that judges, where it is another machine's and has answered.
    card: Gpu | None = None
    #: Gives the report of a version that was judged; None where nobody can.
    check: Callable[[str, Launched | None], FileReport] | None = None


def open_part(
    loaded: Loaded, chosen_by: Choice, case: FileCase, ask_editor: AskEditor | None = None
) -> ModelPart | None:
    """The model's part in a search; None where no provider is configured.

    CUTLASS is open to it where an index of it is there and the file's build finds its headers, or can be told to.

    Raises:
        ConsentError: the user has not agreed to what would be sent.
        InputError, MissingToolError: the provider cannot be used as it is set up.
    """
    model = chosen(loaded, chosen_by)
    if model.provider == "none":
        return None
    arch = case.arch or case.gpu.arch
    library, given = open_library(arch), flags_of(case.workload).arguments
    flags: tuple[str, ...] = ()
    if library is not None and not finds_library(given):
        # a build of the user's own takes no options
        flags = () if case.workload.build else _library_options(library.trees, given, case.text)
        library = library if flags else None
    asker = open_asker(model, loaded.root, ask_editor, library, waits=not case.round_of)
    return ModelPart(asker, model, case, flags)


class ModelPart:
    """The model's part in the search of one file."""

    def __init__(self, asker: Asker, model: Model, case: FileCase, library_flags: Sequence[str]) -> None:
        self._asker, self._model, self._case = asker, model, case
        self._report, self._library_flags = case.report(), tuple(library_flags)
        self._sources: list[ModelSource] = []
        self._measured: Measured | None = None
        self._counted: FileReport | None = None

    @property
    def workload(self) -> Workload:
        """The file's, built so that CUTLASS's headers are found where the model may use them."""
        flags = (*self._case.workload.flags, *self._library_flags)
        return msgspec.structs.replace(self._case.workload, flags=flags)

    @property
    def arch(self) -> str:
        """What to compile for: as the user says, else for the card with what CUTLASS needs of it."""
        if self._case.arch or self._asker.library is None:
            return self._case.arch
        return target_architecture(self._case.gpu.arch, arch_specific=True)

    @property
    def needs_counters(self) -> bool:
        """Whether its first question needs what was counted."""
        return self._model.feedback == "metrics"

    def counted(self, report: FileReport) -> None:
        """The file's report with counters."""
        self._counted = report

    def measured(self, baseline: Baseline) -> None:
        """The user's version was run."""
        self._measured = Measured(baseline, self._case.card or self._case.gpu)

    def source(self, kernel: str) -> ModelSource:
        """The model as a source of steps for one kernel."""
        case = self._case
        briefing = Briefing(
            path=str(case.path),
            kernel=kernel,
            host_edits=case.allowed.host_edits,
            lower_precision=case.allowed.lower_precision,
            arch=self.arch or case.gpu.arch,
            card=self._card(),
            measured=lambda: self._measured.original() if self._measured is not None else "",
            version=lambda node: self._measured.of(node) if self._measured is not None else "",
            beforehand=stand_in_words(case.gpu) if case.round_of else "",
            library_flags=" ".join(self._library_flags),
            feedback=self._model.feedback,
            findings=lambda node: self._seen(node, kernel).findings,
            bottleneck=lambda node: self._bottleneck(node, kernel),
            metrics=lambda: self._metrics(kernel),
        )
        self._sources.append(ModelSource(self._asker, briefing, round_of=max(1, case.round_of)))
        return self._sources[-1]

    def used(self) -> ModelUse:
        """What it did and cost so far."""
        return used_of(self._asker, self._model.provider, self._sources)

    def _card(self) -> str:
        case, measured = self._case, self._measured
        if case.round_of and case.card is None and measured is not None:
            return stand_in_words(case.gpu, measured.baseline.conditions.gpu)
        return card_words(case.card or case.gpu)

    def _seen(self, node: Node, kernel: str) -> FileReport:
        """What text, code and time of a version show; of the user's own also what was counted of it.

        Of that and elsewhere the first questions are asked before it is measured, and must read the same when it is.
        """
        case, measured = self._case, self._measured
        early = bool(case.round_of) and not judged_from(node)
        if node.parent is None and self._counted is not None and not early:
            return self._counted
        if case.check is None or (node.parent is None and early):
            return self._report
        timing = measured.timing_of(node) if measured is not None else None
        launched = (
            Launched(kernel, timing, measured.gpu) if measured is not None and timing is not None else None
        )
        return case.check(node.text.text, launched)

    def _bottleneck(self, node: Node, kernel: str) -> Bottleneck | None:
        seen = self._seen(node, kernel)
        # without its launch a vote rests on sizes that the text seldom tells
        told = seen.kernels if {"timing", "counters"} & set(seen.tiers) else ()
        return next((k.bottleneck for k in told if k.qualified_name == kernel), None)

    def _metrics(self, kernel: str) -> Mapping[str, float]:
        kernels = (self._counted or self._report).kernels
        known = next((k for k in kernels if k.qualified_name == kernel), None)
        return raw_of(known) if known is not None else {}


def used_of(asker: Asker, provider: str, sources: Sequence[ModelSource]) -> ModelUse:
    """What the model did and cost so far."""
    return ModelUse(
        provider=provider,
        model=asker.provider.model,
        proposals=sum(source.made for source in sources),
        tokens=asker.ledger.tokens,
        dollars=asker.ledger.dollars,
        by_role=asker.ledger.by_role(),
        troubles=dict(sorted(asker.troubles.items())),
        stopped=asker.closed,
    )


def _library_options(trees: Sequence[Corpus], given: Sequence[str], text: SourceText) -> tuple[str, ...]:
    tree = next((t.root_path for t in trees if (t.root_path / "include" / "cute").is_dir()), None)
    return library_options(tree, given, text.text) if tree is not None else ()
