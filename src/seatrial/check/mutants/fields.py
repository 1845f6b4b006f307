"""The fields of a value: every plain value in it by its path, and the same field of all entries of a list as one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Step = str | int
Steps = tuple[Step, ...]
_MAX_FIELDS = 400
_MAX_PLACES = 20_000


@dataclass(frozen=True, slots=True)
class Field:
    """A field in all its places, such as `pump[].flow_m3h`, and the values it has there."""

    path: tuple[str, ...]
    places: tuple[Steps, ...]
    values: tuple[Any, ...]

    @property
    def key(self) -> str:
        """The last name on its path: what an instruction calls it."""
        return next((step for step in reversed(self.path) if step != "[]"), "")

    @property
    def name(self) -> str:
        """As an author would write it."""
        return _joined(self.path)

    def samples(self) -> tuple[int, ...]:
        """The first place, the last one and the one in the middle."""
        last = len(self.places) - 1
        return tuple(dict.fromkeys((0, last, last // 2)))


def place_name(path: Steps) -> str:
    """One place as an author would write it; rows count from 1, as everybody but a programmer counts them."""
    steps = tuple(f"[{step + 1}]" if isinstance(step, int) else step for step in path)
    if len(steps) > 1 and isinstance(path[0], int):
        return f"{_joined(steps[1:])} (row {path[0] + 1})"
    return _joined(steps)


def _joined(steps: Sequence[str]) -> str:
    text = "".join(step if step.startswith("[") else f".{step}" for step in steps).removeprefix(".")
    return text.removeprefix("[].") or "value"


def fields_of(value: Any) -> list[Field]:
    """Every field of a value in the order in which they come; of very many, the first ones."""
    found: dict[tuple[str, ...], list[tuple[Steps, Any]]] = {}
    for number, (path, leaf) in enumerate(_leaves(value, ())):
        general = tuple("[]" if isinstance(step, int) else step for step in path)
        if number >= _MAX_PLACES or (general not in found and len(found) >= _MAX_FIELDS):
            break
        found.setdefault(general, []).append((path, leaf))
    return [
        Field(general, tuple(path for path, _ in places), tuple(leaf for _, leaf in places))
        for general, places in found.items()
    ]


def _leaves(value: Any, path: Steps) -> Iterator[tuple[Steps, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, (*path, str(key)))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _leaves(inner, (*path, index))
    else:
        yield path, value


def lists_of(value: Any, path: Steps = ()) -> Iterator[tuple[Steps, list[Any]]]:
    """Every list of two or more entries with its path, outer ones first."""
    if isinstance(value, list):
        if len(value) > 1:
            yield path, value
        return  # lists in lists are too many, and what they hold is tried as fields
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from lists_of(inner, (*path, str(key)))


def with_value(value: Any, path: Steps, new: Any) -> Any:
    """The same value with another one at a path."""
    if not path:
        return new
    step, rest = path[0], path[1:]
    if isinstance(value, dict):
        return {key: with_value(inner, rest, new) if str(key) == step else inner for key, inner in value.items()}
    return [with_value(inner, rest, new) if index == step else inner for index, inner in enumerate(value)]


def with_values(value: Any, changes: Sequence[tuple[Steps, Any]]) -> Any:
    """The same value with other ones at many paths."""
    if any(not path for path, _ in changes):
        return changes[-1][1]
    by_step: dict[Step, list[tuple[Steps, Any]]] = {}
    for path, new in changes:
        by_step.setdefault(path[0], []).append((path[1:], new))
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    done = [(key, with_values(inner, by_step[key]) if key in by_step else inner) for key, inner in pairs]
    return dict(done) if isinstance(value, dict) else [inner for _, inner in done]


def without(value: Any, paths: Sequence[Steps]) -> Any:
    """The same value without what is at some paths."""
    here = {path[0] for path in paths if len(path) == 1}
    deeper: dict[Step, list[Steps]] = {}
    for path in paths:
        if len(path) > 1:
            deeper.setdefault(path[0], []).append(path[1:])
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    kept = [(key, without(inner, deeper[key]) if key in deeper else inner) for key, inner in pairs if key not in here]
    return dict(kept) if isinstance(value, dict) else [inner for _, inner in kept]
