"""One trial of Harbor's: what its `result.json` says, and the trajectory and log of the verifier beside it.

An exception without a verdict is a failure of the machinery, unless the verifier had its say and gave none.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from seatrial.integrations.atif_calls import calls_of_trajectory
from seatrial.integrations.foreign import ForeignAgent, ForeignStep, ForeignTask, ForeignTrial, ForeignVerdict
from seatrial.integrations.reading import SourceFault, read_object
from seatrial.integrations.values import count_of, list_of, moment_of, number_of, table_of, text_of
from seatrial.model.agent import AgentResult
from seatrial.model.imported import ImportedFrom
from seatrial.model.record import Failure, ModelUsage, Phase, PhaseTime
from seatrial.model.trace import ModelCall

_TIMES: dict[str, Phase] = {
    "environment_setup": "setup",
    "agent_setup": "setup",
    "agent_execution": "agent",
    "verifier": "verify",
}
_NO_VERDICT = frozenset(
    {
        *("AgentTimeoutError", "VerifierTimeoutError", "VerifierOutputParseError"),
        *("RewardFileNotFoundError", "RewardFileEmptyError"),
    }
)
"""What happens to agents and verifiers rather than to machines: such a trial ran, and nobody judged it."""

_DIGEST = re.compile(r"[0-9a-f]{64}")
RESULT = "result.json"
_TRAJECTORY = "agent/trajectory.json"


def place_of(folder: str) -> str:
    """Where the result of a trial lies in its job, as text; the name of its folder may have any bytes."""
    return f"{os.fsencode(folder).decode('utf-8', 'replace')}/{RESULT}"


def is_trial(result: dict[str, Any]) -> bool:
    """Whether an object is the result of a trial."""
    return text_of(result.get("task_name")) is not None and text_of(result.get("trial_name")) is not None


def agent_of(result: dict[str, Any]) -> ForeignAgent:
    """Who acted, with its model as it is named to Harbor."""
    info = table_of(result.get("agent_info"))
    told = table_of(info.get("model_info"))
    model = text_of(told.get("name"))
    provider = text_of(told.get("provider"))
    return ForeignAgent(
        text_of(info.get("name")) or "unknown",
        text_of(info.get("version")),
        f"{provider}/{model}" if provider and model else model,
    )


def trial_of(result: dict[str, Any], folder: Path, sha256: str) -> ForeignTrial:
    """The trial in a folder."""
    verdict, failure = _ending(result)
    calls = _calls(folder, agent_of(result).model)
    stated = {key: result[key] for key in ("id", "started_at", "finished_at") if text_of(result.get(key))}
    return ForeignTrial(
        task=_task(result),
        agent=agent_of(result),
        origin=ImportedFrom(format="harbor", file=place_of(folder.name), sha256=sha256, stated=stated or None),
        counted_as=_counted_as(result),
        verdict=verdict,
        failure=failure,
        agent_result=_agent_result(result),
        usage=_usage(result, calls),
        times=tuple(_times(result)),
        steps=tuple(_steps(result)),
        calls=calls,
    )


def _task(result: dict[str, Any]) -> ForeignTask:
    name, source = text_of(result.get("task_name")) or "", text_of(result.get("source"))
    checksum = text_of(result.get("task_checksum")) or ""
    # Harbor's own digest where it is one; it is not ours of the same folder, which is over other files.
    digest = checksum if _DIGEST.fullmatch(checksum) else hashlib.sha256(f"{name}\0{checksum}".encode()).hexdigest()
    return ForeignTask(name, name, digest, source)


def _ending(result: dict[str, Any]) -> tuple[ForeignVerdict | None, Failure | None]:
    rewards = table_of(result.get("verifier_result")).get("rewards")
    exception = table_of(result.get("exception_info"))
    kind = text_of(exception.get("exception_type"))
    message = text_of(exception.get("exception_message")) or "the source gives no message"
    if isinstance(rewards, dict) and rewards:
        noted = (f"{kind}: {message}",) if kind else ()
        return _verdict(rewards, noted), None
    if kind is None:
        return ForeignVerdict(None, "the source has neither a verdict nor an exception"), None
    if kind in _NO_VERDICT:
        return ForeignVerdict(None, f"{kind}: {message}"), None
    cancelled = kind == "CancelledError"
    failure = Failure(
        kind="cancelled" if cancelled else "infrastructure", phase=_last_phase(result), cause=kind, message=message
    )
    return None, failure


def _verdict(rewards: dict[str, Any], notes: tuple[str, ...] = ()) -> ForeignVerdict:
    """The key `reward`, or the only number, or the mean of all: as a verifier's reward.json is read here."""
    numbers = {key: number for key, value in rewards.items() if (number := number_of(value)) is not None}
    if "reward" in rewards:
        score, others = numbers.get("reward"), {key: value for key, value in rewards.items() if key != "reward"}
        return _judged(score, notes, others)
    if not numbers:
        return ForeignVerdict(None, "no reward of its verifier is a number", notes, rewards)
    if len(numbers) > 1:
        notes = (*notes, f"the mean of {', '.join(sorted(numbers))} counts")
    return _judged(sum(numbers.values()) / len(numbers), notes, rewards if len(rewards) > 1 else {})


def _judged(score: float | None, notes: tuple[str, ...], parts: dict[str, Any]) -> ForeignVerdict:
    if score is None:
        return ForeignVerdict(None, "its reward is no number", notes, parts)
    if score == -1:
        return ForeignVerdict(None, "its reward is -1: the verifier could not judge", notes, parts)
    return ForeignVerdict(score, notes=notes, parts=parts)


def _counted_as(result: dict[str, Any]) -> float | None:
    """What Harbor's mean takes the trial for; there is none over trials with several rewards."""
    rewards = table_of(table_of(result.get("verifier_result")).get("rewards"))
    if len(rewards) > 1:
        return number_of(rewards.get("reward"))
    return number_of(next(iter(rewards.values()), 0.0))


def _last_phase(result: dict[str, Any]) -> Phase:
    """The phase that had begun last."""
    begun = [phase for key, phase in _TIMES.items() if table_of(result.get(key)).get("started_at")]
    return begun[-1] if begun else "setup"


def _times(result: dict[str, Any]) -> Iterator[PhaseTime]:
    """When each phase ran. Older versions wrote local times without their offset, which say nothing."""
    for key, phase in _TIMES.items():
        told = table_of(result.get(key))
        begun, ended = moment_of(told.get("started_at")), moment_of(told.get("finished_at"))
        if begun and ended and begun <= ended:
            yield PhaseTime(phase=phase, started_at=begun, finished_at=ended)


def _agent_result(result: dict[str, Any]) -> AgentResult | None:
    """How the agent ended, where that is known: Harbor only tells of one that was out of time."""
    kind = table_of(result.get("exception_info")).get("exception_type")
    worked = [time for time in _times(result) if time.phase == "agent"]
    if kind != "AgentTimeoutError" or not worked:
        return None
    return AgentResult(status="timed_out", duration_sec=(worked[0].finished_at - worked[0].started_at).total_seconds())


def _usage(result: dict[str, Any], calls: list[ModelCall]) -> ModelUsage | None:
    told = [table_of(result.get("agent_result"))]
    if not told[0]:
        told = [table_of(table_of(step).get("agent_result")) for step in list_of(result.get("step_results"))]
    tokens = {key: _sum(told, key) for key in ("n_input_tokens", "n_cache_tokens", "n_output_tokens")}
    if tokens["n_input_tokens"] is None and tokens["n_output_tokens"] is None:
        return None
    costs = [cost for each in told if (cost := number_of(each.get("cost_usd"))) is not None and cost >= 0]
    return ModelUsage(
        calls=len(calls) or None,
        input_tokens=tokens["n_input_tokens"] or 0,
        cached_tokens=tokens["n_cache_tokens"] or 0,
        output_tokens=tokens["n_output_tokens"] or 0,
        cost_usd=sum(costs) if costs else None,
        prices="Harbor" if costs else None,
    )


def _sum(tables: list[dict[str, Any]], key: str) -> int | None:
    counts = [count for table in tables if (count := count_of(table.get(key))) is not None]
    return sum(counts) if counts else None


def _steps(result: dict[str, Any]) -> Iterator[ForeignStep]:
    for number, step in enumerate(map(table_of, list_of(result.get("step_results"))), 1):
        rewards = table_of(table_of(step.get("verifier_result")).get("rewards"))
        yield ForeignStep(text_of(step.get("step_name")) or f"step {number}", _verdict(rewards) if rewards else None)


def _calls(folder: Path, model: str | None) -> list[ModelCall]:
    if not (folder / _TRAJECTORY).is_file():
        return []
    try:
        return calls_of_trajectory(read_object(folder / _TRAJECTORY, _TRAJECTORY)[0], model)
    except SourceFault:
        return []  # the verdict stands without it
