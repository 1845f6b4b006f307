"""The fields of Google's requests, which may be spelled in two ways: `maxOutputTokens` and `max_output_tokens`."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.neutral.losses import Losses

_UNDERSCORE = re.compile(r"_([a-z0-9])")


def usual(name: str) -> str:
    """A name in the usual spelling."""
    return _UNDERSCORE.sub(lambda found: found[1].upper(), name)


def spelled(given: Payload) -> Payload:
    """A table of Google's with its names in the usual spelling."""
    return {usual(name): value for name, value in given.items()}


def leave_out_unread(
    given: Payload,
    read: Iterable[str],
    where: str,
    losses: Losses,
    defaults: Mapping[str, tuple[Any, ...]] | None = None,
) -> None:
    """Leave out what is set, neither read nor at its default, as the agent spelled it. Raises as `losses` does."""
    known, usually = frozenset(read), defaults or {}
    for name, value in given.items():
        if usual(name) not in known and value is not None and value not in usually.get(usual(name), ()):
            losses.leave_out(f"{where}.{name}" if where else name)
