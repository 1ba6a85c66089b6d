# SPDX-License-Identifier: Apache-2.0
"""OpenAI-compatible endpoints: any vendor or local server that serves `/chat/completions`.

The whole exchange runs in an event loop of its own, so that one clock bounds it whatever the other side does:
hangs before the headers, drips single bytes, or never ends. Retries are counted here, not left to the SDK.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from warplens.agent.llm.provider import (
    CHARACTERS_PER_TOKEN,
    PASSING,
    FailureKind,
    Finish,
    ProviderError,
    Question,
    Reply,
    Usage,
    estimated_tokens,
)
from warplens.agent.llm.secret import Secret, public
from warplens_tools.errors import MissingToolError
from warplens_tools.process.task import Task

if TYPE_CHECKING:
    import openai

#: The vendor's own address, where none is given.
OPENAI = "https://api.openai.com/v1"
#: Seconds before the first retry; each doubles, with jitter, and an endpoint's own wish counts up to the most.
FIRST_WAIT, MOST_WAIT = 0.5, 30.0
#: Bytes of a stream for each character of text in it: an event repeats some 250 bytes of frame for a token.
BYTES_PER_CHARACTER = 400
#: Options that not every endpoint knows, in the order in which they are given up where it does not say which.
OPTIONAL = ("response_format", "stream_options", "temperature", "max_tokens")


class OpenAIChat:
    """A provider over HTTP. `retries` of passing failures; `key` goes into the header alone."""

    def __init__(
        self, model: str, *, base_url: str = "", key: Secret | None = None, retries: int = 3
    ) -> None:
        self.name, self.model = "openai", model
        self._base_url = base_url or OPENAI
        #: As messages name it.
        self.address = public(self._base_url)
        self._key, self._retries = key or Secret(""), retries
        #: Options that this endpoint turned out not to take.
        self._without: set[str] = set()

    def ask(self, question: Question, task: Task) -> Reply:
        """See `Provider`.

        Raises:
            MissingToolError: the SDK is not installed.
        """
        try:
            import httpx2
            import openai
        except ImportError as error:
            raise MissingToolError(
                "the openai package is not installed", remedy='run: pip install "warplens[llm]"'
            ) from error
        del httpx2, openai
        task.check()
        try:
            return asyncio.run(self._within(question, task))
        except asyncio.CancelledError:
            task.check()
            raise

    async def _within(self, question: Question, task: Task) -> Reply:
        """The exchange, ended by the clock or by whoever asked."""
        loop, work = asyncio.get_running_loop(), asyncio.current_task()
        assert work is not None
        survived: list[FailureKind] = []

        def stop() -> None:
            with contextlib.suppress(RuntimeError):  # the loop ended meanwhile
                loop.call_soon_threadsafe(work.cancel)

        remove = task.token.on_cancel(stop)
        try:
            async with asyncio.timeout(question.seconds):
                return await self._with_retries(question, survived)
        except TimeoutError:
            raise ProviderError(
                "late",
                f"{self.address} gave no whole reply in {question.seconds:g} s",
                remedy="give it more time by model.reply-seconds",
                usage=Usage(question.tokens, 0, estimated=True),
                survived=tuple(survived),
            ) from None
        finally:
            remove()

    async def _with_retries(self, question: Question, survived: list[FailureKind]) -> Reply:
        while True:
            try:
                reply = await self._once(question)
                return msgspec.structs.replace(reply, survived=tuple(survived))
            except ProviderError as error:
                error.survived = tuple(survived)
                if error.kind not in PASSING or len(survived) >= self._retries:
                    raise
                survived.append(error.kind)
                wait = min(FIRST_WAIT * 2 ** (len(survived) - 1), MOST_WAIT) * random.uniform(0.75, 1.25)
                asked = getattr(error, "retry_after", None)
                await asyncio.sleep(min(asked, MOST_WAIT) if asked is not None else wait)

    async def _once(self, question: Question) -> Reply:
        import httpx2
        import openai

        async with self._client(question) as client:
            while True:
                try:
                    stream = await client.chat.completions.create(**self._request(question))
                    return await _read(stream, question)
                except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                    if not self._gives_up(error, question):
                        raise self._failure(error) from None
                except openai.OpenAIError as error:
                    raise self._failure(error) from None
                except _EndlessReply:
                    raise ProviderError(
                        "endless", f"{self.address} sent more than any reply can have"
                    ) from None
                except httpx2.HTTPError as error:
                    raise ProviderError(
                        "unreachable", f"{self.address} broke off ({type(error).__name__})"
                    ) from None
                except (ValueError, LookupError, TypeError, AttributeError) as error:
                    raise ProviderError(
                        "garbled", f"what {self.address} sent is no chat completion ({type(error).__name__})"
                    ) from None

    def _client(self, question: Question) -> openai.AsyncOpenAI:
        import httpx2
        import openai

        most = question.reply_tokens * CHARACTERS_PER_TOKEN * 2 * BYTES_PER_CHARACTER
        return openai.AsyncOpenAI(
            api_key=self._key.reveal() or "none",
            base_url=self._base_url,
            max_retries=0,
            timeout=question.seconds,
            # the SDK would take these from the environment, for whatever address it speaks to
            default_headers={"OpenAI-Organization": openai.Omit(), "OpenAI-Project": openai.Omit()},
            http_client=openai.DefaultAsyncHttpxClient(
                event_hooks={"response": [_bounding(most)]},
                verify=_certificates(),
                timeout=httpx2.Timeout(question.seconds),
                follow_redirects=False,
            ),
        )

    def _request(self, question: Question) -> dict[str, Any]:
        request: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": m.role, "content": m.text} for m in question.messages],
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": question.temperature,
            "max_tokens": question.reply_tokens,
        }
        if question.schema is not None:
            request["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": question.role, "schema": dict(question.schema), "strict": True},
            }
        kept = {name: value for name, value in request.items() if name not in self._without}
        if "max_tokens" in self._without:
            kept["max_completion_tokens"] = question.reply_tokens
        return kept

    def _gives_up(self, error: openai.APIStatusError, question: Question) -> bool:
        """Leave out the option that an endpoint does not take; False where there is none to blame."""
        sent = [name for name in OPTIONAL if name in self._request(question)]
        said = f"{getattr(error, 'param', '')} {error.message}"
        blamed = next((name for name in sent if name in said), sent[0] if sent else None)
        if blamed is None:
            return False
        self._without.add(blamed)
        return True

    def _failure(self, error: openai.OpenAIError) -> ProviderError:
        """The SDK's error as ours. An endpoint's own words may hold the key, so they are not repeated as they are."""
        import openai

        if not isinstance(error, openai.APIStatusError):
            if isinstance(error, openai.APIConnectionError):
                return ProviderError("unreachable", f"no connection to {self.address}")
            return ProviderError("failing", f"{self.address}: {self._key.hidden_in(str(error))[:200]}")
        status = error.status_code
        words = self._key.hidden_in(" ".join(str(error.message).split()))[:200]
        if status in (401, 403):
            return ProviderError(
                "denied",
                f"{self.address} answered {status}: {words}",
                remedy="set the key in the environment variable that model.key-variable names",
            )
        if status == 429:
            failure = ProviderError("limited", f"{self.address} answered 429: {words}")
        elif status >= 500 or status == 408 or status == 409:
            failure = ProviderError("failing", f"{self.address} answered {status}: {words}")
        else:
            return ProviderError("rejected", f"{self.address} answered {status}: {words}")
        failure.retry_after = _seconds(error.response.headers.get("retry-after"))  # type: ignore[attr-defined]
        return failure


def _seconds(header: str | None) -> float | None:
    try:
        return max(float(header), 0.0) if header is not None else None
    except ValueError:  # a date: the wait of our own does
        return None


async def _read(stream: AsyncIterator[Any], question: Question) -> Reply:
    """The pieces of one choice as a reply, ended when it is longer than it may be."""
    text: list[str] = []
    refused, finish, usage = "", "", None
    room = question.reply_tokens * CHARACTERS_PER_TOKEN * 2
    async for chunk in stream:
        usage = _usage(chunk.usage) or usage
        for choice in (chunk.choices or [])[:1]:
            piece = choice.delta.content or ""
            refused += getattr(choice.delta, "refusal", None) or ""
            finish = choice.finish_reason or finish
            text.append(piece)
            room -= len(piece)
        if room < 0:
            finish = "length"
            break
    whole = "".join(text)
    return Reply(
        text=whole or refused,
        finish=_finish(finish, refused),
        usage=usage or Usage(question.tokens, estimated_tokens(whole), estimated=True),
    )


def _finish(said: str, refused: str) -> Finish:
    if refused or said == "content_filter":
        return "refusal"
    # a stream that breaks off without a reason was cut, too
    return "stop" if said in ("stop", "tool_calls", "function_call") else "length"


def _usage(said: Any) -> Usage | None:
    """What an endpoint counted; None where it did not. Some servers say 0 of what they do not count."""
    if said is None:
        return None
    counts = (said.prompt_tokens, said.completion_tokens)
    if not all(isinstance(count, int) and count >= 0 for count in counts) or not counts[0]:
        return None
    return Usage(*counts)


class _EndlessReply(Exception):  # noqa: N818 - never leaves this module
    """More bytes came than a reply of the allowed length can have."""


@functools.cache
def _certificates() -> ssl.SSLContext:
    """Whom to trust, read once: it takes a tenth of a second."""
    import httpx2

    context: ssl.SSLContext = httpx2.create_ssl_context()
    return context


def _bounding(most: int) -> Callable[[Any], Awaitable[None]]:
    """A hook that gives up a body after `most` bytes: an event without end would fill the memory."""
    import httpx2

    class Body(httpx2.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: Any) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            left = most
            async for part in self._stream:
                left -= len(part)
                if left < 0:
                    raise _EndlessReply
                yield part

        async def aclose(self) -> None:
            await self._stream.aclose()

    async def hook(response: Any) -> None:
        response.stream = Body(response.stream)

    return hook
