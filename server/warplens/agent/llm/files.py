# SPDX-License-Identifier: Apache-2.0
"""Answers from a folder: a prompt file out, an answer file in, so that any model or a person can take part.

Both files of a question have one stem, `<number>-<role>-<hash of the prompt>`. An answer to the very same prompt
that already lies there is taken at once, so that an interrupted search asks nobody twice.
"""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

from warplens.agent.llm.provider import (
    CHARACTERS_PER_TOKEN,
    ProviderError,
    Question,
    Reply,
    UnansweredError,
    Usage,
    estimated_tokens,
)
from warplens_tools.errors import InputError
from warplens_tools.process.task import Task

PROMPT, ANSWER = ".prompt.md", ".answer.md"
#: Seconds between two looks; an answer must stay as it is for as long before it is read.
PAUSE = 0.2
#: Hexadecimal digits of a prompt's hash in its files' names.
_DIGITS = 12


class Files:
    """A provider over one folder, which is made if it is not there. `waits`: for answers, else only those count that
    are there already.

    Raises:
        InputError: the folder cannot be written.
    """

    def __init__(self, folder: Path, *, pause: float = PAUSE, waits: bool = True) -> None:
        self.folder = folder.absolute()
        self.name, self.model = f"files:{folder}", ""
        self._pause, self._waits = pause, waits
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot write prompts to {folder}: {error.strerror or error}") from error

    def ask(self, question: Question, task: Task) -> Reply:
        """See `Provider`. Waits for the answer as long as the question allows."""
        prompt = prompt_text(question)
        key = f"{question.role}-{hashlib.sha256(prompt.encode()).hexdigest()[:_DIGITS]}"
        answer = self._earlier(key) or self._put(key, prompt)
        if not self._waits and _state(answer) is None:
            raise UnansweredError([answer.name])
        if not answer.exists():
            task.say(f"waiting for {answer.name} from the {question.role}")
        text = self._wait(answer, question, task)
        room = question.reply_tokens * CHARACTERS_PER_TOKEN * 2
        usage = Usage(question.tokens, estimated_tokens(text), estimated=True)
        return Reply(text[:room], "length" if len(text) > room else "stop", usage)

    def _earlier(self, key: str) -> Path | None:
        return next(iter(sorted(self.folder.glob(f"*-{key}{ANSWER}"))), None)

    def _put(self, key: str, prompt: str) -> Path:
        """The prompt's file, whole or not at all; the path at which its answer is looked for."""
        known = next(iter(sorted(self.folder.glob(f"*-{key}{PROMPT}"))), None)
        if known is None:
            number = 1 + len(list(self.folder.glob(f"*{PROMPT}")))
            known = self.folder / f"{number:04d}-{key}{PROMPT}"
            partial = known.with_suffix(".part")
            try:
                partial.write_text(prompt, "utf-8")
                partial.replace(known)
            except OSError as error:
                raise InputError(f"cannot write {known}: {error.strerror or error}") from error
        return known.with_name(known.name.removesuffix(PROMPT) + ANSWER)

    def _wait(self, answer: Path, question: Question, task: Task) -> str:
        ends = time.monotonic() + question.seconds
        seen: tuple[int, int] | None = None
        while True:
            task.check()
            now = _state(answer)
            settled = now is not None and time.time() - now[1] / 1e9 > self._pause
            if now is not None and (now == seen or settled):
                return self._read(answer, question)
            if time.monotonic() > ends:
                raise ProviderError(
                    "late",
                    f"no {answer.name} in {question.seconds:g} s",
                    remedy="give whoever answers more time by model.reply-seconds",
                )
            seen = now
            time.sleep(self._pause)

    def _read(self, answer: Path, question: Question) -> str:
        """The answer as far as it may count: a file without end is not read to its end."""
        most = (question.reply_tokens * CHARACTERS_PER_TOKEN * 2 + 1) * 4
        try:
            with answer.open("rb") as file:
                return file.read(most).decode("utf-8", "replace")
        except OSError as error:
            raise ProviderError("unreachable", f"cannot read {answer}: {error.strerror or error}") from error


def prompt_text(question: Question) -> str:
    """A question as one text: what the role is told first, then the conversation."""
    parts = [
        f"<!-- Warplens asks the {question.role}. Write your reply to the .answer.md of the same name. -->"
    ]
    for message in question.messages:
        title = {"system": "Your task", "user": "The case", "assistant": "Your earlier reply"}[message.role]
        parts.append(f"# {title}\n\n{message.text}")
    return "\n\n".join(parts) + "\n"


def _state(path: Path) -> tuple[int, int] | None:
    """Size and time of a file with something in it; None for none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_size, found.st_mtime_ns) if path.is_file() and found.st_size else None
