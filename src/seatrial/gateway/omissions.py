"""Omissions: what was left out of a trial's requests because another dialect had no place for it, each thing once."""

from collections.abc import Iterable

from seatrial.gateway.neutral.losses import kind_of_loss

_MOST = 100
_LONGEST = 200


class Omissions:
    """Gathers the names under which an agent sent what was left out. An agent may make up names: only so many count."""

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
        for field in fields:
            name = field[:_LONGEST]
            kind = kind_of_loss(name)
            if kind not in self._noted and len(self._noted) < _MOST:
                self._noted[kind] = name
                found.append(name)
        return found
