"""OpenAI's chat completions, the dialect that most servers speak.

Servers add fields of their own to streams (reasoning, token ids) and differ in how they number tool calls. So fields
are joined by their type, not by their name: text and arrays grow, anything else is the last that was said.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import orjson

from seatrial.gateway.base import SseEvent
from seatrial.gateway.dialects.base import Dialect, Provider
from seatrial.gateway.fields import Payload, ToldError, garbled, overridden, told_error
from seatrial.gateway.neutral.openai_chat_answers import (
    CallSlots,
    ChatReader,
    ChatWriter,
    counts,
    read_content,
    split_answer,
    write_answer,
)
from seatrial.gateway.neutral.openai_chat_requests import NAMES, read_request, write_request
from seatrial.model.trace import CallErrorKind
from seatrial.untrusted.json import dump, items, mapping, parse_object, text, whole_number

OPENAI = Provider(
    "openai",
    "https://api.openai.com/v1",
    ("OPENAI_API_KEY",),
    url_variables=("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    url_end="/v1",
)
_LENGTH_NAMES = ("max_tokens", "max_completion_tokens")
_TYPES: dict[int, tuple[str, str | None]] = {
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "model_not_found"),
    408: ("timeout", None),
    429: ("requests", "rate_limit_exceeded"),
}
_FIXED_TEXTS = frozenset({"role", "id", "type", "format"})  # whole when they come, and some servers repeat them
_MAX_DEPTH = 8
_CHUNK_ONLY = frozenset({"choices", "object", "obfuscation"})
_TRIES = 8
_PROBE = "a text that nobody says"


def check(payload: Any) -> str | None:
    if not isinstance(payload, dict):
        return "the body is not a JSON object"
    if not isinstance(payload.get("messages"), list):
        return "`messages` is missing or not an array"
    return None


def with_overrides(payload: Payload, model: str | None, sampling: Mapping[str, Any]) -> Payload:
    values = {name: sampling.get(name) for name in ("temperature", "top_p", "seed", "stop")}
    # Servers know one of the two names or both: the one that the agent chose is the one that its server knows.
    names = [name for name in _LENGTH_NAMES if payload.get(name) is not None] or ["max_completion_tokens"]
    values.update(dict.fromkeys(names, sampling.get("max_tokens")))
    return overridden(payload, model, values)


def with_usage(payload: Payload) -> Payload:
    """A streaming request that asks for the count of tokens, which streams leave out otherwise."""
    options = mapping(payload.get("stream_options"))
    if payload.get("stream") is not True or options.get("include_usage") is True:
        return payload
    return {**payload, "stream_options": {**options, "include_usage": True}}


def hides(data: str) -> bool:
    """Whether an event holds nothing but the count of tokens."""
    if '"prompt_tokens"' not in data:  # most events end here, without being parsed
        return False
    chunk = parse_object(data) or {}
    return chunk.get("choices") == [] and isinstance(chunk.get("usage"), dict)


def may_hide(chunk: bytes) -> bool:
    return b'"prompt_tokens"' in chunk


def holds_answer(response: Any) -> bool:
    """Whether there is an answer of a model in it: a choice at least."""
    choices = response.get("choices") if isinstance(response, dict) else None
    return isinstance(choices, list) and bool(choices)


def finish_reason(response: Any) -> str | None:
    try:
        return text(response["choices"][0]["finish_reason"])
    except (LookupError, TypeError):  # no such choice, or nothing that has any
        return None


def error_event(status: int, kind: CallErrorKind, message: str) -> SseEvent:
    return SseEvent(None, dump(error_body(status, kind, message)))


def error_body(status: int, kind: CallErrorKind, message: str) -> Payload:
    """The body of an error answer. A budget that is used up looks like an account that is."""
    if kind == "budget" and status in (402, 429):
        return _body("insufficient_quota", "insufficient_quota", message)
    name, code = _TYPES.get(status, ("server_error" if status >= 500 else "invalid_request_error", None))
    return _body(name, code, message)


def _body(name: str, code: str | None, message: str) -> Payload:
    return {"error": {"message": message, "type": name, "param": None, "code": code}}


def model_entry(model: str) -> Payload:
    return {"id": model, "object": "model", "created": 0, "owned_by": "seatrial"}


def probe(words: str, most: int | None) -> Payload:
    asked: Payload = {"messages": [{"role": "user", "content": words}]}
    return {**asked, "max_tokens": most} if most else asked


class News(NamedTuple):
    """The only thing that is new in an event: a text, and the name of the field that it belongs to."""

    name: str
    text: str


class Alike:
    """Knows one event of a stream by what stands before its text and what stands after it.

    Nearly all events of a streamed answer differ in that text alone: a token each, with the rest repeated. To see that
    takes a third of the time that it takes to parse them.
    """

    __slots__ = ("_after", "_before", "_tries")

    def __init__(self) -> None:
        self._before = self._after = ""
        self._tries = _TRIES

    def text(self, data: str) -> str | None:
        """The text of an event that is like the known one but for that; None for any other."""
        before, after = self._before, self._after
        if not before or not data.startswith(before) or not data.endswith(after):
            return None
        if len(data) < len(before) + len(after):
            return None
        written = data[len(before) : -len(after)]
        text = written if _stands_for_itself(written) else _unescaped(written)
        if text is not None:
            self._tries = _TRIES
        return text

    def texts(self, whole: str) -> list[str] | None:
        """The texts of several events, written one after the other, if all are like the known one but for that."""
        before, after = f"data: {self._before}", self._after
        if not self._before or not whole.startswith(before) or not whole.endswith(after):
            return None
        if len(whole) < len(before) + len(after):
            return None
        written = whole[len(before) : -len(after)].split(f"{after}\n\n{before}")
        texts = written if _stands_for_itself("".join(written)) else _all_unescaped(written)
        if texts is not None:
            self._tries = _TRIES
        return texts

    def forget(self) -> None:
        self._before = ""

    def may_learn(self) -> bool:
        """Whether it is worth while. Not after several in vain: some servers write something new beside each text."""
        return self._tries > 0

    def learn(self, data: str, news: News | None, read: Callable[[str], News | None]) -> bool:
        """Know this event from now on, if it has such news and it can be told where; `read` finds those of an event."""
        self._tries -= 1
        if news is None or not _stands_for_itself(news.text):
            return False
        before, found, after = data.partition(f'"{news.text}"')
        before, after = before + '"', '"' + after
        # There may be more such texts in an event. The right one is the one that makes the difference.
        if not found or read(before + _PROBE + after) != News(news.name, _PROBE):
            return False
        self._before, self._after = before, after
        return True


def _unescaped(text: str) -> str | None:
    try:
        value = orjson.loads(f'"{text}"')
    except ValueError:  # more than one text, or none
        return None
    return value if isinstance(value, str) else None


def _all_unescaped(written: list[str]) -> list[str] | None:
    texts = []
    for each in written:
        text = each if _stands_for_itself(each) else _unescaped(each)
        if text is None:
            return None
        texts.append(text)
    return texts


def _stands_for_itself(text: str) -> bool:
    """Whether a text is written in JSON as it is."""
    return text.isprintable() and '"' not in text and "\\" not in text


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
            self._growing = self._choices[whole_number(chunk["choices"][0].get("index")) or 0].pieces(news.name)

    def _take_choice(self, choice: Payload) -> None:
        index = whole_number(choice.get("index")) or 0
        found = self._choices.get(index)
        if found is None:
            found = self._choices[index] = _Choice()
        if found.take(choice):
            self.first_token = True

    def response(self) -> Payload | None:
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
        content = False
        for name, value in choice.items():
            if name == "delta":
                content = isinstance(value, dict) and self._take_delta(value)
            elif name != "index" and (value is not None or name not in self._fields):
                _join(self._fields, name, value, fixed=True)
        return content

    def pieces(self, name: str) -> list[str]:
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
        message = {"role": "assistant", "content": None, **_settled(self._message)}
        message["role"] = message["role"] or "assistant"
        if self._calls:
            message["tool_calls"] = [{"type": "function", **_settled(call)} for call in self._calls]
        return {"finish_reason": None, "logprobs": None, **_settled(self._fields), "message": message}


def _only_news(chunk: Payload) -> News | None:
    """The text of a part that could be taken again and again without a trace but for that; None of any other part."""
    choices = items(chunk.get("choices"))
    choice = mapping(choices[0]) if len(choices) == 1 else {}
    if any(choice[name] is not None for name in choice.keys() - {"index", "delta"}):
        return None
    said = {name: value for name, value in mapping(choice.get("delta")).items() if value is not None}
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
    known = mapping(call.get("function"))
    if not known.get("name") or _settled({"name": known["name"]})["name"] != value["name"]:
        return False
    _join(call, name, {key: item for key, item in value.items() if key != "name"}, fixed=False)
    return True


class _Pieces(list[str]):
    """Text that still grows."""


def _join(target: Payload, name: str, value: Any, *, fixed: bool, depth: int = 0) -> None:
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


DIALECT = Dialect(
    name="openai_chat",
    title="OpenAI's chat completions",
    provider=OPENAI,
    path="/v1/chat/completions",
    header_prefix="openai-",
    forwarded_headers=("openai-beta",),
    check=check,
    with_overrides=with_overrides,
    with_usage=with_usage,
    probe=probe,
    content_fields=frozenset(
        {"chat_template_kwargs", "documents", "functions", "guided_choice", "guided_json", "json_schema", "logit_bias"}
        | {"messages", "metadata", "prediction", "structured_outputs"}
    ),
    request_fields=frozenset(
        {"audio", "function_call", "modalities", "model", "parallel_tool_calls", "prompt_cache_key", "reasoning_effort"}
        | {"prompt_cache_options", "prompt_cache_retention", "response_format", "safety_identifier", "service_tier"}
        | {"stop", "stream_options", "tool_choice", "tools", "user", "verbosity", "web_search_options"}
    ).union(
        # of servers of open models
        ("allowed_token_ids", "bad_words", "chat_template", "dry_sequence_breakers", "grammar", "guided_grammar"),
        ("guided_regex", "mm_processor_kwargs", "samplers", "stop_token_ids", "stream_format", "usage"),
    ),
    volatile_fields=frozenset(
        {
            "metadata",
            "prompt_cache_key",
            "prompt_cache_options",
            "prompt_cache_retention",
            "safety_identifier",
            "stream",
        }
        | {"stream_options", "user"}
    ),
    output_limits=("max_completion_tokens", "max_tokens"),
    choice_settings=("n",),
    input_fields=frozenset({"messages"}),
    plain_blocks=frozenset({"custom", "function", "refusal", "text"}),
    answer_field="choices",
    holds_answer=holds_answer,
    counts=counts,
    finish_reason=finish_reason,
    assembler=ChatAssembler,
    hides=hides,
    may_hide=may_hide,
    error_body=error_body,
    error_event=error_event,
    error_statuses={"rate_limit_exceeded": 429},
    refusable={
        "reasoning_effort": ("effort", "thinking"),
        "verbosity": ("verbosity",),
        "parallel_tool_calls": ("parallel",),
    },
    field_names=NAMES,
    read_request=read_request,
    write_request=write_request,
    read_content=read_content,
    write_answer=write_answer,
    split_answer=split_answer,
    reader=ChatReader,
    writer=ChatWriter,
    model_entry=model_entry,
    id_prefixes=("chatcmpl-", "call_"),
)
