"""The first failing step of a trial: the first error a tool returned that was never recovered.

An error is what a tool marks as one, or an output that says so itself: an exit status other than 0, a traceback. It is
recovered once the same tool does the same kind of thing without an error later in the thread: with the same file, or by
the same program. Nothing here is judged by a model, so the same calls always give the same step.
"""

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from seatrial.messages import ToolCall, ToolResult, plain_words
from seatrial.trajectories.reading import read_messages
from seatrial.trajectories.threads import Thread

_FILES = ("path", "file_path", "filename", "file", "target_file")
_COMMANDS = ("command", "cmd", "script", "code")
_SHELLS = frozenset({"sh", "bash", "dash", "zsh"})
_WRAPPERS = frozenset({"cd", "env", "exec", "nohup", "set", "sudo", "time", "timeout", "export"})
_EDGE = 1000
"""How many characters at both ends of an output are searched: that is where agents put an exit status."""

_STATUS = re.compile(
    r"(?:\bexit(?:ed)?(?:[ _-]?(?:with|code|status))*|\breturn[ _-]?code)[\"'>:=\s]{1,4}(-?\d{1,6})\b", re.IGNORECASE
)
_TRACEBACK = re.compile(r"^Traceback \(most recent call last\):", re.MULTILINE)
_ERROR_LINE = re.compile(r"\s*(?:fatal )?error\b", re.IGNORECASE)
_SEPARATORS = re.compile(r"&&|\|\||[;|\n]")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


@dataclass(frozen=True, slots=True)
class ToolStep:
    """One use of a tool."""

    call: int
    """The call whose answer asked for it."""
    told_in: int
    """The call that was told the result."""
    at: int
    """The place of the result among what was new in that call."""
    tool: str
    subject: str
    error: str | None
    """How it is known that it failed, None if it did not."""


def first_failure(threads: Sequence[Thread]) -> ToolStep | None:
    """The first step that failed and was never recovered, whichever thread it is in; None where there is none."""
    found = [step for thread in threads for step in _unrecovered(list(tool_steps(thread)))]
    return min(found, key=lambda step: (step.told_in, step.at), default=None)


def tool_steps(thread: Thread) -> Iterator[ToolStep]:
    """Every use of a tool in a thread that got a result, in order."""
    used: dict[str, tuple[int, ToolCall]] = {}
    for each in thread.calls:
        for at, item in enumerate(read_messages(each.new)):
            if isinstance(item, ToolResult):
                call, use = used.get(item.id or item.name, (each.call.index, None))
                name = use.name if use else item.name
                subject = subject_of(use) if use else ""
                yield ToolStep(call, each.call.index, at, name, subject, error_of(item))
        for asked in each.answer:
            if isinstance(asked, ToolCall):
                used[asked.id or asked.name] = each.call.index, asked


def _unrecovered(steps: Sequence[ToolStep]) -> Iterator[ToolStep]:
    worked = {(step.tool, step.subject): number for number, step in enumerate(steps) if step.error is None}
    for number, step in enumerate(steps):
        if step.error is not None and worked.get((step.tool, step.subject), -1) < number:
            yield step


def error_of(output: ToolResult) -> str | None:
    """How an output shows that its tool failed, None if it does not. An exit status goes before all else it says."""
    if output.failed:
        return "the tool says that it failed"
    text = plain_words(output.parts)
    statuses = [*_STATUS.finditer(text[:_EDGE]), *_STATUS.finditer(text[-_EDGE:])]
    if statuses:
        status = int(statuses[-1][1])
        return f"exit status {status}" if status else None
    if _TRACEBACK.search(text[-4 * _EDGE :]):
        return "a traceback"
    return "it begins with an error" if _ERROR_LINE.match(text) else None


def subject_of(call: ToolCall) -> str:
    """What a tool was used on: a file, or the program that a command runs; empty where neither can be told."""
    table = call.table or {}
    for name in _FILES:
        if isinstance(path := table.get(name), str):
            return posixpath.normpath(path)
    for name in _COMMANDS:
        if command := table.get(name):
            return _program(command)
    return ""


def _program(command: Any) -> str:
    words = [each for each in command if isinstance(each, str)] if isinstance(command, list) else []
    if len(words) > 2 and posixpath.basename(words[0]) in _SHELLS and words[1].startswith("-"):
        return _program(words[2])
    if words:
        return posixpath.basename(words[0])
    for part in _SEPARATORS.split(command[: 4 * _EDGE]) if isinstance(command, str) else ():
        named = [word for word in part.split() if not _ASSIGNMENT.match(word)]
        if named and named[0] not in _WRAPPERS:
            return posixpath.basename(named[0])
    return ""
