"""A streamed chat completion, put together again.

Servers that speak this dialect add fields of their own (reasoning, token ids) and differ in how they number tool calls.
So fields are joined by their type, not by their name: text and arrays grow, anything else is the last that was said.
"""

from typing import Any

from seatrial.gateway.dialects.alike import Alike, News
from seatrial.gateway.dialects.api import Payload, ToldError
from seatrial.gateway.dialects.fields import garbled, items, number, parse_object, table, told_error
from seatrial.gateway.sse import SseEvent

_FIXED_TEXTS = frozenset({"role", "id", "type", "format"})  # whole when they come, and some servers repeat them
_MAX_DEPTH = 8
_CHUNK_ONLY = frozenset({"choices", "object", "obfuscation"})


class CallSlots:
    """Which tool call a fragment belongs to: by its index, with two habits of other servers allowed for.

    Some leave the index out, and some number all parallel calls 0 and tell them apart by id and name.
    """

    def __init__(self) -> None:
        self._by_index: dict[Any, int] = {}
        self._ids: list[Any] = []

    def find(self, fragment: Payload) -> tuple[int, bool]:
        """The position of the call, and whether this fragment is its first."""
        index, call_id = number(fragment.get("index")), fragment.get("id") or None
        slot = self._by_index.get(index)
        begins = bool(call_id and table(fragment.get("function")).get("name"))
        if slot is None or (begins and call_id != self._ids[slot]):
            slot = self._by_index[index] = len(self._ids)
            self._ids.append(call_id)
            return slot, True
        return slot, False


class ChatAssembler:
    """The StreamAssembler of chat completions."""

    def __init__(self) -> None:
        self.first_token = False
        self.finished = False
        self.error: ToldError | None = None
        self.garbled: str | None = None
        self._head: Payload = {}
        self._choices: dict[Any, _Choice] = {}
        self._alike = Alike()
        self._growing: list[str] = []  # what the events that are alike are pieces of

    def feed(self, event: SseEvent) -> None:
        """Take one event."""
        data = event.data
        if (said := self._alike.text(data)) is not None:
            self._growing.append(said)
            return
        if data.startswith("[DONE]"):
            self.finished = True
            return
        chunk = parse_object(data)
        if chunk is None:
            self.garbled = self.garbled or garbled(data)
        elif chunk.get("error"):
            self.error = told_error(chunk)
        elif chunk:
            self._take(data, chunk)

    def skim(self, whole: str) -> bool:
        """Take several events at once that are alike."""
        if (said := self._alike.texts(whole)) is None:
            return False
        self._growing.extend(said)
        return True

    def _take(self, data: str, chunk: Payload) -> None:
        self._alike.forget()  # after this one, what the known one says beside its text may be news again
        head = self._head
        for name, value in chunk.items():
            if value is not None or name not in head:
                head[name] = value
        for choice in items(chunk.get("choices")):
            if isinstance(choice, dict):
                self._take_choice(choice)
        if self._alike.may_learn():
            self._learn(data, chunk)

    def _learn(self, data: str, chunk: Payload) -> None:
        news = _only_news(chunk)
        if self._alike.learn(data, news, _read_only_news) and news is not None:
            self._growing = self._choices[number(chunk["choices"][0].get("index")) or 0].pieces(news.name)

    def _take_choice(self, choice: Payload) -> None:
        index = number(choice.get("index")) or 0
        found = self._choices.get(index)
        if found is None:
            found = self._choices[index] = _Choice()
        if found.take(choice):
            self.first_token = True

    def response(self) -> Payload | None:
        """The answer as far as it came."""
        if not self._head:
            return None
        kept = {name: value for name, value in self._head.items() if name not in _CHUNK_ONLY}
        choices = [{"index": index, **self._choices[index].whole()} for index in sorted(self._choices)]
        return {**kept, "object": "chat.completion", "choices": choices}


class _Choice:
    __slots__ = ("_calls", "_fields", "_message", "_slots")

    def __init__(self) -> None:
        self._fields: Payload = {}
        self._message: Payload = {}
        self._calls: list[Payload] = []
        self._slots = CallSlots()

    def take(self, choice: Payload) -> bool:
        """Take one part; whether it had something of the answer in it."""
        content = False
        for name, value in choice.items():
            if name == "delta":
                content = isinstance(value, dict) and self._take_delta(value)
            elif name != "index" and (value is not None or name not in self._fields):
                _join(self._fields, name, value, fixed=True)
        return content

    def pieces(self, name: str) -> list[str]:
        """The text that a field of the message has so far, to be added to."""
        pieces: _Pieces = self._message[name]
        return pieces

    def _take_delta(self, delta: Payload) -> bool:
        content = False
        for name, value in delta.items():
            if name == "tool_calls":
                for fragment in items(value):
                    if isinstance(fragment, dict):
                        self._take_call(fragment)
                        content = True
            else:
                _join(self._message, name, value, fixed=name in _FIXED_TEXTS)
                content = content or (bool(value) and name != "role")
        return content

    def _take_call(self, fragment: Payload) -> None:
        slot, new = self._slots.find(fragment)
        if new:
            self._calls.append({})
        call = self._calls[slot]
        for name, value in fragment.items():
            if name in _FIXED_TEXTS:
                call[name] = call.get(name) or value  # one server makes up a new id for every fragment
            elif name != "index" and not _repeats_name(call, name, value):
                _join(call, name, value, fixed=False)

    def whole(self) -> Payload:
        """The choice as it would be without streaming."""
        message = {"role": "assistant", "content": None, **_settled(self._message)}
        message["role"] = message["role"] or "assistant"
        if self._calls:
            message["tool_calls"] = [{"type": "function", **_settled(call)} for call in self._calls]
        return {"finish_reason": None, "logprobs": None, **_settled(self._fields), "message": message}


def _only_news(chunk: Payload) -> News | None:
    """The text of a part that could be taken again and again without a trace but for that; None of any other part."""
    choices = items(chunk.get("choices"))
    choice = table(choices[0]) if len(choices) == 1 else {}
    if any(choice[name] is not None for name in choice.keys() - {"index", "delta"}):
        return None
    said = {name: value for name, value in table(choice.get("delta")).items() if value is not None}
    if not isinstance(said.pop("role", ""), str) or len(said) != 1 or not said.keys().isdisjoint(_FIXED_TEXTS):
        return None
    ((name, value),) = said.items()
    return News(name, value) if isinstance(value, str) and value and name != "tool_calls" else None


def _read_only_news(data: str) -> News | None:
    return _only_news(parse_object(data) or {})


def _repeats_name(call: Payload, name: str, value: Any) -> bool:
    """Merge a function that names itself again without doubling its name."""
    if name != "function" or not isinstance(value, dict) or "name" not in value:
        return False
    known = table(call.get("function"))
    if not known.get("name") or _settled({"name": known["name"]})["name"] != value["name"]:
        return False
    _join(call, name, {key: item for key, item in value.items() if key != "name"}, fixed=False)
    return True


class _Pieces(list[str]):
    """Text that still grows."""


def _join(target: Payload, name: str, value: Any, *, fixed: bool, depth: int = 0) -> None:
    """Add a part of a field to what came of it before."""
    known = target.get(name)
    if isinstance(value, str) and not fixed:
        if type(known) is _Pieces:
            known.append(value)
        else:
            target[name] = _Pieces((value,))
    elif isinstance(value, list):
        if type(known) is list:
            known.extend(value)
        else:
            target[name] = value
    elif isinstance(value, dict) and depth < _MAX_DEPTH:
        target[name] = inner = known if isinstance(known, dict) else {}
        for key, item in value.items():
            _join(inner, key, item, fixed=key in _FIXED_TEXTS, depth=depth + 1)
    elif value is not None or name not in target:
        target[name] = value


def _settled(fields: Payload, depth: int = 0) -> Payload:
    """A copy in which text has stopped growing, so that the stream may go on."""
    return {name: _settle(value, depth) for name, value in fields.items()}


def _settle(value: Any, depth: int) -> Any:
    if type(value) is _Pieces:
        return "".join(value)
    if isinstance(value, dict) and depth <= _MAX_DEPTH:  # what is deeper was never joined
        return _settled(value, depth + 1)
    return list(value) if isinstance(value, list) else value
