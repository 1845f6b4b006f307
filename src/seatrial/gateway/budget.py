"""Budget: what the calls of one trial may take together, also when many are under way at once.

Before a call goes out, the most that it can take is set aside; when it has ended, what it took is counted. A call for
which there is no room beside the others waits for one of them to end. Alone it may always go, as long as the budget is
not used up: so a trial goes over its budget by one call at most.
"""

import asyncio
from collections import deque
from contextlib import suppress
from typing import Any, NamedTuple

from seatrial.gateway.api import ModelRequest
from seatrial.gateway.base import TokenCounts
from seatrial.gateway.dialects import DIALECTS
from seatrial.gateway.prices import ModelPrice, cost
from seatrial.untrusted.json import mapping

_UNKNOWN = float("inf")
_CHOICES = tuple(name for each in DIALECTS.values() for name in each.choice_settings)
_ELSEWHERE = frozenset[str]().union(*(each.external_input for each in DIALECTS.values()))
_OWN_TOOLS = frozenset({"function", "custom"})  # any other may be run by the provider, as often as it likes
_PROVIDER_TOOLS = frozenset[str]().union(*(each.provider_tools for each in DIALECTS.values()))
# Of what a request says. Anything else (a picture, a document, a sound) has as many tokens as its provider sees in it.
_PLAIN_BLOCKS = frozenset[str]().union(*(each.plain_blocks for each in DIALECTS.values()))
_PLAIN_PARTS = frozenset[str]().union(*(each.plain_parts for each in DIALECTS.values()))
_MEDIA = frozenset({"audio", "file", "file_id", "file_url", "image", "image_url", "input_audio", "source", "video_url"})
_SAID = frozenset[str]().union(*(each.input_fields for each in DIALECTS.values()))
_INNER = ("content", "output", "parts")
_MOST = 2**31
_LONGEST_ANSWER = 2**18  # tokens; no model gives twice as much, and calls need not wait for each other far from a limit
_BYTES_PER_TOKEN = 4  # on average; no token has less than one


class Amount(NamedTuple):
    """Tokens, and what they cost in USD."""

    tokens: float = 0.0
    usd: float = 0.0


class Budget:
    """The tokens and the money of one trial; a limit of None is none."""

    def __init__(self, max_tokens: int | None, max_cost_usd: float | None) -> None:
        self.limited = max_tokens is not None or max_cost_usd is not None
        self._most = Amount(*(_UNKNOWN if limit is None else limit for limit in (max_tokens, max_cost_usd)))
        self._spent = Amount()
        self._held: list[Amount] = []
        self._waiting: deque[tuple[Amount, asyncio.Future[None]]] = deque()

    def refusal(self) -> str | None:
        if self._spent.tokens >= self._most.tokens:
            return f"the limit of {self._most.tokens:,.0f} tokens is reached"
        if self._spent.usd >= self._most.usd:
            return f"the limit of {self._most.usd:g} USD is reached"
        return None

    def hold_now(self, amount: Amount) -> bool:
        """Set the most that a call can take aside, if there is room for it; it must be let go afterwards."""
        if self._waiting or not self._has_room(amount):
            return False
        self._held.append(amount)
        return True

    async def hold(self, amount: Amount) -> None:
        """The same, as soon as there is room for it."""
        if self.hold_now(amount):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((amount, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.let_go(amount)
            else:
                with suppress(ValueError):  # it was passed over
                    self._waiting.remove((amount, turn))
                self._serve()
            raise

    def spend(self, amount: Amount) -> None:
        self._spent = Amount(self._spent.tokens + amount.tokens, self._spent.usd + amount.usd)

    def let_go(self, amount: Amount) -> None:
        self._held.remove(amount)
        if self._waiting:
            self._serve()

    def _serve(self) -> None:
        while self._waiting and self._has_room(self._waiting[0][0]):
            amount, turn = self._waiting.popleft()
            if not turn.done():
                self._held.append(amount)
                turn.set_result(None)

    def _has_room(self, amount: Amount) -> bool:
        if not self._held:
            return True
        (tokens, usd), (most_tokens, most_usd), (more_tokens, more_usd) = self._spent, self._most, amount
        if tokens >= most_tokens or usd >= most_usd:  # what is refused takes nothing
            return True
        # Nothing is added up for a limit that there is not: with many calls under way that takes long.
        if most_tokens != _UNKNOWN and tokens + more_tokens + sum([held.tokens for held in self._held]) > most_tokens:
            return False
        return most_usd == _UNKNOWN or usd + more_usd + sum([held.usd for held in self._held]) <= most_usd


def most_of(request: ModelRequest, price: ModelPrice | None) -> Amount:
    """The most that a request can take, without end if it does not say: no token is shorter than a byte."""
    tokens_in, tokens_out = _most_input(request), _most_output(request)
    rate_in, rate_out = (0.0, 0.0) if price is None else price.dearest
    # What is free stays so without end.
    usd = (tokens_in * rate_in if rate_in else 0.0) + (tokens_out * rate_out if rate_out else 0.0)
    return Amount(tokens_in + tokens_out, usd / 1_000_000)


def abandoned(request: ModelRequest, held: Amount, price: ModelPrice | None) -> Amount:
    """What counts of a call that was left before anybody said what it took: all that was set aside, as far as it has
    an end; else a token for each byte, and the longest answer.
    """
    if held.tokens < _UNKNOWN:
        return held
    return _amount(_size(request), _LONGEST_ANSWER, price)


def estimate_of(request: ModelRequest, said_bytes: int, price: ModelPrice | None) -> Amount:
    """About what a call took that was broken off before anybody said how much."""
    return _amount(-(-_size(request) // _BYTES_PER_TOKEN), -(-said_bytes // _BYTES_PER_TOKEN), price)


def _amount(tokens_in: int, tokens_out: int, price: ModelPrice | None) -> Amount:
    counts: TokenCounts = {
        "input_tokens": tokens_in,
        "cached_tokens": 0,
        "output_tokens": tokens_out,
        "reasoning_tokens": 0,
    }
    return Amount(tokens_in + tokens_out, 0.0 if price is None else cost(price, counts))


def _size(request: ModelRequest) -> int:
    return len(request.body) if request.spooled is None else request.spooled.size


def _most_input(request: ModelRequest) -> float:
    payload = request.payload or {}
    if request.spooled is not None:
        return _UNKNOWN  # of what is in a file only the short values are here
    for name, said in payload.items():
        if (name in _SAID and not _is_plain(said)) or (name in _ELSEWHERE and said is not None):
            return _UNKNOWN
    tools = payload.get("tools")
    if isinstance(tools, list) and any(isinstance(tool, dict) and _is_the_providers(tool) for tool in tools):
        return _UNKNOWN
    return _size(request)


def _is_plain(said: Any) -> bool:
    """Whether nothing but text, thoughts and calls is in something that a request says."""
    waiting = [said]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            # Most messages are a role and a text; with many of them, a closer look at each would take long.
            waiting += [
                one
                for one in each
                if not (type(one) is dict and len(one) == 2 and "role" in one and type(one.get("content")) is str)
            ]
        elif isinstance(each, dict):
            kind, parts = each.get("type", "message"), each.get("parts", [])
            if not isinstance(kind, str) or kind not in _PLAIN_BLOCKS or not _MEDIA.isdisjoint(each):
                return False
            if not isinstance(parts, list) or not all(map(_is_plain_part, parts)):
                return False
            waiting += [each[name] for name in _INNER if name in each]
    return True


def _is_plain_part(part: Any) -> bool:
    return (
        isinstance(part, dict) and part.keys() <= _PLAIN_PARTS and "parts" not in mapping(part.get("functionResponse"))
    )


def _is_the_providers(tool: dict[str, Any]) -> bool:
    kind = tool.get("type", "custom")
    return not isinstance(kind, str) or kind not in _OWN_TOOLS or not _PROVIDER_TOOLS.isdisjoint(tool)


def _most_output(request: ModelRequest) -> float:
    if request.dialect is None:  # vectors, which are no tokens
        return 0
    dialect = DIALECTS[request.dialect]
    payload = dialect.settings(request.payload or {})
    choices: Any = 1
    for name in _CHOICES:
        if found := payload.get(name):
            choices = found
            break
    if type(choices) is not int or not 0 < choices < _MOST:
        return _UNKNOWN
    longest = 0
    for name in dialect.output_limits:
        if (given := payload.get(name)) is not None:
            # Some servers take -1 for no limit at all.
            longest = max(longest, given if type(given) is int and 0 < given < _MOST else _LONGEST_ANSWER)
    return float((longest or _LONGEST_ANSWER) * choices)
