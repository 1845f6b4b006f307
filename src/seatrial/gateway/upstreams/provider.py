"""HttpProvider: passes requests on to a provider of models over HTTP, as they are.

A failed attempt is repeated as long as nothing of an answer has been passed on; after that, what is broken stays
broken, for the agent has seen the first half. What a failure means is decided in `failures`, the client itself is in
`http`. `try_upstream` asks a provider one thing before a job begins.
"""

import asyncio
import itertools
import os
import random
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from time import monotonic
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

import aiohttp

from seatrial.backoff import wait_before
from seatrial.errors import ModelSilentError, ProviderError
from seatrial.gateway.api import ModelReply, ModelRequest, Upstream
from seatrial.gateway.dialects import DIALECTS, call_path
from seatrial.gateway.upstreams.failures import (
    ASKED_WITHIN_SEC,
    RETRIED_STATUSES,
    FailureReader,
    ProviderHealth,
    UpstreamFailure,
    could_be_answer,
    error_message,
    is_answer,
    is_doubtful,
    plain_question,
)
from seatrial.gateway.upstreams.http import (
    Body,
    Envelope,
    Hider,
    Outgoing,
    ProviderOptions,
    open_session,
    read_key,
    returned_headers,
    secrets_of,
)
from seatrial.gateway.upstreams.replies import error_reply, final_error, reply_in_pieces
from seatrial.model.trace import DialectName

_MOST_ERROR_BYTES = 1024 * 1024
_MOST_TROUBLES = 4096  # of trials under way, and of those that ended in trouble
_GREED = 7  # a trial may have so many slots for each that it leaves free

Waiting = asyncio.Task[Any] | None


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
        self.dialects = options.dialects
        key = read_key(options, environ)
        self._envelope = Envelope(options, key)
        self.secrets = secrets_of(key, options.headers)
        self._hider = Hider(self.secrets)
        self._failures = FailureReader(options, self._hider)
        self._sleep = sleep
        self._chance = chance
        self.slots = Slots(options.max_concurrent)
        self._patience = WaitLimit(options.first_byte_timeout_sec)
        self._health = ProviderHealth()
        self._troubles: dict[int, str] = {}
        self._unsent: dict[Waiting, int] = {}  # trials by the tasks of their calls that have no connection yet
        self._session: aiohttp.ClientSession | None = None

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
        return _Asked(request, self)

    async def answer(self, asked: "_Asked") -> ModelReply:
        try:
            outgoing = self._envelope.prepare(asked.request)
        except ValueError as error:
            return error_reply(asked.request, 400, str(error))
        began = monotonic()
        for attempt in itertools.count():
            outcome = await self._turn(outgoing, asked)
            if isinstance(outcome, ModelReply):
                return outcome
            is_last = outcome.hopeless or attempt >= self.options.retries
            if is_last and outcome.told is not None and self.options.second_opinion:
                return await self._second_opinion(outgoing, asked, outcome, began)
            await self._wait(attempt, outcome)
        raise AssertionError("attempts are counted without end")

    async def _turn(self, outgoing: Outgoing, asked: "_Asked") -> ModelReply | UpstreamFailure:
        """One attempt, in a slot that it keeps only with an answer: whoever waits must not keep others from theirs."""
        trial = asked.request.trial
        task = asyncio.current_task()
        self._unsent[task] = trial
        try:
            if not self.slots.take(trial):
                await self.slots.acquire(trial)
            try:
                outcome = await self._attempt(outgoing, asked)
            except BaseException:
                asked.body = None
                self.slots.release(trial)
                raise
        finally:
            self._unsent.pop(task, None)
        if isinstance(outcome, ModelReply):
            if self._troubles:
                self._troubles.pop(trial, None)
        else:
            asked.body = None
            self.slots.release(trial)
            if len(self._troubles) > _MOST_TROUBLES:
                self._troubles.clear()
            self._troubles[trial] = outcome.message
        return outcome

    def trouble(self, trial: int) -> str | None:
        if self.is_stuck(trial):
            return f"a call has not reached {self._failures.where}: no connection, or no place free among its calls"
        return self._troubles.get(trial)

    def is_stuck(self, trial: int) -> bool:
        return trial in self._unsent.values()

    async def _second_opinion(
        self, outgoing: Outgoing, asked: "_Asked", failure: UpstreamFailure, began: float
    ) -> ModelReply:
        """The agent's own failure, if its model answers others. Raises ProviderError if not."""
        # What a key may do does not change from one call to the next.
        lasting = failure.hopeless and failure.status not in RETRIED_STATUSES
        since = began - ASKED_WITHIN_SEC if lasting else began
        if not self._health.answered_since(asked.request, since) and not await self._answers_plainly(asked.request):
            raise final_error(failure.message, failure.status) if failure.hopeless else self._given_up(failure)
        if lasting and failure.told is not None:
            return failure.told
        # It may have been a bad spell that is over now.
        outcome = await self._turn(outgoing, asked)
        if isinstance(outcome, ModelReply):
            return outcome
        if outcome.told is not None:
            return outcome.told
        raise self._given_up(outcome, self.options.retries + 2)

    async def _answers_plainly(self, request: ModelRequest) -> bool:
        if request.dialect is None or request.model is None:
            return False
        try:
            async with asyncio.timeout(ASKED_WITHIN_SEC):
                return await self.answers(plain_question(request.dialect, request.model, request.trial))
        except TimeoutError:
            return False

    async def answers(self, request: ModelRequest) -> bool:
        """Whether a model gives a good answer to a request, or begins a stream, asked once."""
        asked = _Asked(request, self)
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
            asked.close()
        return True

    def _given_up(self, failure: UpstreamFailure, asked: int | None = None) -> ProviderError:
        kind = ModelSilentError if failure.silent else ProviderError
        asked = asked or self.options.retries + 1
        return kind(f"{failure.message} (asked {asked} times)" if asked > 1 else failure.message, failure.status)

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
            self._health.note_answer(asked.request)
            return ModelReply(response.status, self._returned(response), body, whole)
        return await self._read_failure(outgoing, response, asked)

    def _returned(self, response: aiohttp.ClientResponse) -> dict[str, str]:
        headers = returned_headers(response.headers)
        if self._hider.hides_in(*headers.values()):
            return {name: self._hider.text(value) for name, value in headers.items()}
        return headers

    async def _read_failure(
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


def _may_be_answer(dialect: DialectName, request: ModelRequest, first: bytes, whole: bytes | None) -> bool:
    if not could_be_answer(first, stream=request.stream):
        return False
    return whole is None or request.stream or is_answer(whole, dialect)


class _Asked:
    """An answer for the length of a block; as a generator it would cost four times as much.

    Holds a slot as long as it has a body, and that as long as it is open.
    """

    __slots__ = ("_provider", "body", "request")

    def __init__(self, request: ModelRequest, provider: HttpProvider) -> None:
        self.request = request
        self.body: Body | None = None
        self._provider = provider

    def __aenter__(self) -> Coroutine[Any, Any, ModelReply]:
        return self._provider.answer(self)

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self.body is not None:
            self.body.close()
            self._provider.slots.release(self.request.trial)


# Slots: how many calls a provider gets at a time, shared out among trials so that none takes all of them. A trial with
# many calls under way leaves some slots free, also while it is alone: what it holds by then could not be taken back
# when another comes. Of those who wait, the one with the fewest goes first.


class Slots:
    """So many slots. Trials are told apart by a number; whoever has none (0) takes what is free."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._taken: dict[int, int] = {}
        self._waiting: dict[int, deque[asyncio.Future[None]]] = {}

    def take(self, trial: int) -> bool:
        """Take a slot, if this trial may have one at once."""
        taken = self._taken.get(trial, 0)
        if trial in self._waiting or not self._may_have(trial, taken):
            return False
        self._free -= 1
        self._taken[trial] = taken + 1
        return True

    async def acquire(self, trial: int) -> None:
        """Take one as soon as it may."""
        if self.take(trial):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(trial, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release(trial)
            else:
                self._forget(trial, turn)
            raise

    def release(self, trial: int) -> None:
        self._free += 1
        left = self._taken[trial] - 1
        if left:
            self._taken[trial] = left
        else:
            del self._taken[trial]
        if self._waiting:
            self._serve()

    def _serve(self) -> None:
        while self._waiting:
            trial = min(self._waiting, key=lambda each: self._taken.get(each, 0))
            taken = self._taken.get(trial, 0)
            if not self._may_have(trial, taken):
                return
            turn = self._waiting[trial][0]
            self._forget(trial, turn)
            if not turn.done():
                self._free -= 1
                self._taken[trial] = taken + 1
                turn.set_result(None)

    def _may_have(self, trial: int, taken: int) -> bool:
        return taken < _GREED * self._free if trial else self._free > 0

    def _forget(self, trial: int, turn: "asyncio.Future[None]") -> None:
        queue = self._waiting.pop(trial, None)
        if queue is None:
            return
        if turn in queue:
            queue.remove(turn)
        if queue:  # at the end: trials with as many calls take turns
            self._waiting[trial] = queue


class WaitLimit:
    """A block that raises TimeoutError when it takes too long. Many tasks may be inside, each of them once.

    What `asyncio.timeout` does, at a third of its price: a task is cancelled, and takes that back when it has noticed.
    A timer for each would cost more than the rest of a short wait.
    """

    def __init__(self, limit_sec: float) -> None:
        self._limit_sec = limit_sec
        self._waits: dict[Waiting, tuple[float, int]] = {}  # until when, and how often cancelled before; in this order
        self._broken_off: set[Waiting] = set()
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - only coroutines wait
        self._waits[task] = (monotonic() + self._limit_sec, task.cancelling())
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._limit_sec, self._check)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task = asyncio.current_task()
        _, cancelled_before = self._waits.pop(task)
        if task in self._broken_off:
            self._broken_off.remove(task)
            if task is not None and task.uncancel() <= cancelled_before and kind is asyncio.CancelledError:
                raise TimeoutError from error

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        now = monotonic()
        self._timer = None
        for task, (deadline, _) in self._waits.items():
            if deadline > now:
                self._timer = asyncio.get_running_loop().call_later(deadline - now, self._check)
                break
            if task is not None and task not in self._broken_off:
                self._broken_off.add(task)
                task.cancel()


# One tiny call before a job: does the provider take our key and know the model, or why not?

_TRIED_WITHIN_SEC = 60.0
_MOST_TRIED_BYTES = 64 * 1024
_REFUSING = frozenset({401, 402, 403, 404})
_UNKNOWN_MODEL = ("not found", "does not exist", "not exist", "unknown model", "invalid model", "no such model")


class Tried(NamedTuple):
    """What came of a tiny call. What is `unclear`, such as a provider that is busy, stands in nobody's way."""

    verdict: Literal["answers", "refuses", "unclear"]
    said: str = ""


async def try_upstream(upstream: Upstream, model: str | None) -> Tried | None:
    """Ask for one token of a model, or for the list of models where none is named; None where that is not done.

    Scripts, replays and functions are not asked: they have no key, and every answer of theirs is meant for a trial.
    """
    if not isinstance(upstream, HttpProvider):
        return None
    try:
        async with asyncio.timeout(_TRIED_WITHIN_SEC), upstream.ask(_tiny_call(upstream, model)) as reply:
            return await _tried(reply, model)
    except TimeoutError:
        return Tried("unclear", f"it did not answer within {_TRIED_WITHIN_SEC:g} s")
    except ProviderError as error:
        unreachable = error.status is None
        return Tried("refuses" if unreachable or not error.retryable else "unclear", str(error))


def _tiny_call(upstream: Upstream, model: str | None) -> ModelRequest:
    if model is None:
        return ModelRequest("/v1/models", "GET")
    dialect = next(each for each in DIALECTS.values() if each.name in upstream.dialects)
    payload = {"model": model, **dialect.probe("Hi", 1)}
    return ModelRequest(call_path(dialect.name, payload), dialect=dialect.name, payload=payload)


async def _tried(reply: ModelReply, model: str | None) -> Tried:
    if reply.status < 400:
        return Tried("answers")
    body = b""
    async for piece in reply.chunks:
        body = (body + piece)[:_MOST_TRIED_BYTES]
    said = f"it answered {reply.status}: {error_message(body) or 'no reason given'}"
    if model is None:  # not every provider has a list of models
        return Tried("refuses" if reply.status in _REFUSING - {404} else "unclear", said)
    # A model may not like the form of so small a question; that is no reason to keep an agent from it.
    unknown = reply.status == 400 and any(words in said.lower() for words in _UNKNOWN_MODEL)
    return Tried("refuses" if unknown or reply.status in _REFUSING else "unclear", said)
