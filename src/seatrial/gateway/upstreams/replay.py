"""ReplayModel: the answers of an earlier trial again, as long as the agent asks for the same.

Numbers in what its tools gave back may be others than before, where no call is exactly the same: commands tell times
and process ids. Calls that overlapped in the earlier trial may come in any order; all others come in theirs.
"""

import copy
import datetime as dt
import hashlib
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import orjson
from pydantic import ValidationError

from seatrial.errors import ProviderError, UsageError
from seatrial.gateway.api import ModelReply, ModelRequest
from seatrial.gateway.calls import RecordedCalls, without_marks
from seatrial.gateway.dialects import ALL_DIALECTS, DIALECTS
from seatrial.gateway.neutral.types import Untranslatable
from seatrial.gateway.translate import translate_response
from seatrial.gateway.upstreams.replies import answer, error_reply, final_error, json_reply, side_answer
from seatrial.model.trace import DialectName, ModelCall

_VOLATILE = frozenset[str]().union(*(each.volatile_fields for each in DIALECTS.values()))
_NUMBER = re.compile(rb"[0-9a-f]*[0-9][0-9a-f]*")
_OUTPUTS = ("tool_result", "function_call_output", "custom_tool_call_output")


@dataclass(frozen=True, slots=True, eq=False)
class RecordedCall:
    """An earlier call with the whole conversation that it had, and what else counts of its request."""

    call: ModelCall
    messages: list[Any]
    request: dict[str, Any]
    hash: str

    def loose_hash(self) -> str:
        """The same for requests that differ only in numbers that tools gave back."""
        call = self.call
        return _loose_hash(call.dialect, _path(call), self.messages, self.request)

    def is_beside(self, first: "RecordedCall") -> bool:
        """Whether it was made while another was under way. Calls without times, of an imported trial, never are."""
        begun, earlier = self.call.started_at, first.call.started_at
        if begun is None or earlier is None:
            return False
        return begun < earlier + dt.timedelta(seconds=first.call.duration_sec or 0.0)


class ReplayModel:
    """Answers a call with what the same call was answered in an earlier trial, streamed if that is asked for now."""

    def __init__(self, calls: Sequence[ModelCall], name: str = "the recording") -> None:
        self._recorded = _usable(_with_conversations(calls))
        self._name = name
        self._left = list(self._recorded)

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """A recording from a calls.jsonl. Raises UsageError that names the line."""
        return cls(_read_calls(path), str(path))

    @property
    def dialects(self) -> frozenset[DialectName]:
        return ALL_DIALECTS

    def fresh(self) -> "ReplayModel":
        """The same recording from its first call, for another trial."""
        model = copy.copy(self)
        model.rewind()
        return model

    def rewind(self) -> None:
        self._left = list(self._recorded)

    @asynccontextmanager
    async def ask(self, request: ModelRequest) -> AsyncIterator[ModelReply]:
        """The recorded answer. Raises ProviderError that names the first difference when the agent asks otherwise."""
        recorded = self._take(request)
        if recorded is None:
            yield side_answer(request, "replay")
        else:
            yield _again(request, recorded.call)

    def _take(self, request: ModelRequest) -> RecordedCall | None:
        wanted = fingerprint(request.dialect, _path(request), *_split(request))
        candidates = [one for one in self._left if one.call.dialect is None] if request.dialect is None else self._due()
        found = next((one for one in candidates if one.hash == wanted), None)
        if found is None and request.dialect is None:
            return None
        if found is None:
            loosely = _loose_hash(request.dialect, _path(request), *_split(request))
            found = next((one for one in candidates if one.loose_hash() == loosely), None)
        if found is None:
            raise final_error(self._complaint(request, candidates))
        self._left.remove(found)
        return found

    def _due(self) -> list[RecordedCall]:
        """The first call that has not been asked for again, and those that ran beside it."""
        left = [one for one in self._left if one.call.dialect is not None]
        return [one for one in left if one is left[0] or one.is_beside(left[0])]

    def _complaint(self, request: ModelRequest, due: list[RecordedCall]) -> str:
        if not due:
            count = sum(1 for one in self._recorded if one.call.dialect is not None)
            return f"{self._name} has no more answers: its {count} calls are replayed, and the agent asks for one more"
        call, (messages, rest) = due[0].call, _split(request)
        before = {"path": _path(call), "request": due[0].request, "messages": due[0].messages}
        now = {"path": _path(request), "request": rest, "messages": messages}
        return f"call {call.index} of {self._name} was another one: {first_difference(before, now)}"


def _again(request: ModelRequest, call: ModelCall) -> ModelReply:
    error = call.error
    if error is not None and error.kind == "provider":
        raise ProviderError(f"as recorded: {error.message}", error.status)
    status = call.status or (error.status if error else None) or 200
    if call.response is None or (status >= 300 and _is_foreign_error(request, call.response)):
        return error_reply(request, status, error.message if error else "")
    return (
        answer(request, _in_its_dialect(request, call.response)) if status < 300 else json_reply(status, call.response)
    )


def _path(asked: ModelRequest | ModelCall) -> str:
    return essential_path(asked.dialect, asked.path)


def _is_foreign_error(request: ModelRequest, response: dict[str, Any]) -> bool:
    return any(
        each.is_error(response) != (each.name == request.dialect)
        for each in DIALECTS.values()
        if each.is_error is not None
    )


def _in_its_dialect(request: ModelRequest, response: dict[str, Any]) -> dict[str, Any]:
    """The answer as its agent got it; the record has it as the provider gave it. Raises ProviderError."""
    wanted = request.dialect
    if wanted is None or DIALECTS[wanted].holds_answer(response):
        return response
    spoken = next((dialect for dialect, module in DIALECTS.items() if module.holds_answer(response)), wanted)
    try:
        return translate_response(response, spoken, wanted, DIALECTS[wanted].agent_tools(request.payload or {}))
    except Untranslatable as error:
        raise final_error(f"this answer cannot be translated: {error}") from error


def _loose_hash(dialect: DialectName | None, path: str, messages: list[Any], rest: dict[str, Any]) -> str:
    return fingerprint(dialect, path, without_numbers(messages), rest)


def _usable(recorded: list[RecordedCall]) -> tuple[RecordedCall, ...]:
    """The calls that an upstream is asked again: not those that a limit of the trial or the agent itself cut short.

    A failure that the agent's SDK repeated by itself is left out as well; the repetition has the answer.
    """
    repeated = {one.call.retry_of for one in recorded}
    return tuple(
        one
        for one in recorded
        if one.call.error is None
        or one.call.error.kind == "agent"
        or (one.call.error.kind == "provider" and one.call.index not in repeated)
    )


def _with_conversations(calls: Sequence[ModelCall]) -> list[RecordedCall]:
    whole = RecordedCalls(calls)
    recorded = []
    for call in calls:
        try:
            said, asked = whole.messages(call.index), whole.request(call.index)
        except ValueError as error:
            raise UsageError(f"the recording is not complete: {error}") from error
        messages, request = essential_messages(without_marks(said)), essential(asked)
        hashed = fingerprint(call.dialect, _path(call), messages, request)
        recorded.append(RecordedCall(call, messages, request, hashed))
    return recorded


def _split(request: ModelRequest) -> tuple[list[Any], dict[str, Any]]:
    payload = essential(request.payload)
    if request.dialect is None:
        return [], payload
    module = DIALECTS[request.dialect]
    return essential_messages(module.messages(payload)), module.without_messages(payload)


def _read_calls(path: Path) -> list[ModelCall]:
    try:
        with path.open("rb") as file:
            return [_read_call(path, *numbered) for numbered in enumerate(file, start=1)]
    except OSError as error:
        raise UsageError(f"the recording {path} cannot be read: {error}") from error


def _read_call(path: Path, number: int, line: bytes) -> ModelCall:
    try:
        return ModelCall.model_validate_json(line)
    except ValidationError as error:
        raise UsageError(f"line {number} of {path} is not a recorded call: {error.errors()[0]['msg']}") from error


# When two requests ask for the same: what counts in them, its hash, and where they first differ.


def essential(payload: Mapping[str, Any] | None) -> dict[str, Any]:
    """A request without what does not change its answer: some of its fields, and cache marks wherever they are."""
    kept = {key: without_marks(value) for key, value in (payload or {}).items() if key not in _VOLATILE}
    return {**kept, "input": essential_messages(kept["input"])} if isinstance(kept.get("input"), list) else kept


def essential_messages(messages: list[Any]) -> list[Any]:
    """A conversation without the names that an agent makes up for its messages anew in each run, as Codex does."""
    return [_unnamed(each) if isinstance(each, dict) and "id" in each and "type" in each else each for each in messages]


def _unnamed(item: dict[str, Any]) -> dict[str, Any]:
    if item["type"] == "item_reference":
        return item
    return {key: value for key, value in item.items() if key != "id"}


def without_numbers(messages: list[Any]) -> list[Any]:
    """A conversation in which the numbers are blank that tools gave back: times, and names made up for one use."""
    return [_blank(each) if isinstance(each, dict) else each for each in messages]


def _blank(message: dict[str, Any]) -> dict[str, Any]:
    if message.get("role") == "tool" or message.get("type") in _OUTPUTS:
        said = {name: message[name] for name in ("content", "output") if name in message}
        return {**message, **{name: _NUMBER.sub(b"#", _canonical(value)).decode() for name, value in said.items()}}
    if "functionResponse" in message:
        return {**message, "functionResponse": _NUMBER.sub(b"#", _canonical(message["functionResponse"])).decode()}
    if isinstance(parts := message.get("parts"), list):
        return {**message, "parts": without_numbers(parts)}
    content = message.get("content")
    return {**message, "content": without_numbers(content)} if isinstance(content, list) else message


def essential_path(dialect: DialectName | None, path: str) -> str:
    """A path without what does not change the answer: one that names the model says nothing beside the payload."""
    return path if dialect is None or DIALECTS[dialect].model_paths is None else ""


def fingerprint(*parts: Any) -> str:
    """A hash of JSON values, in which the order of keys does not count."""
    return hashlib.sha256(_canonical(parts)).hexdigest()


def first_difference(expected: Any, found: Any, where: str = "") -> str | None:
    """The place where two JSON values first differ, and how; None if they are equal."""
    if _canonical(expected) == _canonical(found):
        return None
    if isinstance(expected, dict) and isinstance(found, dict):
        return _in_tables(expected, found, where)
    if isinstance(expected, list) and isinstance(found, list):
        return _in_lists(expected, found, where)
    return f"{where or 'the request'} was {_shown(expected)}, is now {_shown(found)}"


def _canonical(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _in_tables(expected: dict[str, Any], found: dict[str, Any], where: str) -> str | None:
    for key in sorted(expected.keys() | found.keys()):
        place = f"{where}.{key}" if where else key
        if key not in found:
            return f"{place} was {_shown(expected[key])}, is now missing"
        if key not in expected:
            return f"{place} was not there, is now {_shown(found[key])}"
        if difference := first_difference(expected[key], found[key], place):
            return difference
    return None


def _in_lists(expected: list[Any], found: list[Any], where: str) -> str | None:
    for index, (before, now) in enumerate(zip(expected, found, strict=False)):
        if difference := first_difference(before, now, f"{where}[{index}]"):
            return difference
    if len(expected) != len(found):
        return f"{where} had {len(expected)} entries, has now {len(found)}"
    return None


def _shown(value: Any) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= 200 else f"{text[:200]}… ({len(text)} characters)"
