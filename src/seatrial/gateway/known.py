"""What of a call is known from earlier ones: the beginning of its conversation, and parts of its request.

Of earlier calls only fingerprints are remembered, and of these only so many, so that memory stays flat in a long trial.
What was forgotten is written once more.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from seatrial.gateway.marks import FoundMark, take_marks

_CONVERSATIONS = 4
_MESSAGES = 2**16
"""Of one conversation; no agent has as many, and millions of tiny ones would fill the memory."""
_PARTS = 2048
_LEAST_PART = 256
"""Bytes of a field that is worth a look; a reference to it has about 50."""
_LEAST_ENTRY = 64
"""Bytes of an entry of a list, on average: to refer to smaller ones would take more room than to write them again."""
_MOST_MARKS = 64


class PartKey(NamedTuple):
    """What makes two parts of requests the same."""

    field: str
    is_entry: bool
    fingerprint: int


class PartPlace(NamedTuple):
    """Which call keeps a part, and where in its list."""

    call: int
    start: int


@dataclass(slots=True)
class Reduced:
    """What there is to write of one call, and what to remember once it is written."""

    values: dict[str, Any]
    fingerprints: list[int] = field(default_factory=list)
    continues: int | None = None
    parts: dict[PartKey, PartPlace] = field(default_factory=dict)


class EarlierCalls:
    """What the calls of one trial have said already."""

    def __init__(self) -> None:
        self._conversations: dict[int, list[int]] = {}  # fingerprints by the index of the call
        self._parts: dict[PartKey, PartPlace] = {}

    def reduce(self, values: dict[str, Any]) -> Reduced:
        """The call without what is known. `values` are those of a line with all its messages and its whole request."""
        reduced = Reduced({**values})
        marks: list[dict[str, Any]] = []
        self._reduce_messages(reduced, marks)
        if isinstance(values.get("request"), dict):
            self._reduce_request(reduced, marks)
        if marks:
            reduced.values["marks"] = marks
        return reduced

    def remember(self, reduced: Reduced) -> None:
        """This call is written: later ones may build on it."""
        conversations, parts = self._conversations, self._parts
        if reduced.continues is not None:
            del conversations[reduced.continues]
        elif len(conversations) == _CONVERSATIONS:
            del conversations[next(iter(conversations))]
        conversations[reduced.values["index"]] = reduced.fingerprints
        parts.update(reduced.parts)
        while len(parts) > _PARTS:
            del parts[next(iter(parts))]

    def _reduce_messages(self, reduced: Reduced, marks: list[dict[str, Any]]) -> None:
        entries = _entries(reduced.values["messages"])
        if entries is None:  # nested too deeply to be written at all, or far too many
            return
        messages, reduced.fingerprints, found = entries
        marks += [{"message": place, **mark} for place, mark in found]
        index, count = self._known_messages(reduced.fingerprints)
        reduced.values["messages"] = messages[count:] if count else messages
        if count:
            reduced.values["known"] = {"call": index, "count": count}
            reduced.continues = index

    def _known_messages(self, fingerprints: list[int]) -> tuple[int, int]:
        """The earlier call that had most of a conversation already, and how much of it."""
        best, most = 0, 0
        for index, earlier in self._conversations.items():
            count = _common(earlier, fingerprints)
            if count > most:
                best, most = index, count
        return best, most

    def _reduce_request(self, reduced: Reduced, marks: list[dict[str, Any]]) -> None:
        request = dict(reduced.values["request"])
        known: list[dict[str, Any]] = []
        for name, value in reduced.values["request"].items():
            if isinstance(value, list):
                self._reduce_list(reduced, request, name, known, marks)
            elif (fingerprint := _whole(value)) is not None:
                key = PartKey(name, False, fingerprint)
                if (place := self._parts.get(key)) is not None:
                    del request[name]
                    known.append({"field": name, "call": place.call})
                else:
                    reduced.parts[key] = PartPlace(reduced.values["index"], 0)
        reduced.values["request"] = request
        if known:
            reduced.values["known_parts"] = known

    def _reduce_list(
        self,
        reduced: Reduced,
        request: dict[str, Any],
        name: str,
        known: list[dict[str, Any]],
        marks: list[dict[str, Any]],
    ) -> None:
        entries = _entries(request[name], least=_LEAST_PART)
        if entries is None:
            return
        values, fingerprints, found = entries
        marks += [{"field": name, **mark, "at": (place, *mark["at"])} for place, mark in found]
        new: list[Any] = []
        for at, (value, fingerprint) in enumerate(zip(values, fingerprints, strict=True)):
            key = PartKey(name, True, fingerprint)
            place = self._parts.get(key)
            if place is None:
                reduced.parts[key] = PartPlace(reduced.values["index"], len(new))
                new.append(value)
            elif not _goes_on(known, name, place, at):
                known.append({"field": name, "call": place.call, "at": at, "start": place.start, "count": 1})
        request[name] = new
        if not new:
            del request[name]


def _goes_on(known: list[dict[str, Any]], name: str, place: PartPlace, at: int) -> bool:
    """Whether an entry stands right behind the last known one, here as there. Then it is counted with it."""
    if not known:
        return False
    last = known[-1]
    if last["field"] != name or last["call"] != place.call or "count" not in last:
        return False
    if last["start"] + last["count"] != place.start or last["at"] + last["count"] != at:
        return False
    last["count"] += 1
    return True


class Entries(NamedTuple):
    """A list without its marks, what tells its entries apart, and the marks with the number of their entry."""

    values: list[Any]
    fingerprints: list[int]
    marks: list[tuple[int, FoundMark]]


def _entries(values: list[Any], least: int = 0) -> Entries | None:
    """None if the list cannot be written, or is not worth it: too long, less than `least` bytes, or tiny entries."""
    if len(values) > (_PARTS if least else _MESSAGES):
        return None
    plain, marks = _unmarked(values)
    try:
        # A hash is of 64 bits, by a key of this process: enough to tell a few calls apart, and no agent can aim.
        if not least:
            return Entries(plain, [hash(orjson.dumps(each)) for each in plain], marks)
        fingerprints, size = [], 0
        for each in plain:
            written = orjson.dumps(each)  # let go of at once: orjson takes a kilobyte or more for it, however short
            size += len(written)
            fingerprints.append(hash(written))
    except TypeError:
        return None
    return Entries(plain, fingerprints, marks) if size >= max(least, _LEAST_ENTRY * len(plain)) else None


def _unmarked(values: list[Any]) -> tuple[list[Any], list[tuple[int, FoundMark]]]:
    plain, found = values, []
    # Most messages are a role and a text; with many of them, a closer look at each would take longer than all else.
    looked_at = [
        place
        for place, value in enumerate(values)
        if type(value) is dict and not (len(value) == 2 and type(value.get("content")) is str)
    ]
    for place in looked_at:
        without, marks = take_marks(values[place])
        if marks:
            plain = list(values) if plain is values else plain
            plain[place] = without
            found += [(place, mark) for mark in marks]
    # No provider takes so many: then they are content like any other.
    return (plain, found) if len(found) <= _MOST_MARKS else (values, [])


def _whole(value: Any) -> int | None:
    """The fingerprint of a value that is no list, if it is large enough to be kept once."""
    if isinstance(value, str):
        return hash(value) if len(value) >= _LEAST_PART else None
    if not isinstance(value, dict):
        return None
    try:
        written = orjson.dumps(value)
    except TypeError:
        return None
    return hash(written) if len(written) >= _LEAST_PART else None


def _common(earlier: list[int], later: list[int]) -> int:
    if earlier == later[: len(earlier)]:  # a conversation that goes on
        return len(earlier)
    count = 0
    for old, new in zip(earlier, later, strict=False):
        if old != new:
            break
        count += 1
    return count
