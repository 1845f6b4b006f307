"""calls.jsonl: every call of a trial, a line each, written when the call has ended.

Each request repeats the conversation so far. What is known from an earlier call is not written again, and of earlier
calls only the fingerprints of the last few conversations are remembered, so that memory stays flat in a long trial.
"""

import hashlib
from collections.abc import Sequence
from io import BufferedWriter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

from seatrial.model.base import check_json_object
from seatrial.model.trace import KnownMessages, ModelCall

CALLS_FILE = "calls.jsonl"
_CONVERSATIONS = 4
_LEAST_SECRET = 8
_SCRUBBED = "[secret]"
_CONTENT = {"messages", "known", "request", "response"}
_STRANGERS = ("path", "model", "upstream_model", "messages", "request", "response", "finish_reason")


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

    def write(self, call: ModelCall) -> None:
        """Append a call, given with all its messages. Raises OSError when it cannot be stored."""
        head = call.model_dump_json(exclude_none=True, exclude=_CONTENT).encode()
        content = orjson.dumps(
            {
                **self._new_messages(call),
                **({"request": call.request} if call.request is not None else {}),
                **({"response": call.response} if call.response is not None else {}),
            }
        )
        if any(secret in part for secret in self._written_secrets for part in (head, content)):
            head, content = self._scrubbed(head), self._scrubbed(content)
        if self._file is None:
            self._file = self._path.open("ab")
        # In parts: what a call holds may be large, and to join it would copy it once more.
        self._file.writelines((head[:-1], b"," if len(content) > 2 else b"", memoryview(content)[1:], b"\n"))
        self._file.flush()

    def _new_messages(self, call: ModelCall) -> dict[str, Any]:
        """Which messages are known and which are new; neither when they are nested too deeply to be read again."""
        try:
            fingerprints = [hashlib.blake2b(orjson.dumps(each), digest_size=16).digest() for each in call.messages]
            known = self._known(fingerprints)
            stored = check_json_object({"messages": call.messages[known.count if known else 0 :]})
        except (TypeError, ValueError):
            return {}
        # In place of the conversation that it goes on with.
        kept = [entry for entry in self._conversations if known is None or entry[0] != known.call]
        self._conversations = [*kept[-_CONVERSATIONS + 1 :], (call.index, fingerprints)]
        return {**stored, "known": known.model_dump()} if known else stored

    def _known(self, fingerprints: list[bytes]) -> KnownMessages | None:
        """How much of a conversation an earlier call already had."""
        best = KnownMessages(call=0, count=0)
        for index, earlier in self._conversations:
            count = _common(earlier, fingerprints)
            if count > best.count:
                best = KnownMessages(call=index, count=count)
        return best if best.count else None

    def _scrubbed(self, part: bytes) -> bytes:
        # Only in what strangers wrote: a secret may look like a word or a number of the line itself.
        value = orjson.loads(part)
        for name in _STRANGERS:
            if name in value:
                value[name] = self._without_secrets(value[name])
        if "error" in value:
            value["error"]["message"] = self._without_secrets(value["error"]["message"])
        return orjson.dumps(value)

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
