"""RecordedCalls: the calls of a trial as they were made, put together again from what calls.jsonl keeps of each.

Files from before tool definitions were kept once, and marks apart, are read in the same way: they have it all in place.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from seatrial.gateway.marks import put_mark
from seatrial.model.trace import KnownPart, ModelCall


class RecordedCalls:
    """Calls by their index. Methods raise ValueError if a call builds on one that is not there."""

    def __init__(self, calls: Iterable[ModelCall]) -> None:
        self._calls = {call.index: call for call in calls}

    def messages(self, index: int) -> list[Any]:
        """All messages of a call, as they were sent."""
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
        """The same without cache marks."""
        call = self._call(index)
        if call.request is None:
            return None
        request = dict(call.request)
        for part in call.known_parts:
            if part.count is None:
                request[part.field] = self._kept(call, part)
            else:
                entries = list(_entries(request.get(part.field)))
                start = part.start
                entries[part.at : part.at] = _entries(self._kept(call, part))[start : start + part.count]
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


def _entries(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else []
