"""Upstreams that `client` makes when they are needed: several servers in turn, and a client of an SDK.

They are apart from `client` because they import an HTTP client, which `import seatrial` must not.
"""

import inspect
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import cycle
from typing import Any, Self

from seatrial.env.hooks import in_daemon_thread, maybe_await
from seatrial.errors import ProviderError, SeatrialError
from seatrial.gateway.api import ModelReply, ModelRequest, Upstream
from seatrial.gateway.upstreams.failures import HOPELESS_STATUSES, RETRIED_STATUSES
from seatrial.gateway.upstreams.provider import HttpProvider
from seatrial.gateway.upstreams.replies import answer, error_reply, side_answer
from seatrial.model.trace import DialectName


class Endpoints:
    """Servers in turn. A rollout stays with the one it has begun with, whose cache knows its conversation."""

    def __init__(self, providers: Sequence[HttpProvider]) -> None:
        self._providers = providers
        self._next = cycle(providers)
        self._stack = AsyncExitStack()

    @property
    def dialects(self) -> frozenset[DialectName]:
        return frozenset.intersection(*(each.dialects for each in self._providers))

    def fresh(self) -> Upstream:
        return next(self._next)

    def ask(self, request: ModelRequest) -> AbstractAsyncContextManager[ModelReply]:
        return next(self._next).ask(request)

    async def __aenter__(self) -> Self:
        for provider in self._providers:
            await self._stack.enter_async_context(provider)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()


# SdkUpstream: a client of an SDK that has `chat.completions.create`.

_OURS = ("stream", "stream_options")


class SdkUpstream:
    """Asks by the SDK, never streaming: an agent that wants a stream gets the whole answer in pieces.

    Retries and time-outs are the client's own. What it raises for a bad request is the asker's mistake; anything else
    is a ProviderError.
    """

    def __init__(self, client: Any) -> None:
        self._create = client.chat.completions.create
        parameters = inspect.signature(self._create).parameters
        takes_all = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
        self._known = None if takes_all else frozenset(parameters)

    @property
    def dialects(self) -> frozenset[DialectName]:
        return frozenset({"openai_chat"})

    @asynccontextmanager
    async def ask(self, request: ModelRequest) -> AsyncIterator[ModelReply]:
        if request.dialect is None:
            yield side_answer(request, "sdk")
        else:
            yield await self._answer(request)

    def is_stuck(self, trial: int) -> bool:
        """Whether a call has not got as far as the provider, which SDKs keep to themselves."""
        return False

    async def answers(self, request: ModelRequest) -> bool:
        try:
            return (await self._answer(request)).status < 300
        except ProviderError:
            return False

    async def _answer(self, request: ModelRequest) -> ModelReply:
        try:
            completion = await self._ask_client(self._arguments(request.payload or {}))
        except SeatrialError:
            raise
        except Exception as error:
            status = getattr(error, "status_code", None)
            if isinstance(status, int) and _is_askers(status):
                return error_reply(request, status, str(error))
            message = f"the client failed: {type(error).__name__}: {error}"
            raise ProviderError(message, status if isinstance(status, int) else None) from error
        whole = completion if isinstance(completion, dict) else completion.model_dump()
        return answer(request, whole)

    async def _ask_client(self, arguments: dict[str, Any]) -> Any:
        if inspect.iscoroutinefunction(self._create):
            return await self._create(**arguments)
        # A client that is not async would keep everybody waiting; of some that are, this is the only way to tell.
        return await maybe_await(await in_daemon_thread(partial(self._create, **arguments)))

    def _arguments(self, payload: dict[str, Any]) -> dict[str, Any]:
        """The request as keywords; what the SDK has no name for goes the way it has for that."""
        wanted = {name: value for name, value in payload.items() if name not in _OURS}
        if self._known is None:
            return wanted
        extra = {name: value for name, value in wanted.items() if name not in self._known}
        named = {name: value for name, value in wanted.items() if name in self._known}
        return {**named, "extra_body": extra} if extra else named


def _is_askers(status: int) -> bool:
    return 400 <= status < 500 and status not in RETRIED_STATUSES | HOPELESS_STATUSES
