"""ScriptedModel: a model that says what a file says, line after line, and fails loudly when the lines run out."""

import copy
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import orjson

from seatrial.errors import ProviderError, UsageError
from seatrial.gateway.api import ModelReply, ModelRequest
from seatrial.gateway.neutral.openai_responses_tools import agent_tools
from seatrial.gateway.upstreams.answers import (
    ALL_DIALECTS,
    JSON_HEADERS,
    answer,
    asked_model,
    error_reply,
    final_error,
    reply_in_pieces,
    side_answer,
)
from seatrial.gateway.upstreams.render import render_response
from seatrial.gateway.upstreams.reply import Reply, estimate_usage, parse_reply
from seatrial.model.trace import Dialect


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
    def dialects(self) -> frozenset[Dialect]:
        """All of them."""
        return ALL_DIALECTS

    @property
    def remaining(self) -> int:
        """How many lines have not been said yet."""
        return len(self._lines) - self._position

    def fresh(self) -> "ScriptedModel":
        """The same script from its first line, for another trial."""
        model = copy.copy(self)
        model.rewind()
        return model

    def rewind(self) -> None:
        """Go back to the first line."""
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
    tools = agent_tools(request.dialect, request.payload or {})
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
    parsed = []
    for number, line in enumerate(lines, start=1):
        try:
            parsed.append(parse_line(line))
        except ValueError as error:
            raise UsageError(f"reply {number} of {name}: {error}") from error
    return parsed


def _read_lines(path: Path) -> list[object]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the script {path} cannot be read: {error}") from error
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
