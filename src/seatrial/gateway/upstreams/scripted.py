"""Scripted models: upstreams that answer from a file, and fail loudly when it has no answer.

ScriptedModel gives the n-th call the n-th line. RuledModel chooses an answer by what a call is: real agents ask for a
title or a summary beside their work and hold several conversations at once, and answers in a line would race.
`load_script` reads either kind of file.
"""

import copy
import re
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import orjson
import tomli
from pydantic import AfterValidator, Field, ValidationError

from seatrial.errors import ProviderError, UsageError
from seatrial.gateway.api import ModelReply, ModelRequest
from seatrial.gateway.calls import without_marks
from seatrial.gateway.dialects import ALL_DIALECTS, DIALECTS
from seatrial.gateway.neutral.openai_responses_requests import whole_name
from seatrial.gateway.upstreams.replies import (
    JSON_HEADERS,
    Reply,
    answer,
    asked_model,
    error_reply,
    estimate_usage,
    final_error,
    parse_reply,
    render_response,
    reply_in_pieces,
    side_answer,
)
from seatrial.model.base import StrictModel
from seatrial.model.trace import DialectName
from seatrial.untrusted.json import items, mapping, text


@dataclass(frozen=True, slots=True)
class ScriptedError:
    """A line that is a failure: the agent's mistake if its status says so, else the provider's."""

    status: int
    message: str

    @property
    def is_the_agents(self) -> bool:
        """Whether a provider would have told the agent rather than given up."""
        return 400 <= self.status < 500 and self.status != 429


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """A line that is sent as it is: a whole response, or text that need not be JSON at all."""

    value: dict[str, Any] | str


ScriptLine = Reply | ScriptedError | RawAnswer


def parse_line(value: object) -> ScriptLine:
    """A line of a script: a reply, `{"error": {"status", "message"}}` or `{"raw": …}`. Raises ValueError."""
    if isinstance(value, dict) and "raw" in value:
        raw = value["raw"]
        if len(value) > 1 or not isinstance(raw, dict | str):
            raise ValueError("`raw` stands alone and is a whole response or text")
        return RawAnswer(raw)
    if isinstance(value, dict) and "error" in value:
        return _parse_error(value)
    return parse_reply(value)


class ScriptedModel:
    """Answers the n-th model call with the n-th line, in whichever dialect it is asked."""

    def __init__(self, lines: Sequence[object], name: str = "the script") -> None:
        self._lines = tuple(_parse_lines(lines, name))
        self._name = name
        self._position = 0

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """A script from a JSON list or from JSON lines. Raises UsageError that names the line."""
        return cls(_read_lines(path), str(path))

    @property
    def dialects(self) -> frozenset[DialectName]:
        return ALL_DIALECTS

    @property
    def remaining(self) -> int:
        return len(self._lines) - self._position

    def fresh(self) -> "ScriptedModel":
        model = copy.copy(self)
        model.rewind()
        return model

    def rewind(self) -> None:
        self._position = 0

    @asynccontextmanager
    async def ask(self, request: ModelRequest) -> AsyncIterator[ModelReply]:
        """The next line as an answer. Raises ProviderError when it is a failure, or when there is none left."""
        if request.dialect is None:
            yield side_answer(request, "scripted")
        else:
            line = self._next_line()
            yield say_line(request, line, self._position)

    def _next_line(self) -> ScriptLine:
        if self._position >= len(self._lines):
            said = len(self._lines)
            raise final_error(f"{self._name} ran out: all its {said} replies are said, and the agent asks for one more")
        self._position += 1
        return self._lines[self._position - 1]


def say_line(request: ModelRequest, line: ScriptLine, serial: int) -> ModelReply:
    """A line as an answer; `serial` makes its ids differ from those of others. Raises ProviderError if it is one."""
    if isinstance(line, ScriptedError):
        if line.is_the_agents:
            return error_reply(request, line.status, line.message)
        raise ProviderError(line.message, line.status)
    if isinstance(line, RawAnswer):
        if isinstance(line.value, dict):
            return answer(request, line.value)
        return reply_in_pieces(200, JSON_HEADERS, [line.value.encode()])
    assert request.dialect is not None  # noqa: S101 - upstreams answer the others before
    usage, model = estimate_usage(request.payload, line), asked_model(request, "scripted")
    tools = DIALECTS[request.dialect].agent_tools(request.payload or {})
    said = render_response(request.dialect, line, model=model, serial=serial, usage=usage, agent_tools=tools)
    return answer(request, said)


def _parse_error(value: dict[str, Any]) -> ScriptedError:
    table = value["error"]
    if len(value) > 1 or not isinstance(table, dict) or not set(table) <= {"status", "message"}:
        raise ValueError("`error` stands alone and has a `status` and a `message`")
    status, message = table.get("status", 500), table.get("message", "scripted error")
    if not isinstance(status, int) or not 400 <= status < 600 or not isinstance(message, str):
        raise ValueError("the status of an `error` is a number from 400 to 599, its message is text")
    return ScriptedError(status, message)


def _parse_lines(lines: Sequence[object], name: str) -> list[ScriptLine]:
    return [_line(line, f"reply {number} of {name}") for number, line in enumerate(lines, start=1)]


def _read_lines(path: Path) -> list[object]:
    text = _text(path)
    if text.lstrip().startswith("["):
        return _read_list(path, text)
    values: list[object] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            values.append(orjson.loads(line))
        except orjson.JSONDecodeError as error:
            raise UsageError(f"line {number} of {path} is not JSON: {error}") from error
    return values


def _read_list(path: Path, text: str) -> list[object]:
    try:
        values = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise UsageError(f"{path} begins like a JSON list but is none: {error}") from error
    return list(values)


# Calls as rules see them, whichever dialect they are in. Requests are strangers' JSON, so nothing here raises: what is
# not understood is not seen.

Speaker = Literal["user", "tool", "model", "system"]

_ROLES: dict[str, Speaker] = {
    "assistant": "model",
    "model": "model",
    "tool": "tool",
    "function": "tool",
    "system": "system",
    "developer": "system",
}
_TEXTS = ("text", "content", "output", "parts")


@dataclass(frozen=True, slots=True)
class AskedCall:
    """One call: the tools that it offers, its model, and what was said since the model spoke last."""

    tools: tuple[str, ...]
    model: str
    last: str
    by: Speaker
    """`tool` when something that was said last came from a tool."""
    turn: int
    """From 1, by how often the model has spoken in the conversation."""
    opening: int
    """The same for all calls of one conversation."""


def read_asked(request: ModelRequest) -> AskedCall:
    payload = request.payload or {}
    messages = without_marks(DIALECTS[request.dialect].messages(payload)) if request.dialect else []
    speakers = [_speaker(each) for each in messages]
    heard = max((place for place, who in enumerate(speakers) if who == "model"), default=-1) + 1
    since = [(who, each) for who, each in zip(speakers[heard:], messages[heard:], strict=True) if who != "system"]
    return AskedCall(
        tools=tuple(name for tool in items(payload.get("tools")) for name in _tool_names(tool)),
        model=text(payload.get("model")) or "",
        last="\n".join(said for _, each in since for said in _texts(each)),
        by="tool" if any(who == "tool" for who, _ in since) else "user" if since else "model",
        turn=1 + _turns(speakers),
        opening=_opening(speakers, messages),
    )


def _turns(speakers: list[Speaker]) -> int:
    """How often the model has spoken: its thoughts, words and calls in a row are one turn."""
    before: list[Speaker] = ["user", *speakers]
    return sum(1 for last, now in zip(before, speakers, strict=False) if now == "model" != last)


def _opening(speakers: list[Speaker], messages: list[Any]) -> int:
    first = next((each for who, each in zip(speakers, messages, strict=True) if who == "user"), None)
    try:
        return zlib.crc32(orjson.dumps(first))
    except TypeError:  # nested too deeply to be written
        return 0


def _speaker(message: Any) -> Speaker:
    known = mapping(message)
    kind, role = text(known.get("type")) or "message", text(known.get("role"))
    inner = [mapping(each) for each in (*items(known.get("content")), *items(known.get("parts")))]
    if kind.endswith("_output") or any(map(_is_result, inner)):
        return "tool"
    if role is not None:
        return _ROLES.get(role, "user")
    # Without a role it is an item of a response: a thought of the model, or its call of a tool.
    return "user" if kind == "message" else "model"


def _is_result(block: dict[str, Any]) -> bool:
    return block.get("type") == "tool_result" or "functionResponse" in block


def _tool_names(tool: Any) -> Iterator[str]:
    """The names under which a model calls a tool, or the tools of a namespace."""
    known = mapping(tool)
    listed = (known.get(name) for name in ("functionDeclarations", "function_declarations", "tools"))
    inner = [mapping(each) for several in listed for each in items(several)]
    within = known.get("name") if known.get("type") == "namespace" else None
    yield from (whole_name(within, name) for name in filter(None, map(_tool_name, inner or [known])))


def _tool_name(tool: dict[str, Any]) -> str | None:
    """What the provider runs itself has its type for a name."""
    within = (mapping(tool.get(kind)).get("name") for kind in ("function", "custom"))
    return next(filter(None, map(text, (tool.get("name"), *within, tool.get("type")))), None)


def _texts(value: Any) -> Iterator[str]:
    """All that a message says, in the order in which it says it."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, list):
            waiting += reversed(each)
        elif isinstance(each, dict):
            waiting += [each[name] for name in reversed(_TEXTS) if name in each]
            # What a function gave back may have any keys.
            waiting += reversed([*mapping(mapping(each.get("functionResponse")).get("response")).values()])


# Rules: which answer a call gets by what it is.

Thread = Literal["main", "side"]

_TITLE = "A task"
"""Said to calls without tools that no rule is for: an agent that asks for a title takes anything short."""


def _expression(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is not a regular expression: {error}") from error
    return text


Expression = Annotated[str, AfterValidator(_expression)]


class Conditions(StrictModel):
    """When a rule is for a call. What is not given does not matter; of several names or texts one is enough.

    `tools` is true or false for any or none, or names, in which `*` stands for anything, as in the names of models.
    `contains` and `matches` look at what was said since the model spoke last, and `by` says who said it.
    """

    tools: bool | str | list[str] | None = None
    model: str | list[str] | None = None
    contains: str | list[str] | None = None
    matches: Expression | None = None
    by: Literal["user", "tool"] | None = None
    thread: Thread | None = None
    turn: Annotated[int, Field(ge=1)] | None = None

    def fit(self, asked: AskedCall, thread: Thread) -> bool:
        return (
            self._fits_tools(asked.tools)
            and (self.model is None or _any_named(self.model, [asked.model]))
            and (self.contains is None or any(each in asked.last for each in _listed(self.contains)))
            and (self.matches is None or re.search(self.matches, asked.last) is not None)
            and self.by in (None, asked.by)
            and self.thread in (None, thread)
            and self.turn in (None, asked.turn)
        )

    def _fits_tools(self, tools: Sequence[str]) -> bool:
        if self.tools is None or isinstance(self.tools, bool):
            return self.tools in (None, bool(tools))
        return _any_named(self.tools, tools)


class RuleSpec(StrictModel):
    """A rule as it is written: an answer that is said every time, or a list of answers that are said once, in turn."""

    when: Conditions = Conditions()
    say: Any


class ScriptSpec(StrictModel):
    """A script of rules as it is written. The first rule that fits a call answers it.

    `title` is what calls without tools get if no rule is for them; null makes them fail like others.
    """

    rules: list[RuleSpec]
    title: Any = _TITLE


@dataclass(frozen=True, slots=True, eq=False)
class ScriptRule:
    """A rule with its answers read."""

    when: Conditions
    lines: tuple[ScriptLine, ...]
    repeats: bool

    def line(self, said: int) -> ScriptLine | None:
        """What it says after it has spoken `said` times in a conversation; None when all is said."""
        if self.repeats:
            return self.lines[0]
        return self.lines[said] if said < len(self.lines) else None


@dataclass(frozen=True, slots=True)
class RuledScript:
    """A script of rules, read."""

    name: str
    """Where it is from."""
    rules: tuple[ScriptRule, ...]
    title: ScriptLine | None = field(default=None)


def read_rules(value: object, name: str) -> RuledScript:
    """A script of rules from plain values. Raises UsageError that names the rule."""
    try:
        spec = ScriptSpec.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"{name}: {_place(first['loc'])}: {first['msg'].removeprefix('Value error, ')}") from error
    rules = [_rule(rule, f"rule {number} of {name}") for number, rule in enumerate(spec.rules, start=1)]
    title = None if spec.title is None else _line(spec.title, f"the title of {name}")
    return RuledScript(name, tuple(rules), title)


def _rule(spec: RuleSpec, name: str) -> ScriptRule:
    lines = spec.say if isinstance(spec.say, list) else [spec.say]
    return ScriptRule(spec.when, tuple(_line(line, name) for line in lines), repeats=not isinstance(spec.say, list))


def _line(value: object, name: str) -> ScriptLine:
    try:
        return parse_line(value)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from error


def _place(location: tuple[int | str, ...]) -> str:
    if len(location) > 1 and location[0] == "rules" and isinstance(location[1], int):
        return ".".join([f"rule {location[1] + 1}", *map(str, location[2:])])
    return ".".join(map(str, location)) or "the script"


def _any_named(patterns: str | list[str], names: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in _listed(patterns) for name in names)


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


_SHOWN_TOOLS = 12
_SHOWN_CHARACTERS = 200
_SIDE_SERIALS = 10_000


class RuledModel:
    """Answers each call by the first rule that fits it.

    The main thread is the first conversation that offers tools; all others are beside it. What a rule has said already
    is counted for each conversation by itself, so that it does not matter which of several goes first.
    """

    def __init__(self, script: RuledScript) -> None:
        self._script = script
        self._main: int | None = None
        self._said: Counter[tuple[int, bool, ScriptRule | None]] = Counter()

    @property
    def dialects(self) -> frozenset[DialectName]:
        return ALL_DIALECTS

    def fresh(self) -> "RuledModel":
        """The same script, of which nothing is said yet, for another trial."""
        return RuledModel(self._script)

    @asynccontextmanager
    async def ask(self, request: ModelRequest) -> AsyncIterator[ModelReply]:
        """The answer of the first rule that fits. Raises ProviderError when it is a failure, or when none fits."""
        if request.dialect is None:
            yield side_answer(request, "scripted")
        else:
            yield self._answer(request)

    def _answer(self, request: ModelRequest) -> ModelReply:
        asked = read_asked(request)
        has_tools = bool(asked.tools)
        if has_tools and self._main is None:
            self._main = asked.opening
        thread: Thread = "main" if has_tools and asked.opening == self._main else "side"
        line = self._line(asked, thread)
        if line is None:
            raise self._complaint(asked, thread)
        self._said[asked.opening, has_tools, None] += 1
        # By the conversation and its calls, not by all calls so far: these may come in another order another time.
        serial = self._said[asked.opening, has_tools, None]
        serial += 0 if thread == "main" else _SIDE_SERIALS * (1 + asked.opening % (_SIDE_SERIALS - 1))
        return say_line(request, line, serial)

    def _line(self, asked: AskedCall, thread: Thread) -> ScriptLine | None:
        for rule in self._script.rules:
            if not rule.when.fit(asked, thread):
                continue
            key = (asked.opening, bool(asked.tools), rule)
            if (line := rule.line(self._said[key])) is not None:
                self._said[key] += 1
                return line
        return None if asked.tools else self._script.title

    def _complaint(self, asked: AskedCall, thread: Thread) -> ProviderError:
        rules = enumerate(self._script.rules, start=1)
        done = [str(number) for number, rule in rules if rule.when.fit(asked, thread)]
        spent = f" (rule {', '.join(done)} would, but has said all its answers)" if done else ""
        more = f" and {len(asked.tools) - _SHOWN_TOOLS} more" if len(asked.tools) > _SHOWN_TOOLS else ""
        offer = f"the tools {', '.join(asked.tools[:_SHOWN_TOOLS])}{more}" if asked.tools else "no tools"
        # The end of it: what comes before is often what an agent tells with every question.
        last = asked.last[-_SHOWN_CHARACTERS:]
        return final_error(
            f"no rule of {self._script.name} answers this call{spent}: model {asked.model!r}, {offer}, "
            f"{thread} thread, turn {asked.turn}; said last, by the {asked.by}: {last!r}"
        )


# Files: a list of answers, a line each, or rules, in JSON, TOML or YAML.

_RULES = '"rules"'


def load_script(path: Path) -> ScriptedModel | RuledModel:
    """The model that says what a file says. Raises UsageError that names what is wrong in it."""
    rules = _rules(path)
    return ScriptedModel.from_file(path) if rules is None else RuledModel(read_rules(rules, str(path)))


def _rules(path: Path) -> Any:
    """What a file of rules has in it; None for one with answers in a line."""
    kind = path.suffix.lower()
    text = _text(path)
    try:
        if kind == ".toml":
            return tomli.loads(text)
        return _yaml_rules(text) if kind in (".yaml", ".yml") else _json_rules(text)
    except ValueError as error:
        raise UsageError(f"the script {path} cannot be read: {error}") from error


def _yaml_rules(text: str) -> Any:
    from seatrial.untrusted.yaml import read_documents  # noqa: PLC0415 - few need it, and it takes a while to import

    documents = read_documents(text, repeated="refuse")
    return documents[0] if len(documents) == 1 else documents


def _json_rules(text: str) -> Any:
    """A table with `rules` in it. Answers in a line may begin with a table too, but not with one like that."""
    if not text.lstrip().startswith("{") or _RULES not in text:
        return None
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        if _is_json(text.lstrip().partition("\n")[0]):  # a line of its own
            return None
        raise
    return value if "rules" in value else None


def _is_json(line: str) -> bool:
    try:
        orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return True


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the script {path} cannot be read: {error}") from error
