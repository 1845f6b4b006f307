"""calls.jsonl: every call of a trial, one line each, written when the call has ended.

A request repeats the conversation so far, its tools and its system prompt. CallLog writes only what no earlier call
holds, with references to the rest; RecordedCalls puts the requests together again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TypedDict

import orjson

from seatrial.gateway.base import EndedCall, as_line, line_values
from seatrial.model.trace import CacheMark, KnownPart, ModelCall
from seatrial.untrusted.json import items

# Cache marks: where a request says that what comes before is worth caching. Agents move them with every call, and they
# change nothing that is said, so they are taken out before messages are compared, and put back for those who want to
# see what was sent. A mark is a key of an entry (a message, a tool, a part of a system prompt), of a block in it, or of
# a block in that: only lists are followed, so that the search takes no longer where texts are long.

MARK_NAMES = ("cache_control", "prompt_cache_breakpoint")
"""Anthropic's key, which others have taken over, and OpenAI's."""

_LISTS = 2
_LONGEST_KEY = 64
_LONGEST_VALUE = 200

MarkPath = tuple[str | int, ...]


class FoundMark(TypedDict):
    """A mark with the way to it; the fields are those of CacheMark."""

    at: MarkPath
    name: str
    value: dict[str, Any]


def take_marks(entry: Any) -> tuple[Any, list[FoundMark]]:
    """A message or another entry of a list without its marks, and the marks. The entry itself is not changed."""
    if not _is_marked(entry, _LISTS):
        return entry, []
    found: list[FoundMark] = []
    return _taken(entry, (), found), found


def without_marks(value: Any) -> Any:
    """The value of a field without the marks in its entries, if it is a list."""
    return [take_marks(entry)[0] for entry in value] if isinstance(value, list) else value


def put_mark(value: Any, mark: CacheMark) -> Any:
    """The value with a mark in its place, or as it is if it has no such place. The value itself is not changed."""
    return _put(value, mark.at, mark)


def _is_marked(entry: Any, lists: int) -> bool:
    if not isinstance(entry, dict):
        return False
    for key, value in entry.items():
        if key in MARK_NAMES:
            if _is_mark(value):
                return True
        elif lists and isinstance(value, list):
            for each in value:
                if _is_marked(each, lists - 1):
                    return True
    return False


def _taken(entry: Any, at: MarkPath, found: list[FoundMark]) -> Any:
    if not isinstance(entry, dict):
        return entry
    kept: dict[str, Any] = {}
    for key, value in entry.items():
        if key in MARK_NAMES and _is_mark(value):
            found.append({"at": at, "name": key, "value": value})
        # A key of any length would be written again with every mark below it.
        elif isinstance(value, list) and len(at) < 2 * _LISTS and len(key) <= _LONGEST_KEY:
            kept[key] = [_taken(each, (*at, key, place), found) for place, each in enumerate(value)]
        else:
            kept[key] = value
    return kept


def _is_mark(value: Any) -> bool:
    """Whether it is a small flat table: anything else is content, whatever its key says."""
    if not isinstance(value, dict) or any(isinstance(each, dict | list) for each in value.values()):
        return False
    return len(orjson.dumps(value)) <= _LONGEST_VALUE


def _put(value: Any, at: list[str | int], mark: CacheMark) -> Any:
    if not at:
        return {**value, mark.name: mark.value} if isinstance(value, dict) else value
    place = at[0]
    if isinstance(value, dict) and isinstance(place, str) and place in value:
        return {**value, place: _put(value[place], at[1:], mark)}
    if isinstance(value, list) and isinstance(place, int) and 0 <= place < len(value):
        return [*value[:place], _put(value[place], at[1:], mark), *value[place + 1 :]]
    return value


# De-duplication. Of earlier calls only so many fingerprints are remembered, so that memory stays flat in a long trial;
# what was forgotten is written once more.

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


class CallDeduplicator:
    """What the calls of one trial have said already, which later ones need not repeat."""

    def __init__(self) -> None:
        self._conversations: dict[int, list[int]] = {}  # fingerprints by the index of the call
        self._parts: dict[PartKey, PartPlace] = {}

    def reduce(self, values: dict[str, Any]) -> Reduced:
        """The call without what is known: taken out of `values`, a line with all its messages and its whole request."""
        reduced = Reduced(values)
        marks: list[dict[str, Any]] = []
        self._reduce_messages(reduced, marks)
        if isinstance(values.get("request"), dict):
            self._reduce_request(reduced, marks)
        if marks:
            values["marks"] = marks
        return reduced

    def remember(self, reduced: Reduced) -> None:
        conversations, parts = self._conversations, self._parts
        if reduced.continues is not None:
            del conversations[reduced.continues]
        elif len(conversations) == _CONVERSATIONS:
            del conversations[next(iter(conversations))]
        conversations[reduced.values["index"]] = reduced.fingerprints
        if reduced.parts:
            parts.update(reduced.parts)
            while len(parts) > _PARTS:
                del parts[next(iter(parts))]

    def _reduce_messages(self, reduced: Reduced, marks: list[dict[str, Any]]) -> None:
        entries = _entries(reduced.values["messages"])
        if entries is None:  # nested too deeply to be written at all, or far too many
            return
        messages, reduced.fingerprints, found = entries
        if found:
            marks += [{"message": place, **mark} for place, mark in found]
        # The earlier call that had most of the conversation already, and how much of it.
        best = count = 0
        for index, earlier in self._conversations.items():
            if (common := _common(earlier, reduced.fingerprints)) > count:
                best, count = index, common
        reduced.values["messages"] = messages[count:] if count else messages
        if count:
            reduced.values["known"] = {"call": best, "count": count}
            reduced.continues = best

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
    plain: list[Any] = values
    found: list[tuple[int, FoundMark]] = []
    for place, value in enumerate(values):
        # Most messages are a role and a text; with many of them, a closer look at each would take longer than all else.
        if type(value) is not dict or (len(value) == 2 and type(value.get("content")) is str):
            continue
        without, marks = take_marks(value)
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


# Reading. Files from before tool definitions were kept once, and marks apart, are read in the same way.


class RecordedCalls:
    """Calls by their index. Methods raise ValueError if a call builds on one that is not there."""

    def __init__(self, calls: Iterable[ModelCall]) -> None:
        self._calls = {call.index: call for call in calls}

    def messages(self, index: int) -> list[Any]:
        messages = self.plain_messages(index)
        for mark in self._call(index).marks:
            if mark.message is not None and mark.message < len(messages):
                messages[mark.message] = put_mark(messages[mark.message], mark)
        return messages

    def plain_messages(self, index: int) -> list[Any]:
        """All messages of a call without cache marks: a message that is sent again is the same again."""
        call = self._call(index)
        parts, count = [call.messages], call.known.count if call.known else 0
        seen = {index}
        while call.known is not None and count:
            call = self._call(call.known.call, needed_by=call.index)
            if call.index in seen:
                raise ValueError(f"call {call.index} builds on itself")
            seen.add(call.index)
            known = call.known.count if call.known else 0
            parts.append(call.messages[: max(count - known, 0)])
            count = min(count, known)
        return [message for part in reversed(parts) for message in part]

    def request(self, index: int) -> dict[str, Any] | None:
        """The request of a call without its messages, as it was sent."""
        request = self.plain_request(index)
        if request is None:
            return None
        for mark in self._call(index).marks:
            if mark.field is not None and mark.field in request:
                request[mark.field] = put_mark(request[mark.field], mark)
        return request

    def plain_request(self, index: int) -> dict[str, Any] | None:
        call = self._call(index)
        if call.request is None:
            return None
        request = dict(call.request)
        for part in call.known_parts:
            if part.count is None:
                request[part.field] = self._kept(call, part)
            else:
                entries = list(items(request.get(part.field)))
                start = part.start
                entries[part.at : part.at] = items(self._kept(call, part))[start : start + part.count]
                request[part.field] = entries
        return request

    def _kept(self, call: ModelCall, part: KnownPart) -> Any:
        """What the call that a part is from keeps of its field."""
        kept = self._call(part.call, needed_by=call.index).request or {}
        if part.field not in kept:
            raise ValueError(f"call {call.index} takes {part.field!r} from call {part.call}, which does not have it")
        return kept[part.field]

    def _call(self, index: int, needed_by: int | None = None) -> ModelCall:
        if index in self._calls:
            return self._calls[index]
        if needed_by is None:
            raise KeyError(index)
        raise ValueError(f"call {needed_by} builds on call {index}, which is not there")


# The file.

CALLS_FILE = "calls.jsonl"
MOST_BYTES = 4 * 2**30
"""How much is kept of one trial; of calls after that, only how they went."""

_NOT_KEPT = {"not_kept": f"the calls of this trial have more than {MOST_BYTES:,} bytes"}
_LEAST_SECRET = 8
_SCRUBBED = "[secret]"
_STRANGERS = (
    *("method", "path", "model", "upstream_model", "messages", "request", "known_parts", "marks"),
    *("response", "finish_reason", "omitted"),
)


class CallLog:
    """Writes the calls of one trial. `secrets` never reach the file, wherever in a call they are."""

    def __init__(self, folder: Path, secrets: Sequence[str] = ()) -> None:
        self._path = folder / CALLS_FILE
        # The longest first, so that of a secret with another one in it nothing is left.
        self._secrets = sorted((secret for secret in secrets if len(secret) >= _LEAST_SECRET), key=len, reverse=True)
        self._written_secrets = [_as_written(secret) for secret in self._secrets]
        self._earlier = CallDeduplicator()
        self._file: FileIO | None = None
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def write(self, call: EndedCall | ModelCall) -> None:
        """Append a call, given with all its messages. Raises OSError when it cannot be stored."""
        reduced = self._earlier.reduce(line_values(call))
        values, request = reduced.values, reduced.values.get("request")
        line = as_line(values)
        if self._size + len(line) > MOST_BYTES:
            for name in ("known", "known_parts", "marks"):
                values.pop(name, None)
            values.update(messages=[], request=_NOT_KEPT, response=_NOT_KEPT)
            line = as_line(values)
        elif "messages" in values and values.get("request") is request:  # else it was nested too deeply to be kept
            self._earlier.remember(reduced)
        self._append(line)
        self._size += len(line)

    def _append(self, line: bytes) -> None:
        for secret in self._written_secrets:
            if secret in line:
                line = self._scrubbed(line)
                break
        if self._file is None:
            self._file = self._path.open("ab", buffering=0)
        # At once, not by way of a buffer: whatever ends this process ends it before a line or after it.
        written = self._file.write(line)
        while written < len(line):
            written += self._file.write(memoryview(line)[written:])

    def _scrubbed(self, line: bytes) -> bytes:
        # Only in what strangers wrote: a secret may look like a word or a number of the line itself.
        value = orjson.loads(line)
        for name in _STRANGERS:
            if name in value:
                value[name] = self._without_secrets(value[name])
        if "error" in value:
            value["error"]["message"] = self._without_secrets(value["error"]["message"])
        return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)

    def _without_secrets(self, value: Any) -> Any:
        if isinstance(value, str):
            for secret in self._secrets:
                value = value.replace(secret, _SCRUBBED)
            return value
        if isinstance(value, list):
            return [self._without_secrets(each) for each in value]
        if isinstance(value, dict):
            return {self._without_secrets(name): self._without_secrets(each) for name, each in value.items()}
        return value


def _as_written(secret: str) -> bytes:
    return orjson.dumps(secret.encode(errors="replace").decode())[1:-1]


def read_calls(path: Path) -> list[ModelCall]:
    """The calls of a trial with what is new in each. Raises OSError, or ValueError for a line that is none."""
    with path.open("rb") as file:
        return parse_calls(file)


def parse_calls(lines: Iterable[bytes]) -> list[ModelCall]:
    """The same of the lines of the file. Raises ValueError for a line that is none."""
    return [ModelCall.model_validate_json(line) for line in lines if line.strip()]


def conversation(calls: Sequence[ModelCall], index: int) -> list[Any]:
    """All messages that a call was made with, as they were sent."""
    return RecordedCalls(calls).messages(index)


def whole_request(calls: Sequence[ModelCall], index: int) -> dict[str, Any] | None:
    """All else that a call asked for, as it was sent: the request without its messages."""
    return RecordedCalls(calls).request(index)
