"""Client: whatever answers for the model, opened, and asked for chat completions.

A ClientConfig, an SDK's client, a Python function, an Upstream of the gateway or the name of one: each becomes an
Upstream, so that an agent's requests can be passed on in any dialect and an environment can ask for itself.
"""

import asyncio
import inspect
import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import orjson

from seatrial.env.chat_calls import chat_namespace
from seatrial.env.client_config import ClientConfig
from seatrial.env.messages import Messages, as_messages
from seatrial.env.policy import Policy
from seatrial.env.response import Response, as_response
from seatrial.env.tool_tables import as_tool_tables
from seatrial.errors import InvalidModelResponseError, ModelSilentError, OverlongPromptError, ProviderError, UsageError
from seatrial.gateway.api import Answering, ModelRequest, Troubled, Upstream
from seatrial.model.trace import Dialect

if TYPE_CHECKING:  # all dialects of models, which nobody needs before the first rollout
    from seatrial.gateway.upstreams.function import ModelFunction

_OVERLONG = ("context length", "context_length", "context window", "prompt is too long", "too many tokens")
_OF_THE_CALL = frozenset({"timeout", "extra_headers"})
"""Sampling arguments by which SDKs are told how to ask; no server knows them."""
_MESSAGES_NAMES = ("messages", "prompt")
_MOST_ANSWER_BYTES = 128 * 2**20
_rollouts = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Client:
    """An open way to a model. `given` is what it was made from."""

    upstream: Upstream
    given: object
    trial: int = 0
    """By which an upstream tells rollouts apart."""

    def for_rollout(self) -> "Client":
        """The client as one rollout uses it: a script starts at its beginning."""
        fresh = getattr(self.upstream, "fresh", None)  # PerTrial has it; to ask for a Protocol takes long
        return Client(self.upstream if fresh is None else fresh(), self.given, next(_rollouts))

    @property
    def is_stuck(self) -> bool:
        """Whether a call of the rollout has not got as far as its provider."""
        return isinstance(self.upstream, Answering) and self.upstream.is_stuck(self.trial)

    async def answers(self, request: dict[str, Any]) -> bool | None:
        """Whether the model's provider answers a chat completion request; None for a client without a provider.

        It may take without end.
        """
        if isinstance(self.upstream, Answering):
            return await self.upstream.answers(self._outgoing(request, self.upstream.dialects))
        return None

    @property
    def trouble(self) -> str | None:
        """What kept the provider from answering the rollout's latest call, as far as it tells."""
        return self.upstream.trouble(self.trial) if isinstance(self.upstream, Troubled) else None

    @property
    def chat(self) -> SimpleNamespace:
        """`chat.completions.create`, for environments that ask by themselves."""
        return chat_namespace(self.complete)

    async def get_response(
        self,
        prompt: Messages | str,
        model: str,
        sampling_args: Mapping[str, Any] | None = None,
        tools: list[Any] | None = None,
        **_: Any,
    ) -> Response:
        """The model's answer to a prompt; raises as `complete` does."""
        request = chat_request(as_messages(prompt), model, as_tool_tables(tools), sampling_args or {})
        return as_response(await self.complete(request))

    async def complete(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to a chat completion request. Raises ModelError, or OverlongPromptError when it does not fit."""
        dialects = self.upstream.dialects
        respond = getattr(self.upstream, "respond", None)
        if respond is not None and "openai_chat" in dialects:  # a function of this process
            answer: dict[str, Any] = await respond(request)
            return answer
        if _OF_THE_CALL.isdisjoint(request):
            return await self._ask(request, dialects)
        return await self._ask_so(request, dialects)

    async def _ask_so(self, request: dict[str, Any], dialects: frozenset[Dialect]) -> dict[str, Any]:
        """As `_ask`, in the way that the request itself says."""
        from seatrial.env.sdk_upstream import is_sdk_client  # noqa: PLC0415 - see the top

        if is_sdk_client(self.given):  # which knows what is meant
            return await self._ask(request, dialects)
        asked = {name: value for name, value in request.items() if name not in _OF_THE_CALL}
        timeout = request.get("timeout")
        try:
            async with asyncio.timeout(timeout if isinstance(timeout, int | float) else None):
                return await self._ask(asked, dialects, request.get("extra_headers") or {})
        except TimeoutError as error:
            raise ModelSilentError(f"the model has not answered within timeout={timeout}") from error

    async def _ask(
        self, request: dict[str, Any], dialects: frozenset[Dialect], headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        from seatrial.gateway.translate import (  # noqa: PLC0415 - most clients need no translation
            Untranslatable,
            translate_response,
        )

        try:
            outgoing = self._outgoing(request, dialects)._replace(headers=headers or {})
            async with self.upstream.ask(outgoing) as reply:
                body = await _whole(reply.chunks)
            if reply.status >= 300:
                raise _refusal(reply.status, body)
            return translate_response(_read(body), outgoing.dialect or "openai_chat", "openai_chat")
        except (Untranslatable, orjson.JSONEncodeError) as error:
            raise InvalidModelResponseError(f"this cannot be said to the model, or by it: {error}") from error

    def _outgoing(self, request: dict[str, Any], dialects: frozenset[Dialect]) -> ModelRequest:
        """The request in a dialect of the upstream. Raises Untranslatable, or JSONEncodeError."""
        from seatrial.gateway.dialects import call_body, call_path  # noqa: PLC0415 - see the top
        from seatrial.gateway.translate import translate_request  # noqa: PLC0415 - most clients need no translation

        spoken: Dialect = "openai_chat" if "openai_chat" in dialects or not dialects else min(dialects)
        payload = translate_request(_as_of_today(request, dialects), "openai_chat", spoken)
        path, body = call_path(spoken, payload), call_body(spoken, payload)
        return ModelRequest(path, dialect=spoken, payload=payload, body=body, trial=self.trial)


@asynccontextmanager
async def open_client(given: object) -> AsyncIterator[Client]:
    """A client for the length of a block; one that is open already is left so. Raises UsageError."""
    if isinstance(given, Client):
        yield given
        return
    if isinstance(given, Policy):
        given = given.client
    upstream = make_upstream(given)
    if isinstance(upstream, AbstractAsyncContextManager):
        async with upstream:
            yield Client(upstream, given)
    else:
        yield Client(upstream, given)


def make_upstream(given: Any) -> Upstream:
    """The upstream that a client amounts to, not opened yet. Raises UsageError that says what may be given."""
    from seatrial.env.sdk_upstream import SdkUpstream, is_sdk_client  # noqa: PLC0415 - see the top

    if isinstance(given, ClientConfig):
        from seatrial.env.endpoints import Endpoints  # noqa: PLC0415 - an HTTP client

        providers = [each.provider() for each in given.endpoints()]
        return providers[0] if len(providers) == 1 else Endpoints(providers)
    if isinstance(given, str):
        from seatrial.gateway.upstreams.open import make_upstream as make_named  # noqa: PLC0415 - an HTTP client

        return make_named(given)
    if hasattr(given, "ask") and hasattr(given, "dialects"):
        upstream: Upstream = given
        return upstream
    if is_sdk_client(given):
        return SdkUpstream(given)
    if callable(given):
        from seatrial.gateway.upstreams.function import FunctionModel  # noqa: PLC0415 - see the top

        return FunctionModel(_of_request(given), name=getattr(given, "__name__", "function"))
    raise UsageError(
        f"the client is of type {type(given).__name__}; expected a ClientConfig, a client with "
        "`chat.completions.create`, a function of the messages, or the name of an upstream such as 'scripted:FILE'"
    )


def chat_request(
    messages: Messages, model: str, tools: list[Any] | None, sampling_args: Mapping[str, Any]
) -> dict[str, Any]:
    """A chat completion request. `extra_body` among the sampling arguments is merged in, as the SDKs do."""
    values = {name: value for name, value in sampling_args.items() if value is not None}
    extra = values.pop("extra_body", {})
    return {"model": model, "messages": messages, **({"tools": tools} if tools else {}), **values, **extra}


def _as_of_today(request: dict[str, Any], dialects: frozenset[Dialect]) -> dict[str, Any]:
    """A request with the length's newer name for OpenAI, whose models refuse the old one; others may know only that."""
    if "openai_responses" not in dialects or "max_tokens" not in request:
        return request
    others = {name: value for name, value in request.items() if name != "max_tokens"}
    return {"max_completion_tokens": request["max_tokens"], **others}


def _of_request(function: Callable[..., Any]) -> "ModelFunction":
    """A function of a request from one that may also want the messages alone, which its parameter's name says."""
    first = next(iter(inspect.signature(function).parameters), None)
    if first not in _MESSAGES_NAMES:
        return function
    if inspect.iscoroutinefunction(function):

        async def ask_async(request: dict[str, Any]) -> Any:
            return await function(request["messages"])

        return ask_async
    return lambda request: function(request["messages"])


async def _whole(chunks: AsyncIterator[bytes]) -> bytes:
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > _MOST_ANSWER_BYTES:
            raise InvalidModelResponseError(f"the answer is larger than {_MOST_ANSWER_BYTES:,} bytes")
    return bytes(body)


def _refusal(status: int, body: bytes) -> ProviderError | OverlongPromptError:
    said = body[:2000].decode(errors="replace")
    if status < 500 and any(words in said.lower() for words in _OVERLONG):
        return OverlongPromptError(f"the provider refused the prompt: {said[:500]}")
    error = ProviderError(f"the provider answered {status}: {said[:500]}", status)
    error.retryable = False
    return error


def _read(body: bytes) -> dict[str, Any]:
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        answer = None
    if not isinstance(answer, dict):
        raise InvalidModelResponseError(f"the answer is not a JSON object: {body[:200].decode(errors='replace')}")
    return answer
