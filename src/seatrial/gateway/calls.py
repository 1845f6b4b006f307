"""calls.jsonl: every call of a trial, a line each, written when the call has ended.

Each request repeats the conversation so far, and with it tool definitions and system prompts. What is known from an
earlier call is not written again (`gateway/known.py`); when it is read, it is put together (`gateway/recorded.py`).
"""

from collections.abc import Sequence
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

from seatrial.gateway.ended import EndedCall, as_line, line_values
from seatrial.gateway.known import EarlierCalls
from seatrial.gateway.recorded import RecordedCalls
from seatrial.model.trace import ModelCall

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
        self._earlier = EarlierCalls()
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
    return parse_calls(path.read_bytes())


def parse_calls(content: bytes) -> list[ModelCall]:
    """The same of what the file says. Raises ValueError for a line that is none."""
    return [ModelCall.model_validate_json(line) for line in content.splitlines() if line]


def conversation(calls: Sequence[ModelCall], index: int) -> list[Any]:
    """All messages that a call was made with, as they were sent."""
    return RecordedCalls(calls).messages(index)


def whole_request(calls: Sequence[ModelCall], index: int) -> dict[str, Any] | None:
    """All else that a call asked for, as it was sent: the request without its messages."""
    return RecordedCalls(calls).request(index)
