"""What a format of reviews is: how it is written, and how it is read, piece by piece, so that each can be named."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from seatrial.model.review import ReviewEntry


@dataclass(frozen=True, slots=True)
class Read:
    """One piece of a file, where it is, and the entry that it says; or what is wrong with it."""

    place: str
    said: ReviewEntry | str


@dataclass(frozen=True, slots=True)
class ReviewFormat:
    """A format by name. `read` also takes a moment in ISO 8601, for verdicts that come without one."""

    name: str
    write: Callable[[Iterable[ReviewEntry]], bytes]
    read: Callable[[bytes, str], Iterator[Read]]


def read_list(content: bytes, things: str) -> list[Any] | Read:
    """The list that a JSON file holds, or what is wrong with the file. `things` says what should be in it."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        return Read("the file", f"is no JSON: {error}")
    if not isinstance(found, list):
        return Read("the file", f"is {type(found).__name__}, expected a list of {things}")
    return found
