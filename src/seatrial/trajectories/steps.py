"""A thread as the steps of a trajectory: who said what, and what the tools that a step called gave back."""

import datetime as dt
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Literal

from seatrial.gateway.dialects.fields import parse_object
from seatrial.model.atif import AtifMetrics, AtifObservation, AtifResult, AtifStep, AtifSubagentRef, AtifToolCall
from seatrial.model.base import check_json_object
from seatrial.model.trace import ModelCall
from seatrial.trajectories.asked import is_answered, read_effort
from seatrial.trajectories.items import (
    Declined,
    Item,
    Pieces,
    Thought,
    ToolOutput,
    ToolUse,
    Unread,
    Words,
    as_text,
    is_model_side,
)
from seatrial.trajectories.links import Starter
from seatrial.trajectories.pictures import Gallery
from seatrial.trajectories.reading import read_message, read_system
from seatrial.trajectories.threads import ThreadCall
from seatrial.trajectories.tokens import read_tokens

_MORE_TOKENS = ("reasoning_tokens", "cache_write_tokens")
_SYSTEM_ROLES = ("system", "developer")
References = Mapping[Starter, Sequence[str]]
"""The ids of the trajectories that a tool call started."""


@dataclass(slots=True)
class _Draft:
    """A step that may still get the results of its tool calls."""

    values: dict[str, Any]
    call: int | None = None
    tools: list[AtifToolCall] = field(default_factory=list)
    results: list[AtifResult] = field(default_factory=list)


_Waiting = defaultdict[str, list[tuple[_Draft, AtifToolCall]]]
"""Tool calls that may have no result yet, by their ids or names: a search through all steps could take hours."""


class StepWriter:
    """Writes the steps of one thread, call by call. `failed` are calls without an answer that no step tells of."""

    def __init__(self, gallery: Gallery, references: References) -> None:
        self._gallery = gallery
        self._references = references
        self._drafts: list[_Draft] = []
        self._system: set[str] = set()
        self._by_id: _Waiting = defaultdict(list)
        self._by_name: _Waiting = defaultdict(list)
        self._observed: set[int] = set()
        self.failed: list[dict[str, Any]] = []

    def add(self, each: ThreadCall) -> None:
        """Go on with a call of the thread."""
        begun = len(self._drafts)
        asked_at = _moment(each.call.started_at)
        told = [block for block in dict.fromkeys(read_system(each.request)) if block not in self._system]
        self._system.update(told)
        if told:
            self._say("system", ("\n".join(told),), asked_at)
        for message in each.new:
            for is_models, group in groupby(read_message(message), is_model_side):
                items = list(group)
                if is_models:
                    self._act(items, {"timestamp": asked_at, "is_copied_context": True})
                else:
                    self._hear(items, asked_at)
        if each.how == "compacted" and len(self._drafts) > begun:
            self._drafts[begun].values["extra"] = {"after_compaction": True}
        if is_answered(each.call):
            self._act(each.answer, self._facts(each), each.call.index)
        else:
            self.failed.append(_failure(each.call))

    def steps(self) -> list[AtifStep]:
        """All steps so far, one at least."""
        if not self._drafts:
            self._say("user", (), None)
        return [_step(number, draft) for number, draft in enumerate(self._drafts, 1)]

    def _hear(self, items: Sequence[Item], at: str | None) -> None:
        for item in items:
            if isinstance(item, ToolOutput):
                self._observe(item, at)
            elif isinstance(item, Words):
                self._say("system" if item.role in _SYSTEM_ROLES else "user", item.pieces, at)
            elif isinstance(item, Unread):
                self._say("user", (as_text(item.value),), at)

    def _say(self, source: Literal["system", "user"], pieces: Pieces, at: str | None) -> None:
        self._drafts.append(_Draft({"source": source, "message": self._gallery.content(pieces), "timestamp": at}))

    def _observe(self, output: ToolOutput, at: str | None) -> None:
        """Put a result to the call that it answers; one that nobody called for stands beside the last step."""
        waiting = (self._by_id.get(output.id) if output.id else self._by_name.get(output.name)) or []
        while waiting:
            draft, call = waiting.pop()
            if id(call) not in self._observed:
                self._observed.add(id(call))
                draft.results.append(self._result(output, draft, call))
                return
        if not self._drafts:
            self._say("user", (), at)
        self._drafts[-1].results.append(self._result(output, self._drafts[-1], None))

    def _result(self, output: ToolOutput, draft: _Draft, call: AtifToolCall | None) -> AtifResult:
        extra: dict[str, Any] = {"is_error": True} if output.failed else {}
        if call is None:
            extra |= {"tool_call_id": output.id} if output.id else {"tool": output.name}
        started = self._references.get(Starter(draft.call, output.id), ()) if draft.call is not None else ()
        return AtifResult(
            source_call_id=call.tool_call_id if call else None,
            content=self._gallery.content(output.pieces),
            subagent_trajectory_ref=[AtifSubagentRef(trajectory_id=each) for each in started] or None,
            extra=extra or None,
        )

    def _act(self, items: Sequence[Item], facts: Mapping[str, Any], call: int | None = None) -> None:
        """A step of the agent."""
        pieces: Pieces = tuple(piece for item in items for piece in _spoken(item))
        thoughts = [item.text for item in items if isinstance(item, Thought) and item.text]
        used = [item for item in items if isinstance(item, ToolUse)]
        tools = [_tool_call(item, f"call-{len(self._drafts) + 1}-{number}") for number, item in enumerate(used, 1)]
        said = {"message": self._gallery.content(pieces), "reasoning_content": "\n".join(thoughts) or None}
        draft = _Draft({"source": "agent", **said, **facts}, call, tools)
        self._drafts.append(draft)
        for tool in reversed(tools):  # a result belongs to the last step that waits for it, and there to the first call
            self._by_id[tool.tool_call_id].append((draft, tool))
            self._by_name[tool.function_name].append((draft, tool))

    def _facts(self, each: ThreadCall) -> dict[str, Any]:
        call = each.call
        extra: dict[str, Any] = {"call": call.index}
        if call.finish_reason:
            extra["finish_reason"] = call.finish_reason
        if not each.taken:
            extra["asked_again"] = True
        if call.error:
            extra["error"] = _failure(call)
        if self.failed:
            extra["failed_calls"], self.failed = self.failed, []
        return {
            "timestamp": _moment(_ended(call)),
            "model_name": call.upstream_model or call.model,
            "reasoning_effort": read_effort(each.request),
            "metrics": _metrics(call),
            "llm_call_count": 1,
            "extra": extra,
        }


def _step(number: int, draft: _Draft) -> AtifStep:
    observed = AtifObservation(results=draft.results) if draft.results else None
    return AtifStep(step_id=number, **draft.values, tool_calls=draft.tools or None, observation=observed)


def _spoken(item: Item) -> Iterator[Any]:
    if isinstance(item, Words):
        yield from item.pieces
    elif isinstance(item, Declined):
        yield item.text
    elif isinstance(item, Unread):
        yield as_text(item.value)


def _tool_call(use: ToolUse, made_up: str) -> AtifToolCall:
    arguments = parse_object(use.arguments) if isinstance(use.arguments, str) else use.arguments
    try:
        known = check_json_object(arguments) if isinstance(arguments, dict) else None
    except ValueError:  # nested too deeply, or a number that no JSON can hold
        known = None
    none = known is None and use.arguments not in ("", None)
    return AtifToolCall(
        tool_call_id=use.id or made_up,
        function_name=use.name,
        arguments=known or {},
        extra={"arguments_as_written": as_text(use.arguments)} if none else None,
    )


def _metrics(call: ModelCall) -> AtifMetrics | None:
    usage, tokens = call.usage, read_tokens(call.response or {})
    if usage is None and tokens is None and call.cost_usd is None:
        return None
    return AtifMetrics(
        prompt_tokens=usage.input_tokens if usage else None,
        completion_tokens=usage.output_tokens if usage else None,
        cached_tokens=usage.cached_tokens if usage else None,
        cost_usd=call.cost_usd,
        prompt_token_ids=list(tokens.prompt_ids) or None if tokens else None,
        completion_token_ids=list(tokens.completion_ids) or None if tokens else None,
        logprobs=list(tokens.logprobs) or None if tokens else None,
        extra={name: count for name in _MORE_TOKENS if (count := getattr(usage, name, 0))} or None,
    )


def _failure(call: ModelCall) -> dict[str, Any]:
    told: dict[str, Any] = {"call": call.index}
    if call.status is not None:
        told["status"] = call.status
    if call.error:
        told |= {"kind": call.error.kind, "message": call.error.message}
    return told


def _ended(call: ModelCall) -> dt.datetime | None:
    if call.started_at is None or call.duration_sec is None:
        return call.started_at
    try:
        return call.started_at + dt.timedelta(seconds=call.duration_sec)
    except OverflowError:
        return call.started_at


def _moment(when: dt.datetime | None) -> str | None:
    return None if when is None else when.isoformat(timespec="milliseconds").replace("+00:00", "Z")
