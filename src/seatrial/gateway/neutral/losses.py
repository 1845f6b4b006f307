"""Losses: what of a request has no place in another dialect, by the names under which the agent sent it."""

import re
from collections.abc import Mapping
from typing import Literal

from seatrial.gateway.neutral.types import Untranslatable

Translation = Literal["lenient", "strict"]

_NO_PLACE = "the other dialect has no place for it"
_INDEX = re.compile(r"\[\d+\]")


class Losses:
    """Gathers what is left out of one request; a strict translation refuses instead.

    `names` says how the agent's dialect calls the fields of a neutral Request.
    """

    def __init__(self, translation: Translation = "strict", names: Mapping[str, str] | None = None) -> None:
        self.strict = translation == "strict"
        self._names = names or {}
        self._left_out: dict[str, str] = {}

    @property
    def omitted(self) -> tuple[str, ...]:
        """What was left out, each kind of thing once."""
        return tuple(self._left_out.values())

    def leave_out(self, field: str, reason: str = _NO_PLACE) -> None:
        """Leave out a field, named as the agent sent it. Raises Untranslatable if that is not wanted."""
        if self.strict:
            raise Untranslatable(field, reason)
        self.hint(field)

    def no_place(self, name: str, reason: str = _NO_PLACE) -> None:
        """Leave out a field of the neutral Request. Raises Untranslatable if that is not wanted."""
        self.leave_out(self.name_of(name), reason)

    def hint(self, field: str) -> None:
        """Leave out what changes no answer, also in a strict translation."""
        self._left_out.setdefault(kind_of_loss(field), field)

    def name_of(self, name: str) -> str:
        """How the agent calls a field of the neutral Request."""
        return self._names.get(name, name)


def kind_of_loss(field: str) -> str:
    """The same for a field wherever in a list it stands: it is noted once."""
    return _INDEX.sub("[]", field)
