"""calls.jsonl: every call of a trial, a line each, written when the call has ended.

Each request repeats the conversation so far. What is known from an earlier call is not written again, and of earlier
calls only the last few conversations are remembered, so that a long trial needs no more memory than its context.
"""

from collections.abc import Sequence
from io import BufferedWriter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from seatrial.model.trace import KnownMessages, ModelCall

CALLS_FILE = "calls.jsonl"
_CONVERSATIONS = 4
_LEAST_SECRET = 8
_SCRUBBED = b"[secret]"


class CallLog:
    """Writes the calls of one trial. `secrets` never reach the file, wherever in a call they are."""

    def __init__(self, folder: Path, secrets: Sequence[str] = ()) -> None:
        self._path = folder / CALLS_FILE
        self._secrets = [secret.encode() for secret in secrets if len(secret) >= _LEAST_SECRET]
        self._conversations: list[tuple[int, list[Any]]] = []
        self._file: BufferedWriter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def known(self, messages: list[Any]) -> KnownMessages | None:
        """How much of a conversation an earlier call already had."""
        best = KnownMessages(call=0, count=0)
        for index, earlier in self._conversations:
            count = _common(earlier, messages)
            if count > best.count:
                best = KnownMessages(call=index, count=count)
        return best if best.count else None

    def remember(self, index: int, messages: list[Any], known: KnownMessages | None) -> None:
        """Keep a conversation to compare later ones with, in place of the one that it goes on with."""
        kept = [entry for entry in self._conversations if known is None or entry[0] != known.call]
        self._conversations = [*kept[-_CONVERSATIONS + 1 :], (index, messages)]

    def write(self, call: ModelCall) -> None:
        """Append a call. Raises OSError when it cannot be stored."""
        line = call.model_dump_json(exclude_none=True).encode()
        for secret in self._secrets:
            line = line.replace(secret, _SCRUBBED)
        if self._file is None:
            self._file = self._path.open("ab")
        self._file.write(line + b"\n")
        self._file.flush()


def _common(earlier: list[Any], messages: list[Any]) -> int:
    count = 0
    for old, new in zip(earlier, messages, strict=False):
        if old != new:
            break
        count += 1
    return count


def read_calls(path: Path) -> list[ModelCall]:
    """The calls of a trial with their new messages only. Raises OSError, or ValueError for a line that is none."""
    return [ModelCall.model_validate_json(line) for line in path.read_bytes().splitlines() if line]


def conversation(calls: Sequence[ModelCall], index: int) -> list[Any]:
    """All messages that a call was made with."""
    call = next(call for call in calls if call.index == index)
    if call.known is None:
        return list(call.messages)
    return conversation(calls, call.known.call)[: call.known.count] + list(call.messages)
