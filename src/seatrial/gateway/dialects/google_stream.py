"""A streamed answer of Google's, put together again.

Each event is an answer of its own with the next parts of each candidate. Texts of one kind are joined; all else that is
said of a candidate, or beside them, is the last that was said.
"""

from typing import Any

from seatrial.gateway.dialects.api import Payload, ToldError
from seatrial.gateway.dialects.fields import garbled, items, number, parse_object, table, told_error
from seatrial.gateway.sse import SseEvent

_GROWING = frozenset({"text", "thought", "thoughtSignature"})


class GoogleAssembler:
    """The StreamAssembler of streamGenerateContent."""

    def __init__(self) -> None:
        self.first_token = False
        self.finished = False
        self.error: ToldError | None = None
        self.garbled: str | None = None
        self._head: Payload = {}
        self._candidates: dict[int, _Candidate] = {}

    def feed(self, event: SseEvent) -> None:
        """Take one event."""
        parsed = parse_object(event.data)
        if parsed is None:
            self.garbled = self.garbled or garbled(event.data)
        elif parsed.get("error"):
            self.error = told_error(parsed)
        else:
            self._take(parsed)

    def skim(self, whole: str) -> bool:
        """No: every event counts the tokens anew."""
        return False

    def _take(self, parsed: Payload) -> None:
        self._head.update({name: value for name, value in parsed.items() if value is not None})
        for candidate in items(parsed.get("candidates")):
            if isinstance(candidate, dict):
                self._take_candidate(candidate)
        if table(parsed.get("promptFeedback")).get("blockReason"):
            self.finished = True

    def _take_candidate(self, candidate: Payload) -> None:
        index = number(candidate.get("index")) or 0
        found = self._candidates.get(index)
        if found is None:
            found = self._candidates[index] = _Candidate()
        if found.take(candidate):
            self.first_token = True
        # There is no other mark of the end.
        self.finished = all(each.finished for each in self._candidates.values())

    def response(self) -> Payload | None:
        """The answer as far as it came."""
        if not self._head:
            return None
        if not self._candidates:
            return dict(self._head)
        return {**self._head, "candidates": [self._candidates[index].whole() for index in sorted(self._candidates)]}


class _Candidate:
    """One candidate while it grows."""

    __slots__ = ("_content", "_fields", "_parts", "_pieces", "finished")

    def __init__(self) -> None:
        self.finished = False
        self._fields: Payload = {}
        self._content: Payload = {}
        self._parts: list[Payload] = []
        self._pieces: list[str] = []  # of the text of the last part, while it grows

    def take(self, candidate: Payload) -> bool:
        """Take what is new; whether something of the answer itself is."""
        for name, value in candidate.items():
            if name != "content" and value is not None:
                self._fields[name] = value
        self.finished = self.finished or bool(candidate.get("finishReason"))
        content = table(candidate.get("content"))
        self._content.update({name: value for name, value in content.items() if name != "parts"})
        taken = [self._take_part(part) for part in items(content.get("parts")) if isinstance(part, dict)]
        return any(taken)

    def _take_part(self, part: Payload) -> bool:
        text = part.get("text")
        if not isinstance(text, str) or not _GROWING.issuperset(part):
            self._settle()
            self._parts.append(part)
            return True
        if self._pieces and self._goes_on(part):
            self._pieces.append(text)
            self._parts[-1].update({name: value for name, value in part.items() if name != "text"})
        else:
            self._settle()
            self._parts.append(dict(part))
            self._pieces = [text]
        return bool(text)

    def _goes_on(self, part: Payload) -> bool:
        """Whether it is more of the last text: of the same kind, and no signature has closed that."""
        last = self._parts[-1]
        return "thoughtSignature" not in last and bool(last.get("thought")) == bool(part.get("thought"))

    def _settle(self) -> None:
        if self._pieces:
            self._parts[-1]["text"] = "".join(self._pieces)
            self._pieces = []

    def whole(self) -> Payload:
        """The candidate as far as it came."""
        parts: list[Any] = [dict(part) for part in self._parts]
        if self._pieces:
            parts[-1]["text"] = "".join(self._pieces)
        content = {"content": {**self._content, "parts": parts}} if parts or self._content else {}
        return {**content, **self._fields}
