"""What a parser hands on for the shape check."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Parsed:
    """A file that parsed.

    `value` is what a JSON Schema is checked against; `keys` are the names a required key is looked up in (None when
    the format has none); `oddities` are faults of shape that leave the file readable, such as rows of unequal length.
    """

    value: Any = None
    keys: frozenset[str] | None = None
    oddities: tuple[str, ...] = ()


def keys_of(value: Any) -> frozenset[str] | None:
    """The keys of an object, or those every object of a list has; None for anything else."""
    if isinstance(value, dict):
        return frozenset(map(str, value))
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return _shared(frozenset(map(str, item)) for item in value)
    return None


def _shared(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset.intersection(*sets)
