"""Endpoints: several servers of one model, of which each rollout has the next to itself."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from itertools import cycle
from typing import Self

from seatrial.gateway.api import ModelReply, ModelRequest, Upstream
from seatrial.gateway.upstreams.provider import HttpProvider
from seatrial.model.trace import Dialect


class Endpoints:
    """Servers in turn. A rollout stays with the one it has begun with, whose cache knows its conversation."""

    def __init__(self, providers: Sequence[HttpProvider]) -> None:
        self._providers = providers
        self._next = cycle(providers)
        self._stack = AsyncExitStack()

    @property
    def dialects(self) -> frozenset[Dialect]:
        """What all of them understand."""
        return frozenset.intersection(*(each.dialects for each in self._providers))

    def fresh(self) -> Upstream:
        """The server for the next rollout."""
        return next(self._next)

    def ask(self, request: ModelRequest) -> AbstractAsyncContextManager[ModelReply]:
        """The answer of the next server, for a request that is of no rollout."""
        return next(self._next).ask(request)

    async def __aenter__(self) -> Self:
        for provider in self._providers:
            await self._stack.enter_async_context(provider)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()
