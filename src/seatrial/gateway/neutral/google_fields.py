"""The fields of Google's requests, which may be spelled in two ways: `maxOutputTokens` and `max_output_tokens`."""

import re
from collections.abc import Iterable

from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.neutral.losses import Losses

_UNDERSCORE = re.compile(r"_([a-z0-9])")


def spelled(given: Payload) -> Payload:
    """A table of Google's with its names in the usual spelling."""
    return {_UNDERSCORE.sub(lambda found: found[1].upper(), name): value for name, value in given.items()}


def leave_out_unread(fields: Payload, read: Iterable[str], where: str, losses: Losses) -> None:
    """Leave out what is set and not read. Raises Untranslatable if that is not wanted."""
    known = frozenset(read)
    for name, value in fields.items():
        if name not in known and value is not None:
            losses.leave_out(f"{where}.{name}" if where else name)
