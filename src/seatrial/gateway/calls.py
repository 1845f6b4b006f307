"""calls.jsonl: every call of a trial, a line each, written when the call has ended.

Each request repeats the conversation so far. What is known from an earlier call is not written again, and of earlier
calls only the fingerprints of the last few conversations are remembered, so that memory stays flat in a long trial.
"""

import datetime as dt
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from io import BufferedWriter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson
from pydantic import BaseModel

from seatrial.model.base import MAX_JSON_DEPTH
from seatrial.model.trace import CallError, Dialect, ModelCall, TokenUsage

CALLS_FILE = "calls.jsonl"
_CONVERSATIONS = 4
_LEAST_SECRET = 8
_SCRUBBED = "[secret]"
_STRANGERS = ("path", "model", "upstream_model", "messages", "request", "response", "finish_reason")
_HEAD = (
    *("index", "dialect", "path", "started_at", "duration_sec", "first_token_sec", "stream", "model", "upstream_model"),
    *("status", "finish_reason", "usage", "cost_usd", "retry_of", "error"),
)
_LINE = orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE
_Content = dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class EndedCall:
    """A call that has ended, with all its messages: the fields of a ModelCall, with content as a JSON parser gives it.

    It is written as it is: to check every value of it would cost more than all the rest of a call.
    """

    index: int
    dialect: Dialect | None
    path: str
    started_at: dt.datetime
    duration_sec: float
    first_token_sec: float | None
    stream: bool
    model: str | None
    upstream_model: str | None
    messages: list[Any]
    request: _Content
    response: _Content
    status: int | None
    finish_reason: str | None
    usage: TokenUsage | None
    cost_usd: float | None
    retry_of: int | None
    error: CallError | None

    def checked(self) -> ModelCall:
        """The same as it would be read again, but with all its messages."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return ModelCall(**{**values, "request": _kept(self.request), "response": _kept(self.response)})


class CallLog:
    """Writes the calls of one trial. `secrets` never reach the file, wherever in a call they are."""

    def __init__(self, folder: Path, secrets: Sequence[str] = ()) -> None:
        self._path = folder / CALLS_FILE
        # The longest first, so that of a secret with another one in it nothing is left.
        self._secrets = sorted((secret for secret in secrets if len(secret) >= _LEAST_SECRET), key=len, reverse=True)
        self._written_secrets = [_as_written(secret) for secret in self._secrets]
        self._conversations: list[tuple[int, list[bytes]]] = []
        self._file: BufferedWriter | None = None

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
        line: dict[str, Any] = {name: value for name in _HEAD if (value := getattr(call, name)) is not None}
        line.update(self._new_messages(call))
        if call.request is not None:
            line["request"] = call.request
        if call.response is not None:
            line["response"] = call.response
        written = _written(line)
        for secret in self._written_secrets:
            if secret in written:
                written = self._scrubbed(written)
                break
        if self._file is None:
            self._file = self._path.open("ab")
        self._file.write(written)
        self._file.flush()

    def _new_messages(self, call: EndedCall | ModelCall) -> dict[str, Any]:
        """Which messages are known and which are new; neither when they are nested too deeply to be read again."""
        try:
            fingerprints = [hashlib.blake2b(orjson.dumps(each), digest_size=16).digest() for each in call.messages]
        except TypeError:
            return {}
        index, count = self._known(fingerprints)
        stored: dict[str, Any] = {"messages": call.messages[count:]}
        if _is_too_deep(stored):
            return {}
        # In place of the conversation that it goes on with.
        kept = [entry for entry in self._conversations if not count or entry[0] != index]
        self._conversations = [*kept[-_CONVERSATIONS + 1 :], (call.index, fingerprints)]
        return {**stored, "known": {"call": index, "count": count}} if count else stored

    def _known(self, fingerprints: list[bytes]) -> tuple[int, int]:
        """The earlier call that had most of a conversation already, and how much of it."""
        best, most = 0, 0
        for index, earlier in self._conversations:
            count = _common(earlier, fingerprints)
            if count > most:
                best, most = index, count
        return best, most

    def _scrubbed(self, line: bytes) -> bytes:
        # Only in what strangers wrote: a secret may look like a word or a number of the line itself.
        value = orjson.loads(line)
        for name in _STRANGERS:
            if name in value:
                value[name] = self._without_secrets(value[name])
        if "error" in value:
            value["error"]["message"] = self._without_secrets(value["error"]["message"])
        return orjson.dumps(value, option=_LINE)

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


def _written(line: dict[str, Any]) -> bytes:
    try:
        written = orjson.dumps(line, _table, _LINE)
        # What has no more brackets than that has no more levels either, which is true of most calls and quickly seen.
        if written.count(b"{") + written.count(b"[") <= MAX_JSON_DEPTH:
            return written
    except TypeError:  # nested too deeply even to be written
        written = b""
    kept = {name: _kept(line[name]) for name in ("request", "response") if name in line}
    same = written and all(kept[name] is line[name] for name in kept)
    return written if same else orjson.dumps({**line, **kept}, _table, _LINE)


def _table(model: BaseModel) -> dict[str, Any]:
    return {name: value for name, value in vars(model).items() if value is not None}


def _kept(content: _Content) -> _Content:
    """What a stranger wrote, as far as it can be read again."""
    too_deep = content is not None and _is_too_deep(content)
    return {"not_kept": f"nested deeper than {MAX_JSON_DEPTH} levels"} if too_deep else content


def _is_too_deep(value: dict[str, Any]) -> bool:
    # Level by level, and only containers: a walk that looks at each value takes several times as long.
    level: list[Any] = [value]
    for _ in range(MAX_JSON_DEPTH + 1):
        level = [
            item
            for each in level
            for item in (each.values() if isinstance(each, dict) else each)
            if isinstance(item, (dict, list))
        ]
        if not level:
            return False
    return True


def _as_written(secret: str) -> bytes:
    return orjson.dumps(secret.encode(errors="replace").decode())[1:-1]


def _common(earlier: list[bytes], later: list[bytes]) -> int:
    count = 0
    for old, new in zip(earlier, later, strict=False):
        if old != new:
            break
        count += 1
    return count


def read_calls(path: Path) -> list[ModelCall]:
    """The calls of a trial with their new messages only. Raises OSError, or ValueError for a line that is none."""
    return [ModelCall.model_validate_json(line) for line in path.read_bytes().splitlines() if line]


def conversation(calls: Sequence[ModelCall], index: int) -> list[Any]:
    """All messages that a call was made with."""
    by_index = {call.index: call for call in calls}
    call = by_index[index]
    parts, count = [call.messages], call.known.count if call.known else 0
    while call.known is not None and count:
        call = by_index[call.known.call]
        known = call.known.count if call.known else 0
        parts.append(call.messages[: max(count - known, 0)])
        count = min(count, known)
    return [message for part in reversed(parts) for message in part]
