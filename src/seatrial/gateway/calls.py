"""calls.jsonl: every call of a trial, a line each, written when the call has ended.

Each request repeats the conversation so far. What is known from an earlier call is not written again, and of earlier
calls only the fingerprints of the last few conversations are remembered, so that memory stays flat in a long trial.
"""

from collections.abc import Sequence
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

from seatrial.gateway.ended import EndedCall, as_line, line_values
from seatrial.model.trace import ModelCall

CALLS_FILE = "calls.jsonl"
MOST_BYTES = 4 * 2**30
"""How much is kept of one trial; of calls after that, only how they went."""

_NOT_KEPT = {"not_kept": f"the calls of this trial have more than {MOST_BYTES:,} bytes"}
_CONVERSATIONS = 4
_LEAST_SECRET = 8
_SCRUBBED = "[secret]"
_STRANGERS = (
    "method",
    "path",
    "model",
    "upstream_model",
    "messages",
    "request",
    "response",
    "finish_reason",
    "omitted",
)


class CallLog:
    """Writes the calls of one trial. `secrets` never reach the file, wherever in a call they are."""

    def __init__(self, folder: Path, secrets: Sequence[str] = ()) -> None:
        self._path = folder / CALLS_FILE
        # The longest first, so that of a secret with another one in it nothing is left.
        self._secrets = sorted((secret for secret in secrets if len(secret) >= _LEAST_SECRET), key=len, reverse=True)
        self._written_secrets = [_as_written(secret) for secret in self._secrets]
        self._conversations: dict[int, list[int]] = {}  # fingerprints by the index of the call
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
        values = line_values(call)
        messages = values["messages"]
        fingerprints = _fingerprints(messages)
        index, count = self._known(fingerprints)
        if count:
            values["messages"] = messages[count:]
            values["known"] = {"call": index, "count": count}
        line = as_line(values)
        if self._size + len(line) > MOST_BYTES:
            values.pop("known", None)
            values.update(messages=[], request=_NOT_KEPT, response=_NOT_KEPT)
            fingerprints, count, line = [], 0, as_line(values)
        if "messages" in values:
            self._remember(values["index"], fingerprints, in_place_of=index if count else None)
        self._append(line)
        self._size += len(line)

    def _remember(self, index: int, fingerprints: list[int], in_place_of: int | None) -> None:
        conversations = self._conversations
        if in_place_of is not None:
            del conversations[in_place_of]
        elif len(conversations) == _CONVERSATIONS:
            del conversations[next(iter(conversations))]
        conversations[index] = fingerprints

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

    def _known(self, fingerprints: list[int]) -> tuple[int, int]:
        """The earlier call that had most of a conversation already, and how much of it."""
        best, most = 0, 0
        for index, earlier in self._conversations.items():
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


def _fingerprints(messages: list[Any]) -> list[int]:
    # A hash is of 64 bits, by a key of this process: enough to tell a few conversations apart, and no agent can aim.
    try:
        return [hash(orjson.dumps(each)) for each in messages]
    except TypeError:  # nested too deeply to be written at all
        return []


def _as_written(secret: str) -> bytes:
    return orjson.dumps(secret.encode(errors="replace").decode())[1:-1]


def _common(earlier: list[int], later: list[int]) -> int:
    if earlier == later[: len(earlier)]:  # a conversation that goes on
        return len(earlier)
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
