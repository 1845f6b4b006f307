"""What went wrong with an attempt to get an answer of a provider: in words, and whether another one may help.

Decisions only: no waiting and no network. Some statuses say nothing about whose fault they are: a 500 may be a provider
that is down, or one that stumbles over a single odd request, which an agent could send on purpose. So such a provider
is asked something plain beside it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

import aiohttp
import orjson

from seatrial.backoff import read_seconds, retry_after
from seatrial.gateway.api import ModelReply, ModelRequest
from seatrial.gateway.dialects import DIALECTS, call_body, call_path
from seatrial.gateway.upstreams.http import Body, Hider, Outgoing, ProviderOptions, in_words, is_unreadable
from seatrial.model.trace import DialectName
from seatrial.untrusted.json import mapping, parse, parse_object

RETRIED_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})
"""Answers that another attempt may turn into a good one. Any other 4xx is the agent's own mistake."""

HOPELESS_STATUSES = frozenset({401, 402})
"""About our key or our account, which the agent has no part in and another attempt does not mend."""

_HOPELESS_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached"})


def is_hopeless(status: int, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether a failed answer says that asking again cannot help."""
    if status in HOPELESS_STATUSES or headers.get("x-should-retry") == "false":
        return True
    error = _error_table(body)
    return error.get("code") in _HOPELESS_CODES or error.get("type") in _HOPELESS_CODES


def told_delay(body: bytes) -> float | None:
    """The seconds that Google asks to wait, which it says among the details of an error (`"retryDelay": "34.5s"`)."""
    details = _error_table(body).get("details")
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str) and delay.endswith("s"):
            return read_seconds(delay.removesuffix("s"))
    return None


def error_message(body: bytes, longest: int = 500) -> str:
    """What the body of a failed answer says, in one bounded line."""
    message = _error_table(body).get("message")
    text = message if isinstance(message, str) else body.decode(errors="replace")
    text = " ".join(text.split())
    return text if len(text) <= longest else text[:longest] + "…"


def _error_table(body: bytes) -> dict[str, Any]:
    error = mapping(parse(body)).get("error")
    return error if isinstance(error, dict) else {"message": error}


_JSON_START = (b"{",)
_EVENT_STARTS = (b"data:", b"event:", b":", b"id:", b"retry:")
_BEGINNINGS = {name: re.compile(rb'"%s"\s*:\s*\[\s*\{' % each.answer_field.encode()) for name, each in DIALECTS.items()}
_BLANK = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"


def could_be_answer(first: bytes, *, stream: bool) -> bool:
    """Whether an answer of a model could begin with these bytes, whatever its content type says."""
    start = first.removeprefix(_BOM).lstrip(_BLANK)
    if not start:
        return bool(first)  # blank lines are sent to keep a connection alive
    known = _EVENT_STARTS if stream else _JSON_START
    return start.startswith(known) or any(each.startswith(start) for each in known)


def is_answer(body: bytes, dialect: DialectName) -> bool:
    """Whether there is an answer of a model in a whole body; one that is no JSON is judged by who reads it."""
    if (
        _BEGINNINGS[dialect].search(body) and b'"error"' not in body
    ):  # nearly every answer, and quicker than to parse it
        return True
    try:
        return DIALECTS[dialect].holds_answer(orjson.loads(body))
    except orjson.JSONDecodeError:
        return True


# A second opinion: whether a provider fails at everything, or only at what this agent has sent.

DOUBTFUL_STATUSES = frozenset({403, 408, 409, 425, 500})
"""What a provider may answer to one odd request only. 403 is also what it says to a key without rights."""

_ABOUT_SIZE = 413  # what is too large stays so, whoever says it

ASKED_WITHIN_SEC = 60.0
"""How long the plain question may take, and how long its answer counts."""

_QUESTION = "Reply with the word ok."
_MOST_MODELS = 64  # an agent may ask for any name


def is_doubtful(status: int, said: bytes) -> bool:
    """Whether nobody can tell by an answer to a call whose fault it is."""
    return status in DOUBTFUL_STATUSES or _is_a_page(status, said)


def may_pass(status: int, said: bytes) -> bool:
    """Whether another attempt may help: always with the statuses for that, and with what no model has said."""
    return status in RETRIED_STATUSES or (status != _ABOUT_SIZE and _is_a_page(status, said))


def plain_question(dialect: DialectName, model: str, trial: int = 0) -> ModelRequest:
    """The plainest request there is to a model, which no provider that works refuses."""
    payload = {"model": model, **DIALECTS[dialect].probe(_QUESTION, None)}
    path, body = call_path(dialect, payload), call_body(dialect, payload)
    return ModelRequest(path, dialect=dialect, payload=payload, body=body, trial=trial)


class ProviderHealth:
    """When each model of a provider has last answered well."""

    def __init__(self) -> None:
        self._answered_at: dict[Any, float] = {}

    def note_answer(self, request: ModelRequest) -> None:
        name = request.model
        if name is not None:
            if len(self._answered_at) >= _MOST_MODELS and name not in self._answered_at:
                self._answered_at.clear()
            self._answered_at[name] = monotonic()

    def answered_since(self, request: ModelRequest, since: float) -> bool:
        """Whether the model of this request has answered some request well since then."""
        return self._answered_at.get(request.model, float("-inf")) > since


def _is_a_page(status: int, said: bytes) -> bool:
    """Whether a refusal comes from something before the model, such as an ingress: models refuse in JSON."""
    if not 400 <= status < 500 or status in RETRIED_STATUSES or status in HOPELESS_STATUSES:
        return False
    return parse_object(said) is None


# Failures in words.

_SHOWN_BYTES = 80
_WRONG_KEYS = tuple(each.wrong_key_marker for each in DIALECTS.values() if each.wrong_key_marker)


@dataclass(frozen=True, slots=True)
class UpstreamFailure:
    """An attempt that came to nothing."""

    message: str
    status: int | None = None
    wait_sec: float | None = None
    hopeless: bool = False
    silent: bool = False
    told: ModelReply | None = None
    """What the agent is told if it turns out that only its request fails."""


class FailureReader:
    """Tells what failures of one provider mean. Nothing that it says has our key in it."""

    def __init__(self, options: ProviderOptions, hider: Hider) -> None:
        self._options = options
        self.hide = hider.text

    def garbage(self, response: aiohttp.ClientResponse, body: Body) -> UpstreamFailure:
        """A good status with something that no model says."""
        start = body.first[:_SHOWN_BYTES]
        body.close()
        said = f"with {self.hide(start.decode(errors='replace'))!a}" if start else "with nothing"
        kind = self.hide(response.headers.get("content-type", "no content type"))
        return UpstreamFailure(
            f"{self.where} answered {response.status} ({kind}) {said}, which is no answer of a model"
        )

    def unreachable(self, error: Exception) -> UpstreamFailure:
        """No answer at all, or none that follows the rules of HTTP."""
        if isinstance(error, aiohttp.ClientError):
            found = "sent an answer that cannot be read" if is_unreadable(error) else "cannot be reached"
            return UpstreamFailure(f"{self.where} {found}: {self.hide(in_words(error))}")
        if isinstance(error, TimeoutError):
            limit = self._options.first_byte_timeout_sec
            return UpstreamFailure(f"{self.where} did not begin to answer within {limit:g} s", silent=True)
        return UpstreamFailure(f"{self.where} cannot be reached: {in_words(error)}")

    def is_the_agents(self, outgoing: Outgoing, status: int, said: bytes) -> bool:
        """Whether this is an answer to what the agent asked, and no failure of the provider or of ours."""
        if status in HOPELESS_STATUSES:  # our key is at fault, unless the agent went where it has no business
            return outgoing.dialect is None
        if status == 400 and any(words in said for words in _WRONG_KEYS):
            return outgoing.dialect is None
        if outgoing.dialect is not None and is_doubtful(status, said):
            return False
        return 400 <= status < 500 and status not in RETRIED_STATUSES

    def of_status(self, response: aiohttp.ClientResponse, said: bytes) -> UpstreamFailure:
        """A status that is none of an answer."""
        status = response.status
        if status < 400:
            to = self.hide(response.headers.get("location", "somewhere else"))
            return UpstreamFailure(
                f"{self.where} answers {status} and sends us to {to}: correct its address", status, hopeless=True
            )
        message = f"{self.where} answered {status}: {error_message(said) or response.reason or 'no reason given'}"
        wait = retry_after(response.headers) or told_delay(said)
        hopeless = not may_pass(status, said) or is_hopeless(status, response.headers, said)
        return UpstreamFailure(message, status, wait, hopeless)

    @property
    def where(self) -> str:
        return f"the provider at {self._options.base_url}"
