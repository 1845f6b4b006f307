"""What comes out of an evaluation: an output for each rollout, and what they amount to together."""

import datetime as dt
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypedDict

from seatrial.env.state import State, rollout_of
from seatrial.errors import HookError, ModelError, OverlongPromptError, ToolError, TrialError
from seatrial.model.record import SCORED_OUTCOMES
from seatrial.stats.estimates import estimate_mean

if TYPE_CHECKING:
    from seatrial.env.running import RunPlan

Output = dict[str, Any]
"""One rollout, as the keys of `make_output` say."""

_COLUMNS = (
    *("example_id", "task", "prompt", "completion", "answer", "info", "metrics", "trajectory", "trajectory_id"),
    *("stop_condition", "is_completed", "is_truncated", "timing", "usage", "cleanup_errors", "reward_errors"),
)


_OF_AGENTS = ("agent_exit_code", "agent_timed_out")
_MAX_STDERR = 2000

NEEDED = frozenset({*_COLUMNS, "reward", "error", "evaluation"})
"""The keys of a state that an output is made from."""

_KINDS: Mapping[str, type | tuple[type, ...]] = {
    "hook": HookError,
    "model": (ModelError, OverlongPromptError),
    "tool": ToolError,
    "infrastructure": TrialError,
}


class Results(TypedDict):
    """All outputs in the order of their rows, and what they amount to."""

    outputs: list[Output]
    metadata: dict[str, Any]


def make_output(state: State, columns: Sequence[str] = ()) -> Output:
    """What is kept of a rollout; `reward` is None when it was not scored, and `error` then says why.

    `outcome` is that of a rollout that is a trial, as `seatrial show` has it. How an agent ended is there where there
    was one, with the end of what it wrote to stderr.
    """
    error = state["error"]
    record = rollout_of(state).record
    evaluation = state["evaluation"] or (record.evaluation if record else None)
    return {
        **{name: state[name] for name in _COLUMNS},
        **_agent_columns(state),
        **{name: state.get(name) for name in columns},
        "reward": None if error is not None else state["reward"],
        "error": None if error is None else describe(error),
        "evaluation": evaluation,
        "outcome": record.outcome if record else None,
        "verifier_broken": bool(record and record.has_broken_verifier),
    }


def _agent_columns(state: State) -> dict[str, Any]:
    ended = {name: state[name] for name in _OF_AGENTS if name in state}
    return {**ended, "agent_stderr": (state.get("agent_stderr") or "")[-_MAX_STDERR:]} if ended else {}


def describe(error: BaseException) -> dict[str, Any]:
    """An error as a table: its type, message and kind, and whether another attempt may end otherwise."""
    return {
        "error": type(error).__name__,
        "message": str(error),
        "kind": _kind(error),
        "retryable": isinstance(error, TrialError) and error.retryable,
    }


def _kind(error: BaseException) -> str:
    return next((name for name, kinds in _KINDS.items() if isinstance(error, kinds)), "usage")


def summarize(outputs: Sequence[Output], plan: "RunPlan", env_id: str, started: float) -> dict[str, Any]:
    """The mean of the rewards that count, how sure one may be of it, and how many do not."""
    counted = _counted(outputs)
    rewards = [output["reward"] for output in counted]
    groups = Counter(output["example_id"] for output in outputs)
    average = fmean(rewards) if rewards else None
    return {
        "env_id": env_id,
        "model": plan.model,
        "sampling_args": dict(plan.sampling_args),
        "date": dt.datetime.fromtimestamp(started, dt.UTC).isoformat(),
        "time_ms": (time.time() - started) * 1000,
        "num_examples": len(groups),
        "rollouts_per_example": max(groups.values(), default=0),
        "planned": len(plan.rows),
        "scored": len(rewards),
        "unscored": len(outputs) - len(rewards),
        "invalid": sum(output.get("outcome") == "verifier_error" for output in outputs),
        "errors": sum(output["error"] is not None for output in outputs),
        "errors_by_kind": dict(Counter(output["error"]["kind"] for output in outputs if output["error"])),
        "avg_reward": average,
        "avg_reward_interval": _interval(counted, average),
        "avg_metrics": _averages(outputs),
        "usage": _total_usage(outputs),
    }


def _counted(outputs: Sequence[Output]) -> list[Output]:
    """Those that were judged, as `seatrial show` counts them: neither a machine that failed nor a verifier without a
    verdict says anything about an agent, and one that has none on anything untouched has none for anybody.
    """
    broken = {output["task"] for output in outputs if output.get("verifier_broken")}
    judged = [
        output
        for output in outputs
        if output.get("outcome") in (None, *SCORED_OUTCOMES) and output["task"] not in broken
    ]
    return [output for output in judged if output["reward"] is not None]


def _interval(counted: Sequence[Output], average: float | None) -> tuple[float, float] | None:
    """Rollouts of one example are alike, so what counts as independent is the examples."""
    examples: dict[Any, list[float]] = {}
    for output in counted:
        examples.setdefault(output["example_id"], []).append(output["reward"])
    if average is None or not all(0.0 <= reward <= 1.0 for rewards in examples.values() for reward in rewards):
        return None
    found = estimate_mean([*examples.values()])
    return (min(found.low, average), max(found.high, average)) if found else None


def _averages(outputs: Sequence[Output]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for output in outputs:
        for name, value in _numbers(output["metrics"]).items():
            found.setdefault(name, []).append(value)
    return {name: fmean(values) for name, values in found.items()}


def _total_usage(outputs: Sequence[Output]) -> dict[str, float]:
    total: Counter[str] = Counter()
    for output in outputs:
        total.update(_numbers(output["usage"]))
    return dict(total)


def _numbers(table: object) -> dict[str, Any]:
    """What is a number in a table, which hooks may have written what they like to."""
    items = table.items() if isinstance(table, Mapping) else ()
    return {name: value for name, value in items if isinstance(value, int | float)}
