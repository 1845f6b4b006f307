"""One trial's access to its model: the key that opens it, the limits it runs into, and what it has used."""

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from seatrial.errors import ProviderError
from seatrial.gateway.api import ModelRequest, Upstream
from seatrial.gateway.ended import EndedCall, TokenCounts
from seatrial.gateway.pricing import ModelPrice, PriceTable, cost, find_price
from seatrial.model.record import ModelUsage

_RETRY_COUNT = "x-stainless-retry-count"  # what the official SDKs say when they repeat a request by themselves

_RECENT = 16


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """What a run decides about a trial's calls. A limit of None is none; run-level values override only when set."""

    model: str | None = None
    sampling: Mapping[str, Any] = field(default_factory=dict)
    max_turns: int | None = None
    max_tokens: int | None = None
    max_cost_usd: float | None = None

    def with_model(self, model: str | None) -> "SessionOptions":
        """The same for an agent that is to use a certain model."""
        return replace(self, model=model)


class Journal(Protocol):
    """Where calls are written down."""

    def write(self, call: EndedCall) -> None:
        """Append a call, given with all its messages. Raises OSError when it cannot be stored."""
        ...


class Session:
    """The calls of one trial. Several may be under way at once."""

    def __init__(self, upstream: Upstream, log: Journal, options: SessionOptions, prices: PriceTable) -> None:
        self.key = f"st-{secrets.token_urlsafe(24)}"
        self._key = self.key.encode()
        self.upstream = upstream
        self.options = options
        self.log = log
        self.broken = asyncio.Event()
        self.failure: ProviderError | None = None
        self._prices = prices
        self._found: dict[str, ModelPrice | None] = {}
        self._turns = 0
        self._calls = self._answered = 0
        self._input_tokens = self._cached_tokens = self._output_tokens = 0
        self._cost = 0.0
        self._priced = True
        self._recent: dict[int, int] = {}

    def opens(self, credential: str) -> bool:
        """Whether a credential is this session's key."""
        return secrets.compare_digest(credential.encode(errors="replace"), self._key)

    def refusal(self) -> str | None:
        """Why the call that has just begun may not be made, or None."""
        limits, used = self.options, self._input_tokens + self._output_tokens
        if limits.max_turns is not None and self._turns > limits.max_turns:
            return f"the limit of {limits.max_turns} model calls is reached"
        if limits.max_tokens is not None and used >= limits.max_tokens:
            return f"the limit of {limits.max_tokens:,} tokens is reached"
        if limits.max_cost_usd is not None and self._cost >= limits.max_cost_usd:
            return f"the limit of {limits.max_cost_usd:g} USD is reached"
        return None

    def begin(self, request: ModelRequest) -> tuple[int, int | None]:
        """Count a call; returns its index, and the index of the call that it merely repeats."""
        index, self._calls = self._calls, self._calls + 1
        body = hash(request.body)  # only the last few are remembered: more of a digest is not needed
        repeated = self._recent.pop(body, None)
        self._recent[body] = index
        if len(self._recent) > _RECENT:
            del self._recent[next(iter(self._recent))]
        if repeated is not None and request.headers.get(_RETRY_COUNT, "0") not in ("", "0"):
            return index, repeated
        self._turns += 1
        return index, None

    def cost_of(self, model: str | None, counts: TokenCounts) -> float | None:
        """What a call cost, None when that is not known."""
        if not model:
            return None
        if model not in self._found:  # an agent asks for one model, or a few
            self._found[model] = find_price(model, self._prices.models)
        found = self._found[model]
        if found is None:
            return None
        return cost(found, counts["input_tokens"], counts["cached_tokens"], counts["output_tokens"])

    def end(self, call: EndedCall) -> None:
        """Add a call to what was used, and write it down."""
        self._answered += "status" in call
        if "usage" in call:
            counts = call["usage"]
            self._input_tokens += counts["input_tokens"]
            self._cached_tokens += counts["cached_tokens"]
            self._output_tokens += counts["output_tokens"]
            if "cost_usd" in call:
                self._cost += call["cost_usd"]
            else:
                self._priced = False
        self.log.write(call)

    def fail(self, error: ProviderError) -> None:
        """The provider is of no use any more: the trial cannot be judged by what its agent does without a model."""
        self.failure = self.failure or error
        self.broken.set()

    @property
    def usage(self) -> ModelUsage:
        """What all calls together have used; the cost only if that of each is known."""
        return ModelUsage(
            calls=self._answered,
            input_tokens=self._input_tokens,
            cached_tokens=self._cached_tokens,
            output_tokens=self._output_tokens,
            cost_usd=self._cost if self._priced and self._answered else None,
        )
