"""What went wrong with an attempt to get an answer of a provider: in words, and whether another one may help."""

import datetime as dt
from dataclasses import dataclass

import aiohttp

from seatrial.gateway.api import ModelReply
from seatrial.gateway.upstreams.backoff import (
    HOPELESS_STATUSES,
    RETRIED_STATUSES,
    error_message,
    is_hopeless,
    retry_after,
    told_delay,
)
from seatrial.gateway.upstreams.body import Body, Hider
from seatrial.gateway.upstreams.http_client import in_words, is_unreadable
from seatrial.gateway.upstreams.outgoing import Outgoing
from seatrial.gateway.upstreams.provider_options import ProviderOptions
from seatrial.gateway.upstreams.second_opinion import is_doubtful, may_pass

_SHOWN_BYTES = 80
_WRONG_KEY = b"API_KEY_INVALID"


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
        if status == 400 and _WRONG_KEY in said:  # what Google says to a wrong key
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
        wait = retry_after(response.headers, dt.datetime.now(dt.UTC)) or told_delay(said)
        hopeless = not may_pass(status, said) or is_hopeless(status, response.headers, said)
        return UpstreamFailure(message, status, wait, hopeless)

    @property
    def where(self) -> str:
        """The provider, in a sentence."""
        return f"the provider at {self._options.base_url}"
