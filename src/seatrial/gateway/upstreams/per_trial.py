"""Which upstreams every trial has to itself, and which all trials share."""

from typing import Protocol, runtime_checkable

from seatrial.gateway.api import Upstream


@runtime_checkable
class PerTrial(Protocol):
    """An upstream that has a place in a file or a script, at which each trial starts anew."""

    def fresh(self) -> Upstream:
        """The same upstream from its beginning."""
        ...


def for_trial(upstream: Upstream) -> Upstream:
    """The upstream as one trial uses it."""
    return upstream.fresh() if isinstance(upstream, PerTrial) else upstream
