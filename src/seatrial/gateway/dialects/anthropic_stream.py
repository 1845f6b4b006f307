"""A streamed message of Anthropic's, put together again."""

from typing import Any

import orjson

from seatrial.gateway.dialects.api import Payload, ToldError
from seatrial.gateway.dialects.fields import garbled, number, parse_object, table, told_error
from seatrial.gateway.sse import SseEvent


class AnthropicAssembler:
    """The StreamAssembler of messages."""

    def __init__(self) -> None:
        self.first_token = False
        self.finished = False
        self.error: ToldError | None = None
        self.garbled: str | None = None
        self._message: Payload | None = None
        self._usage: Payload = {}
        self._blocks: dict[int, _Block] = {}

    def feed(self, event: SseEvent) -> None:
        """Take one event."""
        parsed = parse_object(event.data)
        if parsed is None:
            self.garbled = self.garbled or garbled(event.data)
            return
        kind = parsed.get("type")
        if kind == "content_block_delta":
            self._take_delta(parsed)
        elif kind == "content_block_start":
            self._blocks[_index(parsed)] = _Block(table(parsed.get("content_block")))
        elif kind == "message_start":
            self._message = dict(table(parsed.get("message")))
            self._count(self._message.get("usage"))
        elif kind == "message_delta":
            self._take_end(parsed)
        elif kind == "message_stop":
            self.finished = True
        elif kind == "error":
            self.error = told_error(parsed)

    def skim(self, whole: str) -> bool:
        """No: every event says where its text belongs."""
        return False

    def _take_delta(self, parsed: Payload) -> None:
        delta = parsed.get("delta")
        if not isinstance(delta, dict):
            return
        index = _index(parsed)
        block = self._blocks.get(index)
        if block is None:
            block = self._blocks[index] = _Block({})
        block.take(delta)
        self.first_token = True

    def _take_end(self, parsed: Payload) -> None:
        message = self._message = self._message or {}
        message.update({name: value for name, value in table(parsed.get("delta")).items() if value is not None})
        extra = {"type", "delta", "usage"}
        message.update({name: value for name, value in parsed.items() if name not in extra and value is not None})
        self._count(parsed.get("usage"))

    def _count(self, usage: Any) -> None:
        """Later counts replace earlier ones: they are totals, not additions."""
        self._usage.update({name: value for name, value in table(usage).items() if value is not None})

    def response(self) -> Payload | None:
        """The answer as far as it came."""
        if self._message is None and not self._blocks:
            return None
        content = [self._blocks[index].whole() for index in sorted(self._blocks)]
        base = {"type": "message", "role": "assistant", "stop_reason": None, "stop_sequence": None}
        return {**base, **(self._message or {}), "content": content, "usage": dict(self._usage)}


def _index(parsed: Payload) -> int:
    return number(parsed.get("index")) or 0


class _Block:
    """One block of content. A delta's text grows the block's field of the same name, whatever the field is."""

    __slots__ = ("_citations", "_pieces", "_start")

    def __init__(self, start: Payload) -> None:
        self._start = start
        self._pieces: dict[str, list[str]] = {}
        self._citations: list[Any] = []

    def take(self, delta: Payload) -> None:
        """Add one delta."""
        for name, value in delta.items():
            if name == "type":
                continue
            if name == "citation":
                self._citations.append(value)
            elif isinstance(value, str):
                pieces = self._pieces.get(name)
                if pieces is None:
                    self._pieces[name] = [value]
                else:
                    pieces.append(value)
            elif value is not None:
                self._start[name] = value

    def whole(self) -> Payload:
        """The block as it would be without streaming."""
        block = dict(self._start)
        for name, pieces in self._pieces.items():
            grown = "".join(pieces)
            if name == "partial_json":
                block.update(_input(grown))
            else:
                before = block.get(name)
                block[name] = before + grown if isinstance(before, str) else grown
        if self._citations:
            before = block.get("citations")
            block["citations"] = [*(before if isinstance(before, list) else []), *self._citations]
        return block


def _input(arguments: str) -> Payload:
    """The input of a tool call. One that was cut cannot be parsed and is kept as the text it is."""
    if not arguments:
        return {}
    try:
        return {"input": orjson.loads(arguments)}
    except ValueError:
        return {"partial_json": arguments}
