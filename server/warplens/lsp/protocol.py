# SPDX-License-Identifier: Apache-2.0
"""The messages Warplens adds to the language server protocol; `docs/protocol.md` explains them.

Names are camel case on the wire. Positions are LSP positions in the negotiated encoding. A client that
knows none of this loses nothing: it gets standard diagnostics, lenses, actions, progress and
`workspace/applyEdit`. Notifications of this page go only to a client that lists their method in
`initializationOptions.accepts`.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

#: Server to client: what the server is doing, for a status item. Parameters: `Status`.
STATUS = "warplens/status"
#: Server to client: an edit with its proof, to be shown as a diff and applied. Parameters: `Proposal`.
PROPOSAL = "warplens/proposal"
#: Server to client: an answer to something that the user asked for, and what leads on. Parameters: `Notice`.
NOTICE = "warplens/notice"
#: Server to client, a request: an answer of one of the editor's language models. `ModelQuestion` → `ModelAnswer`.
#: `$/cancelRequest` ends it. It goes only to a client that lists it in `accepts`.
MODEL = "warplens/model"
#: Client to server: the user granted or withdrew trust. Parameters: `Trust`.
DID_CHANGE_TRUST = "warplens/didChangeTrust"

#: Client to server: which documents are on screen. Parameters: `Visible`.
DID_CHANGE_VISIBLE = "warplens/didChangeVisible"

#: Commands for `workspace/executeCommand`; each takes one object, or none, as its only argument.
#: `OptimizeArguments` → `Proposal` or null.
OPTIMIZE = "warplens.optimize"
#: `FixAndProveArguments` → `Proposal` or null.
FIX_AND_PROVE = "warplens.fixAndProve"
#: `FixAndProveArguments` → null: a quick fix was applied, which its code action tells after its edit.
FIX_APPLIED = "warplens.fixApplied"
#: `ApplyProposalArguments` → `ApplyResult`.
APPLY_PROPOSAL = "warplens.applyProposal"
#: `EvidenceArguments` → `Evidence` or null.
SHOW_EVIDENCE = "warplens.showEvidence"
#: no argument → `Evidence`: what is installed, what is missing, and how to get it.
DOCTOR = "warplens.doctor"
#: `CuteArguments` → `CutePage` or null: definitions and examples of CUTLASS/CuTe for words or code.
SHOW_CUTE = "warplens.showCute"
#: `FileArguments` → null: check a file as it is on disk, now; what was found is said by NOTICE.
CHECK_FILE = "warplens.checkFile"
#: `IgnoreArguments` → `ApplyResult`: write the comment that silences a finding, with its reason.
IGNORE = "warplens.ignore"
#: `SetupArguments` → `SetupResult`: bring what is missing, with the user's consent, or say what it would be.
SETUP = "warplens.setup"

COMMANDS = (
    OPTIMIZE,
    FIX_AND_PROVE,
    FIX_APPLIED,
    APPLY_PROPOSAL,
    SHOW_EVIDENCE,
    DOCTOR,
    SHOW_CUTE,
    CHECK_FILE,
    IGNORE,
    SETUP,
)


StatusState = Literal["ready", "checking", "optimizing", "limited", "error"]


class Message(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The base: camel case on the wire, unknown fields ignored."""


class InitializationOptions(Message, frozen=True):
    """`initializationOptions`; every field may be left out."""

    #: False: the source tier only, nothing in the workspace is built or run. A client without a notion
    #: of trust leaves it out: whoever starts the server by hand trusts the folder.
    trusted: bool = True
    #: Methods and commands this client handles itself: STATUS, PROPOSAL and NOTICE are then sent, and the
    #: result of SHOW_EVIDENCE and DOCTOR is left to the client to show.
    accepts: tuple[str, ...] = ()
    #: The `warplens` section, for clients without `workspace/configuration`.
    settings: dict[str, Any] = {}


class Status(Message, frozen=True):
    """What the server is doing."""

    #: `ready`, `checking` (ptxas, SASS and above), `optimizing`, `limited` (untrusted, or a tier that was
    #: asked for is missing), `error` (the last job failed).
    state: StatusState
    #: Two words for what limits it, such as "not trusted"; "" for the other states.
    label: str = ""
    #: One sentence; "" for `ready`.
    message: str = ""
    #: What to do about it; "" if nothing.
    remedy: str = ""
    #: The document it speaks of; "" for the server as a whole.
    uri: str = ""


class NoticeAction(Message, frozen=True):
    """A button: `command` is one of the client's own, without arguments."""

    title: str
    command: str


class Notice(Message, frozen=True):
    """One or two sentences, and buttons."""

    message: str
    actions: tuple[NoticeAction, ...] = ()


class Trust(Message, frozen=True):
    """The user's decision on the workspace."""

    trusted: bool


class Visible(Message, frozen=True):
    """The documents on screen: they are checked before others."""

    uris: tuple[str, ...]


class WirePosition(Message, frozen=True):
    """An LSP `Position`."""

    line: int
    character: int


class WireRange(Message, frozen=True):
    """An LSP `Range`."""

    start: WirePosition
    end: WirePosition


class WireEdit(Message, frozen=True):
    """An LSP `TextEdit`."""

    range: WireRange
    new_text: str


class Proposal(Message, frozen=True):
    """An edit offered with its proof."""

    #: For APPLY_PROPOSAL; valid until the server ends.
    id: str
    uri: str
    #: Version of the document the edits are against; null where it is not open.
    version: int | None
    #: Qualified name of the kernel.
    kernel: str
    #: e.g. "scale: 1.42× faster" or "Pad the tile (unproven)".
    title: str
    #: A verdict's state: "faster" is proven, "unproven" says in `proof` why it is not.
    state: Literal[
        "refused", "not_built", "illegal", "crashed", "hung", "wrong", "unproven", "impossible",
        "provisional", "slower", "same", "faster",
    ]  # fmt: skip
    edits: tuple[WireEdit, ...]
    #: The whole text after the edits, for a diff view.
    new_text: str
    #: Markdown: times with interval, GPU, clocks, resources before and after, what was tried.
    proof: str


class OptimizeArguments(Message, frozen=True):
    """Which kernel to make faster, and how much to spend. None means the setting."""

    uri: str
    #: Qualified name; "" takes the hottest.
    kernel: str = ""
    #: Candidates to judge.
    budget: int | None = None
    seconds: float | None = None


class FixAndProveArguments(Message, frozen=True):
    """One quick fix, named by its finding; `line` is 1-based in the document as it is now."""

    uri: str
    code: str
    kernel: str
    line: int
    #: Slug of the rewrite.
    rewrite: str


class ApplyProposalArguments(Message, frozen=True):
    """Which proposal to apply."""

    id: str


class ApplyResult(Message, frozen=True):
    """Whether the client applied it, and why not."""

    applied: bool
    reason: str = ""


class EvidenceArguments(Message, frozen=True):
    """A kernel, or one of its findings where `code` is given; `line` is 1-based."""

    uri: str
    kernel: str = ""
    code: str = ""
    line: int = 0


class Evidence(Message, frozen=True):
    """A page to show."""

    title: str
    markdown: str


class CuteArguments(Message, frozen=True):
    """What to look for in CUTLASS: words, or else lines of an open document (1-based, inclusive)."""

    uri: str = ""
    line: int = 0
    end_line: int = 0
    query: str = ""


class CuteResult(Message, frozen=True):
    """One place in a corpus; lines are 1-based and inclusive."""

    uri: str
    line: int
    end_line: int
    symbol: str
    kind: str
    why: str


class CutePage(Evidence, frozen=True):
    """A page, and the same results as data."""

    results: tuple[CuteResult, ...]


class FileArguments(Message, frozen=True):
    """An open document."""

    uri: str


class IgnoreArguments(Message, frozen=True):
    """Which finding to silence, and why; `line` is 1-based in the document as it is now."""

    uri: str
    code: str
    line: int
    reason: str


class SetupArguments(Message, frozen=True):
    """What to bring. Without consent nothing is downloaded, and the result says what would be."""

    what: Literal["toolchain", "cutlass"]
    consent: bool = False


class SetupResult(Message, frozen=True):
    """`question` asks for the consent; "" where there is nothing to bring. `done` says that it was brought."""

    question: str
    done: bool = False


class ModelMessage(Message, frozen=True):
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    text: str


class ModelQuestion(Message, frozen=True):
    """What a language model of the editor's is asked."""

    #: The model's id or family; "" for the editor's first.
    model: str
    messages: tuple[ModelMessage, ...]
    temperature: float
    #: Tokens that the answer may have.
    reply_tokens: int


class ModelAnswer(Message, frozen=True):
    """Its text, or why there is none."""

    text: str = ""
    #: "" where there is a text; else the editor's own code, such as "NoPermissions", "Blocked" or "NotFound".
    error: str = ""
    message: str = ""
    #: Tokens as the model counts them; null where it does not.
    input_tokens: int | None = None
    output_tokens: int | None = None
