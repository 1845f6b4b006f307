"""HttpProvider: passes requests on to a provider of models over HTTP, as they are.

A failed attempt is repeated as long as nothing of an answer has been passed on; after that, what is broken stays
broken, for the agent has seen the first half.
"""

import asyncio
import itertools
import os
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from time import monotonic
from typing import Any, Self

import aiohttp

from seatrial.errors import ModelSilentError, ProviderError
from seatrial.gateway.api import ModelReply, ModelRequest
from seatrial.gateway.upstreams.answers import could_be_answer, error_reply, final_error, is_answer, reply_in_pieces
from seatrial.gateway.upstreams.backoff import (
    RETRIED_STATUSES,
    wait_before,
)
from seatrial.gateway.upstreams.body import Body, Hider, secrets_of
from seatrial.gateway.upstreams.failures import FailureReader, UpstreamFailure
from seatrial.gateway.upstreams.http_client import open_session, read_key
from seatrial.gateway.upstreams.outgoing import Envelope, Outgoing
from seatrial.gateway.upstreams.passing_on import returned_headers
from seatrial.gateway.upstreams.provider_options import ProviderOptions
from seatrial.gateway.upstreams.second_opinion import ASKED_WITHIN_SEC, Pulse, is_doubtful, plain_question
from seatrial.gateway.upstreams.slots import Slots
from seatrial.gateway.upstreams.wait_limit import Waiting, WaitLimit
from seatrial.model.trace import Dialect

_MOST_ERROR_BYTES = 1024 * 1024
_MOST_TROUBLES = 4096  # of trials under way, and of those that ended in trouble


class HttpProvider:
    """A provider for the length of an `async with` block, shared by all trials that use it.

    Raises UsageError if its key is not in the environment. `sleep` and `chance` are there to be replaced in tests.
    """

    takes_files = True
    seen_through = True

    def __init__(
        self,
        options: ProviderOptions,
        *,
        environ: Mapping[str, str] = os.environ,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.options = options
        key = read_key(options, environ)
        self._envelope = Envelope(options, key)
        self.secrets = secrets_of(key, options.headers)
        self._hider = Hider(self.secrets)
        self._failures = FailureReader(options, self._hider)
        self._sleep = sleep
        self._chance = chance
        self._slots = Slots(options.max_concurrent)
        self._patience = WaitLimit(options.first_byte_timeout_sec)
        self._pulse = Pulse()
        self._troubles: dict[int, str] = {}
        self._unsent: dict[Waiting, int] = {}  # trials by the tasks of their calls that have no connection yet
        self._session: aiohttp.ClientSession | None = None

    @property
    def dialects(self) -> frozenset[Dialect]:
        """Those the options say."""
        return self.options.dialects

    async def __aenter__(self) -> Self:
        if self._session is not None:
            raise RuntimeError("this provider is open already")
        self._session = open_session(self.options, lambda: self._unsent.pop(asyncio.current_task(), None))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._patience.close()
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def ask(self, request: ModelRequest) -> AbstractAsyncContextManager[ModelReply]:
        """The provider's answer, its refusal of a bad request included.

        Raises ProviderError when its failures outlast the retries; so does the iterator of an answer that breaks off.
        """
        return _Asked(request, self._answer, self._end)

    async def _answer(self, asked: "_Asked") -> ModelReply:
        try:
            outgoing = self._envelope.prepare(asked.request)
        except ValueError as error:
            return error_reply(asked.request, 400, str(error))
        began = monotonic()
        for attempt in itertools.count():
            outcome = await self._turn(outgoing, asked)
            if isinstance(outcome, ModelReply):
                return outcome
            if outcome.told is not None and (outcome.hopeless or attempt >= self.options.retries):
                return await self._second_opinion(outgoing, asked, outcome, began)
            await self._wait(attempt, outcome)
        raise AssertionError("attempts are counted without end")

    async def _turn(self, outgoing: Outgoing, asked: "_Asked") -> ModelReply | UpstreamFailure:
        """One attempt, in a slot that it keeps only with an answer: whoever waits must not keep others from theirs."""
        trial = asked.request.trial
        task = asyncio.current_task()
        self._unsent[task] = trial
        try:
            await self._slots.acquire(trial)
        except BaseException:
            self._unsent.pop(task, None)
            raise
        try:
            outcome = await self._attempt(outgoing, asked)
        except BaseException:
            asked.body = None
            self._slots.release(trial)
            raise
        finally:
            self._unsent.pop(task, None)
        if isinstance(outcome, ModelReply):
            if self._troubles:
                self._troubles.pop(trial, None)
        else:
            asked.body = None
            self._slots.release(trial)
            if len(self._troubles) > _MOST_TROUBLES:
                self._troubles.clear()
            self._troubles[trial] = outcome.message
        return outcome

    def trouble(self, trial: int) -> str | None:
        """What went wrong with the latest attempt for a trial, None if nothing did."""
        if self.is_stuck(trial):
            return f"a call has not reached {self._failures.where}: no connection, or no place free among its calls"
        return self._troubles.get(trial)

    def is_stuck(self, trial: int) -> bool:
        """Whether a call of a trial waits for a place among those at a time, or for a connection."""
        return trial in self._unsent.values()

    async def _second_opinion(
        self, outgoing: Outgoing, asked: "_Asked", failure: UpstreamFailure, began: float
    ) -> ModelReply:
        """The agent's own failure, if its model answers others. Raises ProviderError if not."""
        # What a key may do does not change from one call to the next.
        lasting = failure.hopeless and failure.status not in RETRIED_STATUSES
        since = began - ASKED_WITHIN_SEC if lasting else began
        if not self._pulse.beats_since(asked.request, since) and not await self._answers_plainly(asked.request):
            raise final_error(failure.message, failure.status) if failure.hopeless else self._given_up(failure)
        if lasting and failure.told is not None:
            return failure.told
        # It may have been a bad spell that is over now.
        outcome = await self._turn(outgoing, asked)
        if isinstance(outcome, ModelReply):
            return outcome
        if outcome.told is not None:
            return outcome.told
        raise self._given_up(outcome)

    async def _answers_plainly(self, request: ModelRequest) -> bool:
        name = (request.payload or {}).get("model")
        if request.dialect is None or not isinstance(name, str):
            return False
        try:
            async with asyncio.timeout(ASKED_WITHIN_SEC):
                return await self.answers(plain_question(request.dialect, name, request.trial))
        except TimeoutError:
            return False

    async def answers(self, request: ModelRequest) -> bool:
        """Whether a model gives a good answer to a request, or begins a stream, asked once."""
        asked = _Asked(request, self._answer, self._end)
        try:
            outcome = await self._turn(self._envelope.prepare(request), asked)
            if isinstance(outcome, UpstreamFailure) or outcome.status >= 300:
                return False
            if not request.stream:
                async for _ in outcome.chunks:
                    pass
        except ProviderError:
            return False
        finally:
            self._end(asked)
        return True

    def _given_up(self, failure: UpstreamFailure) -> ProviderError:
        kind = ModelSilentError if failure.silent else ProviderError
        asked = self.options.retries + 1
        return kind(f"{failure.message} (asked {asked} times)" if asked > 1 else failure.message, failure.status)

    def _end(self, asked: "_Asked") -> None:
        if asked.body is not None:
            asked.body.close()
            self._slots.release(asked.request.trial)

    async def _attempt(self, outgoing: Outgoing, asked: "_Asked") -> ModelReply | UpstreamFailure:
        if self._session is None:
            raise RuntimeError("a provider answers only inside its `async with` block")
        try:
            with self._patience:
                response = await self._session.request(
                    outgoing.method,
                    outgoing.url,
                    headers=outgoing.headers,
                    skip_auto_headers=outgoing.left_out(),
                    data=outgoing.data(),
                    allow_redirects=False,
                )
                # Until the first bytes are here, so that a cut before them can still be made good.
                body = asked.body = await Body.begun(response, self.options.idle_timeout_sec, self._hider)
        except (aiohttp.ClientError, OSError) as error:
            return self._failures.unreachable(error)
        if response.status < 300:
            whole = body.whole()
            if outgoing.dialect is not None and not _may_be_answer(outgoing.dialect, asked.request, body.first, whole):
                return self._failures.garbage(response, body)
            self._pulse.beat(asked.request)
            return ModelReply(response.status, self._returned(response), body, whole)
        return await self._judged(outgoing, response, asked)

    def _returned(self, response: aiohttp.ClientResponse) -> dict[str, str]:
        hide = self._hider.text
        return {name: hide(value) for name, value in returned_headers(response.headers).items()}

    async def _judged(
        self, outgoing: Outgoing, response: aiohttp.ClientResponse, asked: "_Asked"
    ) -> ModelReply | UpstreamFailure:
        """An answer that is not a good one: the agent's to see, or a failure."""
        body = asked.body
        assert body is not None  # noqa: S101 - it has begun
        try:
            said = await body.read(_MOST_ERROR_BYTES)
        except BaseException:
            body.close()
            raise
        told = reply_in_pieces(response.status, self._returned(response), [said])
        if self._failures.is_the_agents(outgoing, response.status, said):
            return told
        body.close()
        failure = self._failures.of_status(response, said)
        doubtful = outgoing.dialect is not None and is_doubtful(response.status, said)
        return replace(failure, told=told) if doubtful else failure

    async def _wait(self, attempt: int, failure: UpstreamFailure) -> None:
        """Wait before the next attempt. Raises ProviderError if there is to be none."""
        if failure.hopeless:
            raise final_error(failure.message, failure.status)
        if attempt >= self.options.retries:
            raise self._given_up(failure)
        await self._sleep(wait_before(attempt, failure.wait_sec, self.options.longest_wait_sec, self._chance()))


def _may_be_answer(dialect: Dialect, request: ModelRequest, first: bytes, whole: bytes | None) -> bool:
    if not could_be_answer(first, stream=request.stream):
        return False
    return whole is None or request.stream or is_answer(whole, dialect)


class _Asked:
    """An answer for the length of a block; as a generator it would cost four times as much.

    Holds a slot as long as it has a body, and that as long as it is open.
    """

    __slots__ = ("_begin", "_end", "body", "request")

    def __init__(
        self,
        request: ModelRequest,
        begin: Callable[["_Asked"], Coroutine[Any, Any, ModelReply]],
        end: Callable[["_Asked"], None],
    ) -> None:
        self.request = request
        self.body: Body | None = None
        self._begin = begin
        self._end = end

    def __aenter__(self) -> Coroutine[Any, Any, ModelReply]:
        return self._begin(self)

    async def __aexit__(self, *_: object) -> None:
        self._end(self)
