# SPDX-License-Identifier: Apache-2.0
"""From what a model wrote to what it may mean. Replies are hostile input: what does not fit is said, never guessed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from warplens.agent.llm.anchors import Claim
from warplens.agent.llm.provider import Reply
from warplens_tools.decode import from_builtins
from warplens_tools.errors import WarplensError

#: Bounds on what a reply may bring into titles, tables and other prompts.
_TITLE, _IDEA, _QUERY, _CHANGE = 100, 3000, 300, 600
#: Places in prose at which a JSON object may begin that are looked at.
_STARTS = 40
_ANCHOR = re.compile(
    r"<anchor\s+id\s*=\s*[\"']?(?P<id>\w{1,20})[\"']?\s*>(?P<text>.*?)^[ \t]*</anchor>",
    re.DOTALL | re.MULTILINE,
)
_REPLACE = re.compile(
    r"<replace>\s*<old>(?P<old>.*?)</old>\s*<new>(?P<new>.*?)</new>\s*</replace>", re.DOTALL
)
_LOOK = re.compile(
    r"<look\s+tool\s*=\s*[\"']?(?P<tool>\w+)[\"']?(?:\s+line\s*=\s*[\"']?(?P<line>\d{1,7})[\"']?)?\s*>(?P<query>.*?)</look>",
    re.DOTALL,
)
_FENCE = re.compile(r"^\s*```[\w+-]*[ \t]*\n(?P<code>.*?)\n?[ \t]*```\s*$", re.DOTALL)
_NUMBERED = re.compile(r"^ *\d+ \| ?")
#: What a terminal or an editor shows as something else than a compiler reads.
_UNSEEN = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]|\r(?!\n|\Z)")
#: How models decline in words. Only a reply that gives nothing to work with is looked at.
_DECLINED = re.compile(
    r"\bI(?:'m| am)? (?:can(?:'|no)t|can not|won't|will not|am unable|unable|sorry)\b", re.IGNORECASE
)

Tool = Literal["search", "read", "examples"]


class ReplyError(WarplensError):
    """A reply that cannot be used; `kind` is what it is counted under, the sentence is told the model."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Look(msgspec.Struct, frozen=True):
    """A wish to see something of CUTLASS first."""

    tool: Tool
    query: str
    line: int = 0


class Plan(msgspec.Struct, frozen=True):
    """What a planner wants changed, and where."""

    title: str
    idea: str
    claims: tuple[Claim, ...]
    answers: tuple[str, ...] = ()
    #: Expected speedup factor, held between 1 and 10: a model's optimism steers nothing.
    gain: float = 1.1


class Blocks(msgspec.Struct, frozen=True):
    """New text by anchor, and quotations with their replacements."""

    texts: dict[str, str]
    quotations: tuple[tuple[str, str], ...] = ()


#: The planner's reply as a JSON schema, for providers that can hold a model to one.
PLAN_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["title", "idea", "answers", "gain", "anchors", "look"],
    "properties": {
        "title": {"type": "string"},
        "idea": {"type": "string"},
        "answers": {"type": "array", "items": {"type": "string"}},
        "gain": {"type": "number"},
        "anchors": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["id", "first_line", "last_line", "first_text", "last_text", "change"],
                "properties": {
                    "id": {"type": "string"},
                    "first_line": {"type": "integer"},
                    "last_line": {"type": "integer"},
                    "first_text": {"type": "string"},
                    "last_text": {"type": "string"},
                    "change": {"type": "string"},
                },
            },
        },
        "look": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["tool", "query", "line"],
                "properties": {
                    "tool": {"type": "string", "enum": ["search", "read", "examples"]},
                    "query": {"type": "string"},
                    "line": {"type": "integer"},
                },
            },
        },
    },
}


#: The same for several plans at once.
PLANS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["plans", "look"],
    "properties": {
        "plans": {
            "type": "array",
            "items": {
                **PLAN_SCHEMA,
                "required": [name for name in PLAN_SCHEMA["required"] if name != "look"],
                "properties": {k: v for k, v in PLAN_SCHEMA["properties"].items() if k != "look"},
            },
        },
        "look": PLAN_SCHEMA["properties"]["look"],
    },
}


def whole(reply: Reply) -> str:
    """The text of a reply that ended by itself.

    Raises:
        ReplyError: it was refused, cut, or empty.
    """
    if reply.finish == "refusal":
        raise ReplyError("refused", "the model declined")
    if reply.finish == "length":
        raise ReplyError("truncated", "your reply was cut at its bound; answer shorter, with smaller spans")
    if not reply.text.strip():
        raise ReplyError("empty", "your reply was empty")
    return reply.text


def looks_of(text: str) -> tuple[Look, ...]:
    """What a reply wants to see, in either role's form; () where it answers."""
    found = [
        Look(m["tool"], _one_line(m["query"], _QUERY), int(m["line"] or 0))  # type: ignore[arg-type]
        for m in _LOOK.finditer(text)
        if m["tool"] in ("search", "read", "examples")
    ]
    if found or "<anchor" in text:
        return tuple(found)
    for value in _objects(text):
        wishes = value.get("look")
        if isinstance(wishes, list) and wishes and not (value.get("anchors") or value.get("plans")):
            return tuple(look for wish in wishes if (look := _look(wish)) is not None)
    return ()


def plans_of(text: str, most: int = 1) -> tuple[Plan, ...]:
    """A planner's plans, `most` at most.

    Raises:
        ReplyError: there is none in the text.
    """
    for value in _objects(text):
        listed = value.get("plans")
        entries = listed if isinstance(listed, list) else [value]
        if plans := [plan for entry in entries[:most] if (plan := _plan(entry)) is not None]:
            return tuple(plans)
    raise _nothing(text, "no_plan", "your reply holds no JSON object with title and anchors")


def _plan(value: object) -> Plan | None:
    if not isinstance(value, dict):
        return None
    anchors, title = value.get("anchors"), value.get("title")
    if not isinstance(anchors, list) or not isinstance(title, str):
        return None
    gain, answers = value.get("gain"), value.get("answers")
    return Plan(
        title=_one_line(title, _TITLE) or "a change by the model",
        idea=str(value.get("idea") or "")[:_IDEA],
        claims=tuple(claim for each in anchors[:50] if (claim := _claim(each)) is not None),
        answers=tuple(str(a)[:20] for a in answers[:10]) if isinstance(answers, list) else (),
        # held first: a number of hundreds of digits is no float
        gain=float(min(max(gain, 1), 10)) if isinstance(gain, int | float) and gain == gain else 1.1,
    )


def blocks_of(text: str, *, quotations: bool = False) -> Blocks:
    """A coder's blocks; a debugger's may also quote.

    Raises:
        ReplyError: there are none, or two for one anchor.
    """
    texts: dict[str, str] = {}
    for match in _ANCHOR.finditer(text):
        if match["id"] in texts:
            raise ReplyError("ambiguous_anchor", f"there are two blocks for {match['id']}")
        mark = re.compile(rf"^[ \t]*(?:<<<{match['id']}|{match['id']}>>>)[ \t]*\n?", re.MULTILINE)
        texts[match["id"]] = _code(mark.sub("", match["text"]))
    quoted = tuple((_code(m["old"]), _code(m["new"])) for m in _REPLACE.finditer(text)) if quotations else ()
    if any(_UNSEEN.search(code) for code in (*texts.values(), *(part for pair in quoted for part in pair))):
        raise ReplyError("not_text", "your code holds control characters or marks that turn its direction")
    if not texts and not quoted:
        raise _nothing(text, "no_code", 'your reply holds no <anchor id="..."> block')
    return Blocks(texts, quoted[:8])


def _nothing(text: str, kind: str, message: str) -> ReplyError:
    return (
        ReplyError("refused", "the model declined")
        if _DECLINED.search(text[:600])
        else ReplyError(kind, message)
    )


def _code(text: str) -> str:
    """Code without what models put around it: fences, line numbers on every line."""
    fenced = _FENCE.match(text)
    code = fenced["code"] if fenced is not None else text
    lines = code.strip("\n").split("\n")
    filled = [line for line in lines if line.strip()]
    if filled and all(_NUMBERED.match(line) for line in filled):
        lines = [_NUMBERED.sub("", line) for line in lines]
    return "\n".join(lines)


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """JSON objects in a text with prose around them, in order."""
    decoder, at = json.JSONDecoder(strict=False), 0
    for _ in range(_STARTS):
        at = text.find("{", at)
        if at < 0:
            return
        try:
            value, end = decoder.raw_decode(text, at)
            value = _sound(value)
        except (ValueError, RecursionError):
            at += 1
            continue
        at = end
        if isinstance(value, dict):
            yield value


def sound(text: str) -> str:
    """A text that can be written: half of a surrogate pair, which JSON can name, becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _sound(value: Any) -> Any:
    if isinstance(value, str):
        return sound(value)
    if isinstance(value, list):
        return [_sound(each) for each in value]
    return {sound(name): _sound(each) for name, each in value.items()} if isinstance(value, dict) else value


def _claim(value: object) -> Claim | None:
    try:
        claim = from_builtins(value, Claim, strict=False)
    except (msgspec.ValidationError, OverflowError):
        return None
    return msgspec.structs.replace(claim, id=claim.id[:20], change=claim.change[:_CHANGE])


def _look(value: object) -> Look | None:
    try:
        look = from_builtins(value, Look, strict=False)
    except (msgspec.ValidationError, OverflowError):
        return None
    return msgspec.structs.replace(look, query=_one_line(look.query, _QUERY))


def _one_line(text: str, most: int) -> str:
    """Words on one line without control characters: they get into terminals, tables and other prompts."""
    words = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return words[:most]
