"""Rules of a script: which answer a call gets by what it is, not by when it comes.

Real agents ask for a title or a summary beside their work, and have several conversations at once. Answers in a line
would race; answers by condition do not.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError

from seatrial.errors import UsageError
from seatrial.gateway.upstreams.asked import AskedCall
from seatrial.gateway.upstreams.scripted import ScriptLine, parse_line
from seatrial.model.base import StrictModel

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
        """Whether a call is as the conditions want it."""
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
    """A script of rules, read. `name` says where it is from."""

    name: str
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
