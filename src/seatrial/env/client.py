"""Client: what answers for the model, opened, and asked for chat completions.

A ClientConfig, an SDK's client, a Python function, an Upstream of the gateway or the name of one: each becomes an
Upstream, so that an agent's requests can be passed on in any dialect and an environment can ask for itself. A Policy
is a model that is exchanged while rollouts go on. HTTP clients and dialects are imported when the first one is needed.
"""

import asyncio
import inspect
import itertools
import os
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from inspect import Parameter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import orjson
from pydantic import Field, ValidationError, field_validator

from seatrial.env.messages import Messages, Response, as_messages, as_response, chat_namespace
from seatrial.env.tool_tables import as_tool_tables
from seatrial.errors import InvalidModelResponseError, ModelSilentError, OverlongPromptError, ProviderError, UsageError
from seatrial.gateway.api import Answering, ModelRequest, ReportsFailures, Upstream
from seatrial.model.arguments import OptionsModel, usage_error
from seatrial.model.base import NonNegativeInt
from seatrial.model.trace import DialectName
from seatrial.untrusted.json import parse_object

if TYPE_CHECKING:
    from seatrial.gateway.upstreams.function import ModelFunction
    from seatrial.gateway.upstreams.provider import HttpProvider


# ClientConfig: where a model is.

_OPENAI = "https://api.openai.com/v1"
_OPENAI_KEY = "OPENAI_API_KEY"
_OPENAI_DIALECTS: tuple[DialectName, ...] = ("openai_chat", "openai_responses")

ClientType = Literal[
    "openai_completions",
    "openai_chat_completions",
    "openai_chat_completions_token",
    "openai_responses",
    "renderer",
    "anthropic_messages",
    "nemorl_chat_completions",
]
_CLIENT_TYPES: dict[str, DialectName] = {"openai_responses": "openai_responses", "anthropic_messages": "anthropic"}

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

Seconds = Annotated[float, Field(gt=0)]


class ClientConfig(OptionsModel):
    """A provider of models. Raises UsageError for values that make no sense.

    The key is `api_key`, or what the variable `api_key_var` holds. Without either, OpenAI's own address gets the key
    in OPENAI_API_KEY and any other address none: a key goes only where it was named for.

    Kept without effect: `client_idx`, `max_keepalive_connections` (connections are kept as long as they are good),
    `extra_headers_from_state`, and the `renderer` with its fields.
    """

    base_url: str = _OPENAI
    api_key: str | None = Field(default=None, repr=False)
    api_key_var: str | None = None
    timeout: Seconds = 600.0
    """How long an answer may take to begin."""
    connect_timeout: Seconds = 10.0
    idle_timeout: Seconds = 120.0
    """How long an answer may pause."""
    max_retries: NonNegativeInt = 4
    """How often a request is sent again, at most."""
    max_connections: Annotated[int, Field(gt=0)] = 512
    extra_headers: dict[str, str] = Field(default_factory=dict, repr=False)
    dialects: tuple[DialectName, ...] | None = None
    client_type: ClientType | None = None
    """How requests are written where `dialects` does not say; tokens and the renderer are chat completions."""
    endpoint_configs: tuple[dict[str, Any], ...] = Field(default=(), repr=False)
    """Several servers, of which each rollout has the next; what one does not say is as it is here."""
    client_idx: int = 0
    max_keepalive_connections: int | None = None
    extra_headers_from_state: dict[str, str] = Field(default_factory=dict)
    renderer: Any = None
    renderer_config: Any = None
    renderer_model_name: str | None = None
    renderer_pool_size: int | None = None

    @field_validator("api_key")
    @classmethod
    def _is_key(cls, value: str | None) -> str | None:
        if value is not None and not (value.isascii() and value.isprintable() and value.strip()):
            found = "empty" if not value.strip() else "text with characters that no key has, such as a line break"
            raise ValueError(f"is {found}, expected a key; leave it out where none is needed")
        return value

    @field_validator("extra_headers")
    @classmethod
    def _are_headers(cls, value: dict[str, str]) -> dict[str, str]:
        for name, said in value.items():
            if not _HEADER_NAME.fullmatch(name):
                raise ValueError(f"{name!r} is no name of a header, expected letters, digits and dashes")
            if any(character in said for character in "\r\n\0"):
                raise ValueError(f"the header {name} holds a line break, which no header may")
        return value

    def __init__(self, *unnamed: Any, **values: Any) -> None:
        if "api_base_url" in values:  # what the address is called elsewhere
            values.setdefault("base_url", values.pop("api_base_url"))
        if values.get("extra_headers", {}) is None:
            del values["extra_headers"]
        endpoints = values.get("endpoint_configs") or ()
        if isinstance(endpoints, Sequence):
            values["endpoint_configs"] = tuple(_as_table(each) for each in endpoints)
        super().__init__(*unnamed, **values)

    def with_key(self) -> Self:
        """The same with its key in it, for a process that does not have the variable in which the key is."""
        if self.endpoint_configs:
            keys = [each.with_key().api_key for each in self.endpoints()]
            tables = tuple({**each, "api_key": key} for each, key in zip(self.endpoint_configs, keys, strict=True))
            return self.model_copy(update={"endpoint_configs": tables})
        key = os.environ.get(self._variable) if self._variable else None
        return self if self.api_key is not None or key is None else self.model_copy(update={"api_key": key})

    @property
    def api_base_url(self) -> str:
        """The address, by the name that verifiers has for it."""
        return self.base_url

    def endpoints(self) -> "list[ClientConfig]":
        if not self.endpoint_configs:
            return [self]
        own = self.model_dump(exclude={"endpoint_configs"}, exclude_unset=True)
        return [ClientConfig(**{**own, **each}) for each in self.endpoint_configs]

    @property
    def _at_home(self) -> bool:
        return self.base_url.rstrip("/") == _OPENAI

    @property
    def _variable(self) -> str | None:
        return self.api_key_var or (_OPENAI_KEY if self._at_home or self.api_key is not None else None)

    @property
    def _dialects(self) -> tuple[DialectName, ...]:
        if self.dialects is not None or self.client_type is not None:
            return self.dialects or (_CLIENT_TYPES.get(self.client_type or "", "openai_chat"),)
        return _OPENAI_DIALECTS if self._at_home else ("openai_chat",)

    def provider(self) -> "HttpProvider":
        """The provider, not opened yet. Raises UsageError when its address is none or its key is not there."""
        from seatrial.gateway.upstreams.http import ProviderOptions  # noqa: PLC0415 - an HTTP client
        from seatrial.gateway.upstreams.provider import HttpProvider  # noqa: PLC0415

        variable = self._variable
        try:
            options = ProviderOptions(
                base_url=self.base_url,
                api_key_var=variable,
                dialects=frozenset(self._dialects),
                max_concurrent=self.max_connections,
                retries=self.max_retries,
                second_opinion=False,
                connect_timeout_sec=self.connect_timeout,
                first_byte_timeout_sec=self.timeout,
                idle_timeout_sec=self.idle_timeout,
                headers=self.extra_headers,
            )
        except ValidationError as error:
            raise usage_error("ClientConfig", error) from None
        if self.api_key is None or variable is None:
            return HttpProvider(options)
        return HttpProvider(options, environ={variable: self.api_key})


def _as_table(endpoint: Any) -> dict[str, Any]:
    """What an endpoint says itself, by our names."""
    if not isinstance(endpoint, Mapping) and not hasattr(endpoint, "model_dump"):
        raise UsageError(f"ClientConfig: endpoint_configs: {endpoint!r} is none, expected a list of tables or configs")
    table: dict[str, Any] = {**endpoint} if isinstance(endpoint, Mapping) else endpoint.model_dump(exclude_unset=True)
    if "api_base_url" in table:
        table.setdefault("base_url", table.pop("api_base_url"))
    if table.get("endpoint_configs"):
        raise UsageError("ClientConfig: endpoint_configs: an endpoint has no endpoints of its own")
    table.pop("endpoint_configs", None)
    return table


# Policy: a model that is exchanged between rollouts, while they go on.


class Policy:
    """A model that can be replaced; `swap` puts another client in its place.

    It goes wherever a client goes. A rollout keeps the client that it began with, and its output says as
    `policy_version` which one that was. Without a `model` of its own, rollouts ask for the one that they were given.
    """

    def __init__(self, client: object, model: str | None = None, version: int = 0) -> None:
        self.client = client
        self.model = model
        self.version = version

    def swap(self, client: object | None = None, model: str | None = None, version: int | None = None) -> int:
        """Have rollouts that begin from now on answered by another client, and return the version that they have.

        Without a client it stays the same one: its weights were changed where they are.
        """
        self.client = self.client if client is None else client
        self.model = self.model if model is None else model
        self.version = self.version + 1 if version is None else version
        return self.version

    def __repr__(self) -> str:
        return f"Policy({self.client!r}, model={self.model!r}, version={self.version})"


# Client: one open way to a model.

_OVERLONG = ("context length", "context_length", "context window", "prompt is too long", "too many tokens")
_OF_THE_CALL = frozenset({"timeout", "extra_headers"})
"""Sampling arguments by which SDKs are told how to ask; no server knows them."""
_BY_POSITION = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.VAR_POSITIONAL)
_MOST_ANSWER_BYTES = 128 * 2**20
_rollouts = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Client:
    """An open way to a model."""

    upstream: Upstream
    given: object
    """What it was made from."""
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
        return self.upstream.trouble(self.trial) if isinstance(self.upstream, ReportsFailures) else None

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

    async def _ask_so(self, request: dict[str, Any], dialects: frozenset[DialectName]) -> dict[str, Any]:
        """As `_ask`, in the way that the request itself says."""
        if _is_sdk_client(self.given):  # which knows what is meant
            return await self._ask(request, dialects)
        asked = {name: value for name, value in request.items() if name not in _OF_THE_CALL}
        timeout = request.get("timeout")
        try:
            async with asyncio.timeout(timeout if isinstance(timeout, int | float) else None):
                return await self._ask(asked, dialects, request.get("extra_headers") or {})
        except TimeoutError as error:
            raise ModelSilentError(f"the model has not answered within timeout={timeout}") from error

    async def _ask(
        self, request: dict[str, Any], dialects: frozenset[DialectName], headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        from seatrial.gateway.neutral.types import Untranslatable  # noqa: PLC0415 - all dialects
        from seatrial.gateway.translate import translate_response  # noqa: PLC0415

        try:
            outgoing = self._outgoing(request, dialects)._replace(headers=headers or {})
            async with self.upstream.ask(outgoing) as reply:
                body = await _whole(reply.chunks)
            if reply.status >= 300:
                raise _refusal(reply.status, body)
            return translate_response(_read(body), outgoing.dialect or "openai_chat", "openai_chat")
        except (Untranslatable, orjson.JSONEncodeError) as error:
            raise InvalidModelResponseError(f"this cannot be said to the model, or by it: {error}") from error

    def _outgoing(self, request: dict[str, Any], dialects: frozenset[DialectName]) -> ModelRequest:
        """The request in a dialect of the upstream. Raises Untranslatable, or JSONEncodeError."""
        from seatrial.gateway.dialects import call_body, call_path  # noqa: PLC0415 - all dialects
        from seatrial.gateway.translate import translate_request  # noqa: PLC0415

        spoken: DialectName = "openai_chat" if "openai_chat" in dialects or not dialects else min(dialects)
        payload = translate_request(_as_of_today(request, dialects), "openai_chat", spoken)
        path, body = call_path(spoken, payload), call_body(spoken, payload)
        return ModelRequest(path, dialect=spoken, payload=payload, body=body, trial=self.trial)


@asynccontextmanager
async def open_client(given: object) -> AsyncIterator[Client]:
    """A client for the length of a block; one that is open already is left so. Raises UsageError."""
    client = _as_client(given)
    if isinstance(client.upstream, AbstractAsyncContextManager) and client is not given:
        async with client.upstream:
            yield client
    else:
        yield client


def opened_client(given: object) -> Client:
    """A client that is open already, or that needs not be. Raises UsageError for another."""
    client = _as_client(given)
    if isinstance(client.upstream, AbstractAsyncContextManager) and client is not given:
        raise UsageError(
            f"the client, of type {type(given).__name__}, is not open: "
            "`async with seatrial.env.client.open_client(client) as opened` gives one that is"
        )
    return client


def _as_client(given: object) -> Client:
    """A client as it was given, or one that is perhaps to be opened yet. Raises UsageError."""
    if isinstance(given, Client):
        return given
    given = given.client if isinstance(given, Policy) else given
    return Client(make_upstream(given), given)


def make_upstream(given: Any) -> Upstream:
    """The upstream that a client amounts to, not opened yet. Raises UsageError that says what may be given."""
    if isinstance(given, ClientConfig):
        from seatrial.env.sdk_client import Endpoints  # noqa: PLC0415 - an HTTP client

        providers = [each.provider() for each in given.endpoints()]
        return providers[0] if len(providers) == 1 else Endpoints(providers)
    if isinstance(given, str):
        from seatrial.gateway.upstreams.open import make_upstream as make_named  # noqa: PLC0415 - an HTTP client

        return make_named(given)
    if hasattr(given, "ask") and hasattr(given, "dialects"):
        upstream: Upstream = given
        return upstream
    if _is_sdk_client(given):
        from seatrial.env.sdk_client import SdkUpstream  # noqa: PLC0415 - an HTTP client

        return SdkUpstream(given)
    if callable(given):
        from seatrial.gateway.upstreams.function import FunctionModel  # noqa: PLC0415 - seldom used

        return FunctionModel(_of_request(given), name=getattr(given, "__name__", "function"))
    raise UsageError(
        f"the client is of type {type(given).__name__}; expected a ClientConfig, a client with "
        "`chat.completions.create`, a function of the messages, or the name of an upstream such as 'scripted:FILE'"
    )


def _is_sdk_client(client: Any) -> bool:
    """Whether an object looks like a client of OpenAI's SDK."""
    return callable(getattr(getattr(getattr(client, "chat", None), "completions", None), "create", None))


def chat_request(
    messages: Messages, model: str, tools: list[Any] | None, sampling_args: Mapping[str, Any]
) -> dict[str, Any]:
    """A chat completion request. `extra_body` among the sampling arguments is merged in, as the SDKs do."""
    values = {name: value for name, value in sampling_args.items() if value is not None}
    extra = values.pop("extra_body", {})
    return {"model": model, "messages": messages, **({"tools": tools} if tools else {}), **values, **extra}


def _as_of_today(request: dict[str, Any], dialects: frozenset[DialectName]) -> dict[str, Any]:
    """A request with the length's newer name for OpenAI, whose models refuse the old one; others may know only that."""
    if "openai_responses" not in dialects or "max_tokens" not in request:
        return request
    others = {name: value for name, value in request.items() if name != "max_tokens"}
    return {"max_completion_tokens": request["max_tokens"], **others}


def _of_request(function: Callable[..., Any]) -> "ModelFunction":
    """A function of a request from one of the messages, or of the messages and the request. Raises UsageError.

    What it gets is told by how many arguments it has to have. Only a single one that is called `request` is no list.
    """
    count = _arguments_of(function)
    if not count:
        return function

    def given(request: dict[str, Any]) -> tuple[Any, ...]:
        return (request["messages"], request)[:count]

    async def ask_async(request: dict[str, Any]) -> Any:
        return await function(*given(request))

    call = getattr(function, "__call__", None)  # noqa: B004 - an object with an async __call__ is async too
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
    return ask_async if is_async else lambda request: function(*given(request))


def _arguments_of(function: Callable[..., Any]) -> int:
    """How many arguments a model function gets: the messages, and the request; 0 for the request alone."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # a function in C, which takes what it takes
        return 1
    places = [each for each in signature.parameters.values() if each.kind in _BY_POSITION]
    needed = [each for each in places if each.default is each.empty and each.kind is not each.VAR_POSITIONAL]
    if not places or len(needed) > 2:
        name = getattr(function, "__name__", type(function).__name__)
        raise UsageError(f"the model function {name} takes {signature}, expected (messages) or (messages, request)")
    if len(needed) > 1:
        return 2
    return 0 if places[0].name == "request" else 1


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
    answer = parse_object(body)
    if answer is None:
        raise InvalidModelResponseError(f"the answer is not a JSON object: {body[:200].decode(errors='replace')}")
    return answer


# Leases: the client that one rollout asks; of a Policy, the one of the moment.


@dataclass(frozen=True, slots=True)
class ClientLease:
    """The client that a rollout asks, the model's name, and the version of the policy, None without a policy."""

    client: Client
    model: str
    version: int | None = None


@dataclass(eq=False, slots=True)
class _Target:
    given: object
    client: Client
    stack: AsyncExitStack
    users: int = 0


@dataclass(eq=False, slots=True)
class OpenPolicy:
    """A policy in use. Each of its clients is opened once, and closed when it was swapped and no rollout has it."""

    policy: Policy
    _targets: dict[int, _Target] = field(default_factory=dict)

    @asynccontextmanager
    async def lease(self, model: str) -> AsyncIterator[ClientLease]:
        """The client of the moment for one rollout. Raises UsageError for one that is none."""
        policy = self.policy
        given, version, named = policy.client, policy.version, policy.model or model
        target = self._targets.get(id(given)) or await self._open(given)
        target.users += 1
        try:
            yield ClientLease(target.client, named, version)
        finally:
            target.users -= 1
            await self._close_unused()

    async def _open(self, given: object) -> _Target:
        stack = AsyncExitStack()
        client = await stack.enter_async_context(open_client(given))
        if (other := self._targets.get(id(given))) is not None:  # another rollout was quicker
            await stack.aclose()
            return other
        target = self._targets[id(given)] = _Target(given, client, stack)
        return target

    async def _close_unused(self) -> None:
        unused = [each for each in self._targets.values() if not each.users and each.given is not self.policy.client]
        for target in unused:
            del self._targets[id(target.given)]
            await target.stack.aclose()

    async def close(self) -> None:
        while self._targets:
            _, target = self._targets.popitem()
            await target.stack.aclose()


@asynccontextmanager
async def open_model(given: object) -> AsyncIterator[Client | OpenPolicy]:
    """A client or a policy for the length of a block. Raises UsageError for what is neither."""
    if not isinstance(given, Policy):
        async with open_client(given) as client:
            yield client
        return
    policy = OpenPolicy(given)
    try:
        yield policy
    finally:
        await policy.close()
