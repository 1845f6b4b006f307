"""One trial's access to its model: the key that opens it, the limits it runs into, and what it has used.

A session also decides, when the agent has ended, whether the model failed it (`check_end`). How a single call is
carried out is in `exchange`, what is noted of it in `notes`.
"""

import asyncio
import itertools
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

import orjson

from seatrial.errors import ListenerError, ModelSilentError, ProviderError
from seatrial.gateway.api import Answering, Bodies, CompletesAbandonedCalls, ModelRequest, ReportsFailures, Upstream
from seatrial.gateway.base import CallTally, EndedCall, Limits, ToldReason
from seatrial.gateway.budget import Amount, Budget, abandoned, estimate_of
from seatrial.gateway.neutral.types import Translation, kind_of_loss
from seatrial.gateway.prices import ModelPrice, PriceTable, find_price
from seatrial.gateway.upstreams.failures import plain_question
from seatrial.gateway.waits import PendingCall, StallMonitor
from seatrial.model.record import ModelUsage

_RETRY_COUNT = "x-stainless-retry-count"  # what the official SDKs say when they repeat a request by themselves

_RECENT = 16
_MOST_OMISSIONS = 100
_LONGEST_NAME = 200
_MOST_UNANSWERED = 500
_MOST_MODELS = 20
_NO_ACCESS = (401, 402, 403, 404, 405, 410, 451)
_OF_THE_ACCOUNT = re.compile(
    r"credit|billing|quota|api.?key|not a valid model|model\b.{0,80}(?:not found|does not exist|not supported)",
    re.IGNORECASE,
)
"""What providers say with a 400 of an account or a model, whatever was asked."""

_numbers = itertools.count(1)

Keys = Literal["own", "any"]


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """What a run decides about a trial's calls. A limit of None is none; run-level values override only when set."""

    model: str | None = None
    sampling: Mapping[str, Any] = field(default_factory=dict)
    max_turns: int | None = None
    max_tokens: int | None = None
    max_cost_usd: float | None = None
    translation: Translation = "lenient"
    caller: Literal["agent", "verifier"] = "agent"
    models: Mapping[str, str] = field(default_factory=dict)
    """Without a `model`: the ones to ask instead of those that are asked for."""

    def with_model(self, model: str | None) -> "SessionOptions":
        return replace(self, model=model)


class CallJournal(Protocol):
    """Where calls are written down."""

    def write(self, call: EndedCall) -> None:
        """Append a call, given with all its messages. Raises OSError when it cannot be stored."""
        ...


class Session:
    """The calls of one trial. Several may be under way at once."""

    def __init__(
        self,
        upstream: Upstream,
        log: CallJournal,
        options: SessionOptions,
        prices: PriceTable,
        limits: Limits = Limits(),  # noqa: B008 - it is frozen
        keys: Keys = "own",
    ) -> None:
        """`keys` says which keys open it: only its `own`, or `any` where nobody but its agent can reach it."""
        self.key = f"st-{secrets.token_urlsafe(24)}"
        self._key = self.key.encode()
        self._takes_any_key = keys == "any"
        self.number = next(_numbers)
        self.upstream = upstream
        self.options = options
        self.log = log
        self.limits = limits
        self.bodies = Bodies(limits)
        self.one_large = asyncio.Lock()  # where a large body has to stay in memory for the length of a call
        self.waits = StallMonitor(sees_through=isinstance(upstream, CompletesAbandonedCalls))
        self.broken = asyncio.Event()
        self.failure: ProviderError | None = None
        self._latest: tuple[ModelRequest, PendingCall] | None = None  # as it went out, until one is answered
        self.omissions = Omissions()
        self.budget = Budget(options.max_tokens, options.max_cost_usd)
        self._prices = prices
        self._found: dict[str, ModelPrice | None] = {}
        self._turns = 0
        self._calls = self._answered = self._good = self._locked_out = self._refused = 0
        self._last_refusal: str | None = None
        self.asked: dict[str, str] = {}
        """The first models that were asked, by the names that were asked for."""
        self.over_budget: str | None = None
        """The limit that a call ran into."""
        self.turned_away: str | None = None
        """What the provider said where it would not let a call have its model, whatever that asked."""
        self._input_tokens = self._cached_tokens = self._cache_write_tokens = self._output_tokens = 0
        self._cost = 0.0
        self._priced = True
        self._unanswered = 0
        self._left: set[int] = set()  # calls that go on without the agent
        self._failed: dict[int, int] = {}  # the last few calls that came to nothing, by what was asked

    def opens(self, credential: str) -> bool:
        return self._takes_any_key or secrets.compare_digest(credential.encode(errors="replace"), self._key)

    def model_for(self, asked: Any) -> str | None:
        """The model to ask instead of the one that is asked for; None to ask that."""
        options = self.options
        other = options.model or (options.models.get(asked) if isinstance(asked, str) else None)
        if isinstance(asked, str) and (asked in self.asked or len(self.asked) < _MOST_MODELS):
            self.asked[asked] = (other or asked)[:_LONGEST_NAME]
        return other

    @property
    def locked(self) -> int:
        """How many requests came without the key."""
        return self._locked_out

    @property
    def answered(self) -> int:
        """How many calls had a good answer."""
        return self._good

    def refusal(self) -> str | None:
        """Why the call that has just begun may not be made, or None."""
        most = self.options.max_turns
        if most is not None and self._turns > most:
            return f"the limit of {most} model calls is reached"
        return self.budget.refusal()

    def unpriced(self, name: str | None) -> str | None:
        """Why a call of a model may not be made whose cost nobody would know, or None."""
        most = self.options.max_cost_usd
        if most is None or self.price_of(name) is not None:
            return None
        asked = f"the cost of {name!r:.100} is not known" if name else "the request names no model"
        told = f"{asked}, and this run may cost {most:g} USD at most; the model's price must be in the file of --prices"
        self.over_budget = self.over_budget or told
        return told

    def passes_on(self, request: ModelRequest, wait: PendingCall) -> None:
        # What is large is not kept for that, nor does its file outlive it.
        self._latest = (request, wait) if request.spooled is None else None

    def begin(self, request: ModelRequest) -> tuple[int, int | None]:
        """Count a call; returns its index, and the index of the call that it merely repeats."""
        index, self._calls = self._calls, self._calls + 1
        # Only what failed is repeated: an agent must not get a second answer to a question by claiming that.
        if self._failed and request.headers.get(_RETRY_COUNT, "0") not in ("", "0"):
            repeated = self._failed.pop(_fingerprint(request), None)
            if repeated is not None:
                return index, repeated
        self._turns += 1
        return index, None

    def price_of(self, model: str | None) -> ModelPrice | None:
        if not model:
            return None
        if model not in self._found:  # an agent asks for one model, or a few
            self._found[model] = find_price(model, self._prices.models)
        return self._found[model]

    def end(self, call: EndedCall, request: ModelRequest, held: Amount | None = None) -> None:
        """Add a call to what was used, write it down, and let go of what was set aside for it."""
        self._count(call)
        if held is not None:
            self._settle(call, request, held)
        if "usage" in call:
            counts = call["usage"]
            self._input_tokens += counts["input_tokens"]
            self._cached_tokens += counts["cached_tokens"]
            self._cache_write_tokens += counts.get("cache_write_tokens", 0)
            self._output_tokens += counts["output_tokens"]
            if "cost_usd" in call:
                self._cost += call["cost_usd"]
            else:
                self._priced = False
        elif call.get("status", 500) < 300 and _is_nobodys_failure(call):
            self._priced = False
        if call["index"] in self._left:
            self._left.remove(call["index"])
        elif "error" in call and _came_to_nothing(call):
            self._may_repeat(call["index"], request)
        if "status" in call or self._may_note(call):
            self.log.write(call)

    def _settle(self, call: EndedCall, request: ModelRequest, held: Amount) -> None:
        counts = call.get("usage")
        if counts is not None and any(counts.values()):  # one that counts nothing counts for nothing
            self.budget.spend(Amount(counts["input_tokens"] + counts["output_tokens"], call.get("cost_usd", 0.0)))
        elif "error" in call and _is_nobodys_failure(call):
            # Nobody gets answers for less by leaving before their count has come.
            self.budget.spend(abandoned(request, held, self.price_of(call.get("upstream_model"))))
        elif call.get("status", 200) < 300 and _is_nobodys_failure(call):
            said = len(orjson.dumps(call["response"])) if "response" in call else 0
            self.budget.spend(estimate_of(request, said, self.price_of(call.get("upstream_model"))))
        self.budget.let_go(held)

    def left(self, index: int, request: ModelRequest) -> None:
        """An agent has hung up on a call that goes on all the same; to the agent, it came to nothing."""
        self._left.add(index)
        self._may_repeat(index, request)

    def _may_repeat(self, index: int, request: ModelRequest) -> None:
        self._failed[_fingerprint(request)] = index
        if len(self._failed) > _RECENT:
            del self._failed[next(iter(self._failed))]

    def refused(self, method: str, path: str, status: int, reason: str) -> None:
        self._note_refusal(reason)
        index, self._calls = self._calls, self._calls + 1
        error: ToldReason = {"kind": "agent", "status": status, "message": reason, "ended_by": "us"}
        call: EndedCall = {
            "index": index,
            "method": method,
            "path": path,
            "started_at": datetime.now(UTC),
            "duration_sec": 0.0,
            "stream": False,
            "messages": [],
            "error": error,
        }
        if self._may_note(call):
            self.log.write(call)

    def _count(self, call: EndedCall) -> None:
        if "status" in call:
            self._answered += 1
            self._good += call["status"] < 300 and _had_its_answer(call)
            self._latest = self._latest if "error" in call else None
            if "error" in call and _is_turned_away(call["status"], call["error"]["message"]):
                self.turned_away = f"{call['status']}: {call['error']['message']}"
        elif "error" in call and call["error"]["kind"] == "agent":
            self._note_refusal(call["error"]["message"])
        elif "error" in call and call["error"]["kind"] == "budget":
            self.over_budget = call["error"]["message"]

    def locked_out(self, reason: str) -> None:
        """Count a request without the key, which is not written down: on a shared network it may be anybody's."""
        self._locked_out += 1
        self._note_refusal(reason)

    def _note_refusal(self, reason: str) -> None:
        self._refused += 1
        self._last_refusal = reason

    def _may_note(self, call: EndedCall) -> bool:
        """Whether a call that no model has answered is written down. They cost an agent nothing, and fill the disk."""
        self._unanswered += 1
        if self._unanswered == _MOST_UNANSWERED and "error" in call:
            call["error"]["message"] += f" (the last of {_MOST_UNANSWERED} unanswered requests that are written down)"
        return self._unanswered <= _MOST_UNANSWERED

    def fail(self, error: ProviderError) -> None:
        """The provider is of no use any more: the trial cannot be judged by what its agent does without a model."""
        self.failure = self.failure or error
        self.broken.set()

    async def check_end(self, *, timed_out: bool) -> None:
        """Raise ProviderError if the model failed the agent, which has just ended or run out of its time.

        If nobody can tell yet, the model is asked a plain question, for which it has a few seconds.
        """
        for _ in range(2):  # connections that wait already are found, and accepted
            await asyncio.sleep(0)
        if self.failure is None and (late := self.waits.late_sec()) is not None:
            caller = self.options.caller
            raise ListenerError(f"the gateway accepted a connection of the {caller}'s only after {late:.1f} s")
        if self.failure is None and (not timed_out or self.trouble() is not None):
            await self._clear_up(timed_out=timed_out)
        failure = self.failure or self.silence(timed_out=timed_out)
        if failure is not None:
            raise failure

    async def _clear_up(self, *, timed_out: bool) -> None:
        seconds, upstream = self.waits.doubt_sec(timed_out=timed_out), self.upstream
        if seconds is None or self._latest is None or not isinstance(upstream, Answering):
            return
        latest, wait = self._latest
        if self.waits.is_patient and upstream.is_stuck(self.number):
            self.waits.fail(self.trouble())
            return
        trouble = self.trouble()
        if not timed_out:  # they would take places at the provider
            self.waits.break_off()
        if await _answered(upstream, _plain(latest), seconds) is False:
            self.waits.fail(trouble)
            return
        unheard = self.waits.is_patient and wait.heard_at is None
        if unheard and await _answered(upstream, latest, self.waits.silent_sec / 2):
            self.waits.fail("asked once more, it answered in less than half the time")

    def trouble(self) -> str | None:
        """What kept the upstream from answering the latest call of this trial, as far as it tells."""
        return self.upstream.trouble(self.number) if isinstance(self.upstream, ReportsFailures) else None

    def silence(self, *, timed_out: bool) -> ModelSilentError | None:
        """The model's failure, if it had been silent for too long when the agent came to its end."""
        silent = self.waits.owed_sec(timed_out=timed_out)
        if silent is None:
            return None
        caller = self.options.caller
        when = f"the {caller}'s time was over" if timed_out else f"the {caller} gave up"
        before = f"{self._good} of its {self._calls} calls had been answered"
        why = f"; {trouble}" if (trouble := self.waits.trouble or self.trouble()) else ""
        return ModelSilentError(f"the model had been silent for {silent:.1f} s when {when} ({before}){why}")

    @property
    def tally(self) -> CallTally:
        return CallTally(self._calls + self._locked_out, self._good, self._refused, self._last_refusal)

    @property
    def usage(self) -> ModelUsage:
        """What all calls together have used; the cost only if that of each is known."""
        priced = self._priced and self._answered > 0
        return ModelUsage(
            calls=self._answered,
            input_tokens=self._input_tokens,
            cached_tokens=self._cached_tokens,
            cache_write_tokens=self._cache_write_tokens,
            output_tokens=self._output_tokens,
            cost_usd=self._cost if priced else None,
            prices=(self._prices.label or None) if priced else None,
            omitted=self.omissions.noted,
        )


class Omissions:
    """What was left out of a trial's requests because another dialect had no place for it, each thing once.

    Things are known by the names under which the agent sent them. It may make up names: only so many count.
    """

    def __init__(self) -> None:
        self.refused: dict[str, frozenset[str]] = {}
        """The settings that each model was found to refuse, as fields of a neutral Request."""
        self._noted: dict[str, str] = {}

    @property
    def noted(self) -> tuple[str, ...]:
        """All of them, in the order in which they were first left out."""
        return tuple(self._noted.values())

    def first_seen(self, fields: Iterable[str]) -> list[str]:
        """Those that no earlier request had, which are noted with this."""
        found = []
        for each in fields:
            name = each[:_LONGEST_NAME]
            kind = kind_of_loss(name)
            if kind not in self._noted and len(self._noted) < _MOST_OMISSIONS:
                self._noted[kind] = name
                found.append(name)
        return found


def _plain(request: ModelRequest) -> ModelRequest:
    assert request.dialect is not None  # noqa: S101 - only calls are passed on
    return plain_question(request.dialect, request.model or "", request.trial)


async def _answered(upstream: Answering, request: ModelRequest, seconds: float) -> bool | None:
    try:
        async with asyncio.timeout(seconds):
            return await upstream.answers(request)
    except TimeoutError:
        return False


def _fingerprint(request: ModelRequest) -> int:
    # Only the last few are remembered: more of a digest is not needed.
    return hash(request.body) if request.spooled is None else request.spooled.fingerprint


def _had_its_answer(call: EndedCall) -> bool:
    """Whether a call that has a status was answered as far as the agent wanted to hear it."""
    return "error" not in call or (call["error"]["kind"] == "disconnected" and call["error"].get("ended_by") != "us")


def _is_nobodys_failure(call: EndedCall) -> bool:
    return "error" not in call or call["error"]["kind"] == "disconnected"


def _came_to_nothing(call: EndedCall) -> bool:
    """Whether an SDK may ask again because of this: the agent has seen nothing of an answer, and no limit spoke."""
    if "first_token_sec" in call or call.get("status", 500) < 300:
        return False
    return call["error"]["kind"] != "budget"


def _is_turned_away(status: int, message: str) -> bool:
    return status in _NO_ACCESS or (status == 400 and _OF_THE_ACCOUNT.search(message[:2000]) is not None)
