"""The threads of a trial as one trajectory: the main thread, with the others as those of its sub-agents."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from seatrial.model.atif import AtifAgent, AtifFinalMetrics, AtifStep, AtifTrajectory
from seatrial.model.record import AgentRef
from seatrial.trajectories.asked import read_tools, tool_name
from seatrial.trajectories.links import Starter
from seatrial.trajectories.pictures import Gallery
from seatrial.trajectories.steps import References, StepWriter
from seatrial.trajectories.threads import Thread

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
    """What a trajectory calls the run that it is of."""
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
