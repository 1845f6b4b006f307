"""Trajectories in ATIF: the threads of a trial as one document, the others as those of the main thread's sub-agents.

`make_trajectory` makes it of threads, `keep_trajectory` writes it beside what the agent printed when a trial ends.
"""

import base64
import binascii
import datetime as dt
import hashlib
import math
import mimetypes
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, get_args

from seatrial.gateway.calls import CALLS_FILE, read_calls
from seatrial.messages import (
    AnyItem,
    Message,
    Parts,
    Picture,
    Reasoning,
    Refusal,
    ToolCall,
    ToolResult,
    Unknown,
    as_text,
    is_model_side,
    is_system,
)
from seatrial.model.atif import (
    AtifAgent,
    AtifContent,
    AtifFinalMetrics,
    AtifImage,
    AtifMetrics,
    AtifObservation,
    AtifPart,
    AtifResult,
    AtifStep,
    AtifSubagentRef,
    AtifToolCall,
    AtifTrajectory,
    ImageType,
    atif_json,
)
from seatrial.model.base import check_json_object
from seatrial.model.record import AgentRef
from seatrial.model.trace import ModelCall
from seatrial.trajectories.paths import Starter
from seatrial.trajectories.reading import is_answered, read_effort, read_message, read_system, read_tools, tool_name
from seatrial.trajectories.threads import Thread, ThreadCall, find_threads
from seatrial.trajectories.tokens import read_tokens
from seatrial.untrusted.json import dump

# Pictures, as files beside the trajectory: each once, whoever shows it how often.

FOLDER = "images"
MOST_FILES = 10_000
"""Of one trajectory: a stranger may show half a million pictures of three bytes, each a file on the disk."""
_TYPES: tuple[ImageType, ...] = get_args(ImageType)
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)(?:;[\w=.-]+)*;base64,")
_SHOWN = 200


class Gallery:
    """Takes pictures and knows the files that they are to be, by their names below the trajectory's folder."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def content(self, parts: Parts) -> AtifContent:
        """What parts say: text, if there is nothing to look at among them."""
        if not any(isinstance(part, Picture) for part in parts):
            return "\n".join(str(part) for part in parts)
        return [self._part(part) for part in parts]

    def _part(self, part: str | Picture) -> AtifPart:
        if isinstance(part, str):
            return AtifPart(type="text", text=part)
        source = self._kept(part.url) if part.url.startswith("data:") else _linked(part)
        if source is None:
            return AtifPart(type="text", text=f"[an image that is not kept here: {part.url[:_SHOWN]}]")
        return AtifPart(type="image", source=source)

    def _kept(self, url: str) -> AtifImage | None:
        found = _DATA_URL.match(url)
        kind = next((each for each in _TYPES if found and each == found[1].lower()), None)
        if found is None or kind is None:
            return None
        try:
            content = base64.b64decode(url[found.end() :], validate=True)
        except (binascii.Error, ValueError):
            return None
        name = f"{FOLDER}/{hashlib.sha256(content).hexdigest()[:24]}.{kind.removeprefix('image/')}"
        if name not in self.files and len(self.files) == MOST_FILES:
            return None
        self.files[name] = content
        return AtifImage(media_type=kind, path=name)


def _linked(part: Picture) -> AtifImage | None:
    """A picture of the web. The format wants to know its type, which only its name can tell."""
    name = part.url.partition("?")[0].rpartition("/")[2]  # alone: of some whole addresses Python 3.13 says ValueError
    told = part.media_type or mimetypes.guess_type(name)[0]
    kind = next((each for each in _TYPES if each == told), None)
    return AtifImage(media_type=kind, path=part.url) if kind and "://" in part.url else None


# Steps of a thread: who said what, and what the tools that a step called gave back.

_MORE_TOKENS = ("reasoning_tokens", "cache_write_tokens")
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

    def _hear(self, items: Sequence[AnyItem], at: str | None) -> None:
        for item in items:
            if isinstance(item, ToolResult):
                self._observe(item, at)
            elif isinstance(item, Message):
                self._say("system" if is_system(item) else "user", item.parts, at)
            elif isinstance(item, Unknown):
                self._say("user", (as_text(item.value),), at)

    def _say(self, source: Literal["system", "user"], parts: Parts, at: str | None) -> None:
        self._drafts.append(_Draft({"source": source, "message": self._gallery.content(parts), "timestamp": at}))

    def _observe(self, output: ToolResult, at: str | None) -> None:
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

    def _result(self, output: ToolResult, draft: _Draft, call: AtifToolCall | None) -> AtifResult:
        extra: dict[str, Any] = {"is_error": True} if output.failed else {}
        if call is None:
            extra |= {"tool_call_id": output.id} if output.id else {"tool": output.name}
        started = self._references.get(Starter(draft.call, output.id), ()) if draft.call is not None else ()
        return AtifResult(
            source_call_id=call.tool_call_id if call else None,
            content=self._gallery.content(output.parts),
            subagent_trajectory_ref=[AtifSubagentRef(trajectory_id=each) for each in started] or None,
            extra=extra or None,
        )

    def _act(self, items: Sequence[AnyItem], facts: Mapping[str, Any], call: int | None = None) -> None:
        parts: Parts = tuple(part for item in items for part in _spoken(item))
        thoughts = [item.text for item in items if isinstance(item, Reasoning) and item.text]
        used = [item for item in items if isinstance(item, ToolCall)]
        tools = [_tool_call(item, f"call-{len(self._drafts) + 1}-{number}") for number, item in enumerate(used, 1)]
        said = {"message": self._gallery.content(parts), "reasoning_content": "\n".join(thoughts) or None}
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


def _spoken(item: AnyItem) -> Iterator[Any]:
    if isinstance(item, Message):
        yield from item.parts
    elif isinstance(item, Refusal):
        yield item.text
    elif isinstance(item, Unknown):
        yield as_text(item.value)


def _tool_call(use: ToolCall, made_up: str) -> AtifToolCall:
    arguments = use.table
    try:
        known = None if arguments is None else check_json_object(arguments)
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


# Documents.

_NOTES = "Made by Seatrial from its own record of the agent's model calls."
_MOST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class TrajectoryFiles:
    """A trajectory, and the files that it names by their paths from its folder."""

    trajectory: AtifTrajectory
    images: dict[str, bytes]


def make_trajectory(threads: Sequence[Thread], agent: AgentRef, session: str) -> TrajectoryFiles:
    """The trajectory of a trial, or of one of its steps, that has one thread at least."""
    gallery = Gallery()
    started: dict[Starter, list[str]] = defaultdict(list)
    for thread in threads:
        if thread.starter:
            started[thread.starter].append(thread.name)
    main, *others = (_Written(thread, agent, gallery, started) for thread in threads)
    cost = _sum_of([each.cost for each in (main, *others) if each.has_answers])
    beside = [each.trajectory(None, each.cost) for each in others]
    whole = main.trajectory(session, cost).model_copy(update={"subagent_trajectories": beside or None})
    return TrajectoryFiles(whole, gallery.files)


def session_of(trial_id: str, step: str | None) -> str:
    return f"{trial_id}/{step}" if step else trial_id


class _Written:
    """One thread with its steps."""

    def __init__(self, thread: Thread, agent: AgentRef, gallery: Gallery, references: References) -> None:
        writer = StepWriter(gallery, references)
        for each in thread.calls:
            writer.add(each)
        self._thread = thread
        self._agent = agent
        self._steps = writer.steps()
        self._failed = writer.failed
        self.cost = _sum_of([step.metrics.cost_usd for step in self._steps if step.metrics])

    @property
    def has_answers(self) -> bool:
        return any(step.llm_call_count for step in self._steps)

    def trajectory(self, session: str | None, cost: float | None) -> AtifTrajectory:
        return AtifTrajectory(
            session_id=session,
            trajectory_id=self._thread.name,
            agent=AtifAgent(
                name=self._agent.name,
                version=self._agent.version or "unknown",
                model_name=self._model(),
                tool_definitions=_tools(self._thread) or None,
            ),
            steps=self._steps,
            notes=_NOTES if session else None,
            final_metrics=AtifFinalMetrics(
                total_prompt_tokens=_count(self._steps, "prompt_tokens"),
                total_completion_tokens=_count(self._steps, "completion_tokens"),
                total_cached_tokens=_count(self._steps, "cached_tokens"),
                total_cost_usd=cost,
                total_steps=len(self._steps),
            ),
            extra=self._extra(),
        )

    def _model(self) -> str | None:
        calls = [each.call for each in self._thread.calls]
        return next((name for call in calls if (name := call.upstream_model or call.model)), self._agent.model)

    def _extra(self) -> dict[str, Any]:
        thread = self._thread
        extra: dict[str, Any] = {"kind": thread.kind, "calls": [each.call.index for each in thread.calls]}
        if thread.starter:
            extra["started_by"] = thread.starter._asdict()
        if thread.branches_from is not None:
            extra["branches_from_call"] = thread.branches_from
        if self._failed:
            extra["failed_calls"] = self._failed
        return extra


def _tools(thread: Thread) -> list[dict[str, Any]]:
    """Every tool that a thread was offered; of one that changed, the last definition."""
    found: dict[str, dict[str, Any]] = {}
    for each in thread.calls:
        found.update({tool_name(tool): tool for tool in read_tools(each.request)})
    return list(found.values())


def _count(steps: Iterable[AtifStep], name: str) -> int | None:
    total = _sum_of([value for step in steps if (value := getattr(step.metrics, name, None)) is not None])
    return None if total is None else min(int(total), _MOST)


def _sum_of(values: Sequence[float | None]) -> float | None:
    """The sum, where there is something to add up and all of it is known, in so far as a number can hold it."""
    known = [value for value in values if value is not None]
    total = sum(known)
    return total if known and len(known) == len(values) and math.isfinite(total) else None


# Files: `trajectory.json` beside what the agent printed, with its images in a folder.

TRAJECTORY_FILE = "trajectory.json"
MOST_BYTES = 64 * 2**20
"""Of calls from which a trajectory is made when a trial ends; from more, only when somebody asks for it."""

MOST_MESSAGES = 250_000
"""Of all threads together. Threads that begin alike each tell their beginning, which the calls have once."""


def read_threads(folder: Path) -> list[Thread]:
    """The threads of a trial, or of one of its steps; none without calls. Raises OSError, or ValueError."""
    path = folder / CALLS_FILE
    return find_threads(read_calls(path)) if path.is_file() else []


def keep_trajectory(folder: Path, agent: AgentRef, session: str) -> str | None:
    """Write the trajectory of the calls in `folder` below `agent/` there. Returns why there is none, if that is odd.

    Raises OSError, or ValueError for calls that cannot be read.
    """
    calls = folder / CALLS_FILE
    size = calls.stat().st_size if calls.is_file() else 0
    if size > MOST_BYTES:
        return f"{CALLS_FILE} has {size:,} bytes; `seatrial export` makes a trajectory of it"
    threads = read_threads(folder) if size else []
    if _is_too_much(threads):
        return f"its {len(threads):,} threads repeat too much; `seatrial export` makes a trajectory of it"
    if threads:
        write_trajectory(make_trajectory(threads, agent, session), folder / "agent" / TRAJECTORY_FILE)
    return None


def _is_too_much(threads: Sequence[Thread]) -> bool:
    count = size = 0
    for message in (message for thread in threads for each in thread.calls for message in each.new):
        count, size = count + 1, size + len(dump(message))
        if count > MOST_MESSAGES or size > 2 * MOST_BYTES:
            return True
    return False


def write_trajectory(made: TrajectoryFiles, path: Path) -> Sequence[Path]:
    """Write a trajectory and its images beside it; images are named by what is in them. Returns what was written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    images = {path.parent / name: content for name, content in made.images.items()}
    for image, content in images.items():
        image.parent.mkdir(exist_ok=True)
        image.write_bytes(content)
    path.write_bytes(atif_json(made.trajectory))
    return [*images, path]
