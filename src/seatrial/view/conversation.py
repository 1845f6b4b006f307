"""The conversation of a trial, some turns at a time: who said what, what tools did folded, the first failure marked.

What was said is a stranger's and may be endless; what is long is shown by its beginning and its end.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from seatrial.gateway.calls import CALLS_FILE
from seatrial.messages import AnyItem, ToolCall, ToolResult, as_text
from seatrial.model.trace import ModelCall
from seatrial.report.conversation import CallParts, ShownPart, describe_threads, headline, part_calls, shown_parts
from seatrial.report.text import counted
from seatrial.trajectories.behaviour import LOW, AgentTurn, turns_of
from seatrial.trajectories.first_failure import ToolStep, error_of, first_failure
from seatrial.trajectories.threads import Thread, find_threads
from seatrial.untrusted.files import read_bounded
from seatrial.view.opened import round_folder

TURNS = 25
"""On one page."""

AT_ONCE = 2**19
"""How many bytes of calls a trial's page reads by itself; more of them are loaded once it is there."""

MOST_BYTES = 32 * 2**20
_KEPT_BYTES = 2**23
_LONGEST, _FOLDED_FROM = 12_000, 1_200
_SUMMARY = 110
_ALWAYS_FOLDED = frozenset({"system", "tools", "reasoning", "tool call", "tool"})


@dataclass(frozen=True, slots=True)
class TurnPart:
    """Something that was said, as a page shows it."""

    who: str
    text: str
    failed: str = ""
    """How it is known that a tool failed."""

    is_first_failure: bool = False

    @property
    def is_folded(self) -> bool:
        """Whether its text is hidden until somebody wants it."""
        return not self.failed and (self.who in _ALWAYS_FOLDED or len(self.text) > _FOLDED_FROM)

    @property
    def summary(self) -> str:
        """Its beginning, on one line."""
        line = " ".join(self.text[: 4 * _SUMMARY].split())
        return line if len(line) <= _SUMMARY else f"{line[:_SUMMARY]}…"


@dataclass(frozen=True, slots=True)
class ShownTurn:
    """A call of the model and what is new in it."""

    index: int
    facts: tuple[str, ...]
    thread: str | None
    said: tuple[TurnPart, ...]
    is_error: bool
    behaviour: AgentTurn | None = None
    """What the agent did in it, by rules; None for a call that is no turn."""

    @property
    def is_uncertain(self) -> bool:
        return self.behaviour is not None and self.behaviour.confidence < LOW


@dataclass(frozen=True, slots=True)
class FirstFailure:
    """Where the first failing step is: what failed, in words, and on which page of turns."""

    words: str
    page: int


@dataclass(frozen=True, slots=True)
class Conversation:
    """All calls of a round, put in threads. `trouble` says what of them could not be read."""

    calls: tuple[ModelCall, ...]
    threads: tuple[Thread, ...]
    failure: ToolStep | None
    trouble: str = ""
    behaviour: Mapping[int, AgentTurn] = field(default_factory=dict)
    """What the agent did, by the index of the call."""

    @property
    def pages(self) -> int:
        """How many pages its turns take."""
        return max(1, -(-len(self.calls) // TURNS))

    @property
    def described(self) -> list[str]:
        return describe_threads(self.threads) if len(self.threads) > 1 else []

    @property
    def first_failure(self) -> FirstFailure | None:
        if self.failure is None:
            return None
        step, places = self.failure, [call.index for call in self.calls]
        name = f"{step.tool or 'a tool'}{f' ({step.subject})' if step.subject else ''}"
        return FirstFailure(f"{name}: {step.error}", places.index(step.told_in) // TURNS + 1)

    def turns(self, page: int) -> list[ShownTurn]:
        """The turns of a page, which are numbered from 1."""
        parts = islice(part_calls(self.calls, self.threads, full=False), (page - 1) * TURNS, page * TURNS)
        shown = (_turn(each, self.failure) for each in parts)
        return [replace(each, behaviour=self.behaviour.get(each.index)) for each in shown]


@dataclass(frozen=True, slots=True)
class Talk:
    """The conversation of a round, or how large it is if it is too large to be read with the trial's page."""

    step: str | None
    size: int
    conversation: Conversation | None

    @property
    def can_load(self) -> bool:
        """Whether it can be shown at all."""
        return self.size <= MOST_BYTES


def talk_of(folder: Path, step: str | None, most: int = AT_ONCE) -> Talk | None:
    """The conversation of a round below a trial's folder; None where no call was kept. Raises SeatrialError."""
    path = round_folder(Path(), step) / CALLS_FILE
    if not os.path.lexists(folder / path):
        return None
    size = read_bounded(path, folder, 2).size
    if size > min(most, MOST_BYTES):
        return Talk(step, size, None)
    status = (folder / path).lstat()
    read = _read_once if size <= _KEPT_BYTES else _read
    return Talk(step, size, read(folder, path, (status.st_ino, status.st_size, status.st_mtime_ns)))


def _read(folder: Path, path: Path, stamp: tuple[int, int, int]) -> Conversation:
    calls, trouble = _read_calls(read_bounded(path, folder, max(1, stamp[1])).head)
    try:
        threads = tuple(find_threads(calls))
    except ValueError as error:
        threads, trouble = (), trouble or f"the calls cannot be put together: {error}"
    behaviour = {turn.call: turn for turn in turns_of(threads)}
    return Conversation(tuple(calls), threads, first_failure(threads), trouble, behaviour)


# For all pages of its turns; a large one would take too much memory to be kept.
_read_once = lru_cache(maxsize=4)(_read)


def _read_calls(content: bytes) -> tuple[list[ModelCall], str]:
    """The calls up to the first damaged line, since later ones build on it, and what is the matter with that."""
    calls: list[ModelCall] = []
    for number, line in enumerate(content.splitlines(), start=1):
        try:
            calls += [ModelCall.model_validate_json(line)] if line else []
        except ValidationError as error:
            trouble = f"line {number} of {CALLS_FILE} is damaged ({error.errors()[0]['msg']}); what follows is left out"
            return sorted(calls, key=lambda call: call.index), trouble
    return sorted(calls, key=lambda call: call.index), ""


def _turn(parts: CallParts, failure: ToolStep | None) -> ShownTurn:
    here = failure if failure and failure.told_in == parts.call.index else None
    said = [TurnPart(part.who, _cut(part.text)) for part in parts.offered]
    for at, item in enumerate(parts.heard):
        said += _turn_parts(item, is_first=here is not None and here.at == at)
    said += [part for item in parts.answered for part in _turn_parts(item)]
    facts = headline(parts.call).split(" · ")
    return ShownTurn(parts.call.index, tuple(facts[1:]), parts.thread, tuple(said), parts.call.error is not None)


def _turn_parts(item: AnyItem, *, is_first: bool = False) -> Iterator[TurnPart]:
    failed = (error_of(item) or "") if isinstance(item, ToolResult) else ""
    for number, part in enumerate(_shown(item)):
        yield TurnPart(part.who, _cut(part.text), failed, is_first and number == 0)


def _shown(item: AnyItem) -> Iterable[ShownPart]:
    if isinstance(item, ToolCall):
        return [ShownPart("tool call", f"{item.name}\n{_arguments(item.arguments)}")]
    return shown_parts([item])


def _arguments(arguments: Any) -> str:
    """Arguments by their names, texts of several lines as they are: JSON would have them on one."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return str(arguments)
    if not isinstance(arguments, dict):
        return as_text(arguments)
    return "\n".join(f"{name}:{_break(value)}{as_text(value)}" for name, value in arguments.items())


def _break(value: Any) -> str:
    return "\n" if isinstance(value, str) and "\n" in value else " "


def _cut(text: str) -> str:
    left = len(text) - 2 * _LONGEST
    if left <= 0:
        return text
    return f"{text[:_LONGEST]}\n… {counted(left, 'character')} left out; {CALLS_FILE} has them …\n{text[-_LONGEST:]}"


def failure_anchor(step: str | None) -> str:
    """Where on a page the first failing step of a round is."""
    return f"first-failure-{step}" if step else "first-failure"


def failures_first(talks: Sequence[Talk]) -> tuple[Talk, FirstFailure] | None:
    """The first failing step of a trial, with the round it is in."""
    for talk in talks:
        if talk.conversation and (found := talk.conversation.first_failure):
            return talk, found
    return None
