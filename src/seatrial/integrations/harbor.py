"""Harbor's job folders: a folder per trial, each with a `result.json`, beside the job's own `result.json`.

First the folder, then one trial: what its `result.json` says, and its trajectory as the model calls that it shows.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from seatrial.errors import ImportSourceError
from seatrial.integrations.foreign import (
    IMPORTED_PATH,
    ForeignAgent,
    ForeignStep,
    ForeignTask,
    ForeignTrial,
    ForeignVerdict,
    Skipped,
    SourceFault,
    read_object,
    read_own_result,
    storable,
)
from seatrial.model.record import AgentResult, Failure, ImportedFrom, ModelUsage, Phase, PhaseTime, SourceFormat
from seatrial.model.trace import ModelCall, TokenUsage
from seatrial.untrusted.json import count, items, mapping, moment, number, short_text

_MOST_TRIALS = 1_000_000


class HarborResults:
    """The trials in a job's folder. A folder without a `result.json` is a trial that never ended, and is skipped."""

    format: SourceFormat = "harbor"
    rule = "Harbor counts a trial without a verdict as 0"
    version: str | None = None  # no file of a job names it

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._job = read_own_result(folder / RESULT)
        self._names = _trial_folders(folder)
        self._digests = {name: _digest(folder / name / RESULT, f"{name}/{RESULT}") for name in self._names}
        whole = "".join(f"{name}\0{digest}\n" for name, digest in self._digests.items())
        self.sha256 = hashlib.sha256(whole.encode("utf-8", "surrogateescape")).hexdigest()

    @cached_property
    def stored_means(self) -> Mapping[ForeignAgent, float]:
        """The mean of each agent, as far as its trials are of one dataset and have one reward each."""
        evals = mapping(mapping(self._job.get("stats")).get("evals"))
        found = {agent: keys for agent, keys in self._evals.items() if len(keys) == 1}
        means = {agent: _mean(evals.get(next(iter(keys)))) for agent, keys in found.items()}
        return {agent: mean for agent, mean in means.items() if mean is not None}

    @property
    def notes(self) -> Sequence[str]:
        """What the job's own result says that its trials do not."""
        total = count(self._job.get("n_total_trials"))
        if total is None or total <= len(self._names):
            return []
        return [f"the job was to have {total:,} trials, and there are folders of {len(self._names):,}"]

    def trials(self) -> Iterator[ForeignTrial | Skipped]:
        tasks: dict[str, str] = {}
        for name in self._names:
            result = self._result(name)
            if isinstance(result, Skipped):
                yield result
                continue
            found = storable(partial(trial_of, result, self._folder / name, self._digests[name]), place_of(name))
            yield found if isinstance(found, Skipped) else _told_apart(found, tasks)

    @cached_property
    def _evals(self) -> dict[ForeignAgent, set[str]]:
        """Under which keys the job's result has the trials of each agent."""
        found: dict[ForeignAgent, set[str]] = {}
        for name in self._names:
            result = self._result(name)
            if not isinstance(result, Skipped):
                found.setdefault(agent_of(result), set()).add(_key(result))
        return found

    def _result(self, name: str) -> dict[str, Any] | Skipped:
        place = place_of(name)
        path, expected = self._folder / name / RESULT, self._digests[name]
        if not path.exists():
            return Skipped(place, "is not there: the trial did not end")
        try:
            result, digest = read_object(path, place)
        except SourceFault as error:
            return Skipped(place, str(error).removeprefix(f"{place}: "))
        if digest != expected:
            raise ImportSourceError(f"{path}: was changed while it was read; wait until the job ends")
        if not is_trial(result):
            return Skipped(place, "is no result of a trial: expected `task_name` and `trial_name`")
        return result


def has_trials(folder: Path) -> bool:
    return any((folder / name / RESULT).is_file() for name in _trial_folders(folder))


def _trial_folders(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        found = sorted(each.name for each in entries if each.is_dir(follow_symlinks=False) and _is_trial(each.path))
    if len(found) > _MOST_TRIALS:
        raise ImportSourceError(f"{folder}: has {len(found):,} trials, expected {_MOST_TRIALS:,} at most")
    return found


def _is_trial(path: str) -> bool:
    return any(os.path.lexists(f"{path}/{name}") for name in (RESULT, "config.json"))


def _digest(path: Path, name: str) -> str:
    try:
        return read_object(path, name)[1]
    except SourceFault:
        return hashlib.sha256(b"").hexdigest()


def _told_apart(trial: ForeignTrial, tasks: dict[str, str]) -> ForeignTrial:
    """A trial whose task is another one than that of the same name before, if its content is: a task may be edited."""
    task = trial.task
    if tasks.setdefault(task.id, task.digest) == task.digest:
        return trial
    return replace(trial, task=replace(task, id=f"{task.id}-{task.digest[:8]}"))


def _key(result: dict[str, Any]) -> str:
    info = mapping(result.get("agent_info"))
    model = mapping(info.get("model_info")).get("name")
    parts = [info.get("name"), model, result.get("source") or "adhoc"]
    return "__".join(str(part) for part in parts if part)


def _mean(stats: Any) -> float | None:
    for metric in items(mapping(stats).get("metrics")):
        for name in ("mean", "reward"):
            if (mean := number(mapping(metric).get(name))) is not None:
                return mean
    return None


# One trial. An exception without a verdict is a failure of the machinery, unless the verifier gave none.

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
"""What happens to agents and verifiers rather than to machines: such a trial ran, and was not judged."""

_DIGEST = re.compile(r"[0-9a-f]{64}")
RESULT = "result.json"
_TRAJECTORY = "agent/trajectory.json"


def place_of(folder: str) -> str:
    """Where the result of a trial lies in its job, as text; the name of its folder may have any bytes."""
    return f"{os.fsencode(folder).decode('utf-8', 'replace')}/{RESULT}"


def is_trial(result: dict[str, Any]) -> bool:
    return short_text(result.get("task_name")) is not None and short_text(result.get("trial_name")) is not None


def agent_of(result: dict[str, Any]) -> ForeignAgent:
    """Who acted, with its model as it is named to Harbor."""
    info = mapping(result.get("agent_info"))
    told = mapping(info.get("model_info"))
    model = short_text(told.get("name"))
    provider = short_text(told.get("provider"))
    return ForeignAgent(
        short_text(info.get("name")) or "unknown",
        short_text(info.get("version")),
        f"{provider}/{model}" if provider and model else model,
    )


def trial_of(result: dict[str, Any], folder: Path, sha256: str) -> ForeignTrial:
    verdict, failure = _ending(result)
    calls = _calls(folder, agent_of(result).model)
    stated = {key: result[key] for key in ("id", "started_at", "finished_at") if short_text(result.get(key))}
    return ForeignTrial(
        task=_task(result),
        agent=agent_of(result),
        origin=ImportedFrom(format="harbor", file=place_of(folder.name), sha256=sha256, stated=stated or None),
        counted_as=_counted_as(result),
        verdict=verdict,
        failure=failure,
        agent_result=_agent_result(result),
        usage=_trial_usage(result, calls),
        times=tuple(_times(result)),
        steps=tuple(_steps(result)),
        calls=calls,
    )


def _task(result: dict[str, Any]) -> ForeignTask:
    name, source = short_text(result.get("task_name")) or "", short_text(result.get("source"))
    checksum = short_text(result.get("task_checksum")) or ""
    # Harbor's own digest where it is one; it is not ours of the same folder, which is over other files.
    digest = checksum if _DIGEST.fullmatch(checksum) else hashlib.sha256(f"{name}\0{checksum}".encode()).hexdigest()
    return ForeignTask(name, name, digest, source)


def _ending(result: dict[str, Any]) -> tuple[ForeignVerdict | None, Failure | None]:
    rewards = mapping(result.get("verifier_result")).get("rewards")
    exception = mapping(result.get("exception_info"))
    kind = short_text(exception.get("exception_type"))
    message = short_text(exception.get("exception_message")) or "the source gives no message"
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
    numbers = {key: found for key, value in rewards.items() if (found := number(value)) is not None}
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
    rewards = mapping(mapping(result.get("verifier_result")).get("rewards"))
    if len(rewards) > 1:
        return number(rewards.get("reward"))
    return number(next(iter(rewards.values()), 0.0))


def _last_phase(result: dict[str, Any]) -> Phase:
    begun = [phase for key, phase in _TIMES.items() if mapping(result.get(key)).get("started_at")]
    return begun[-1] if begun else "setup"


def _times(result: dict[str, Any]) -> Iterator[PhaseTime]:
    """When each phase ran. Older versions wrote local times without their offset, which say nothing."""
    for key, phase in _TIMES.items():
        told = mapping(result.get(key))
        begun, ended = moment(told.get("started_at")), moment(told.get("finished_at"))
        if begun and ended and begun <= ended:
            yield PhaseTime(phase=phase, started_at=begun, finished_at=ended)


def _agent_result(result: dict[str, Any]) -> AgentResult | None:
    """How the agent ended, where that is known: Harbor only tells of one that was out of time."""
    kind = mapping(result.get("exception_info")).get("exception_type")
    worked = [time for time in _times(result) if time.phase == "agent"]
    if kind != "AgentTimeoutError" or not worked:
        return None
    return AgentResult(status="timed_out", duration_sec=(worked[0].finished_at - worked[0].started_at).total_seconds())


def _trial_usage(result: dict[str, Any], calls: list[ModelCall]) -> ModelUsage | None:
    told = [mapping(result.get("agent_result"))]
    if not told[0]:
        told = [mapping(mapping(step).get("agent_result")) for step in items(result.get("step_results"))]
    tokens = {key: _sum(told, key) for key in ("n_input_tokens", "n_cache_tokens", "n_output_tokens")}
    if tokens["n_input_tokens"] is None and tokens["n_output_tokens"] is None:
        return None
    costs = [cost for each in told if (cost := number(each.get("cost_usd"))) is not None and cost >= 0]
    return ModelUsage(
        calls=len(calls) or None,
        input_tokens=tokens["n_input_tokens"] or 0,
        cached_tokens=tokens["n_cache_tokens"] or 0,
        output_tokens=tokens["n_output_tokens"] or 0,
        cost_usd=sum(costs) if costs else None,
        prices="Harbor" if costs else None,
    )


def _sum(tables: list[dict[str, Any]], key: str) -> int | None:
    counts = [found for table in tables if (found := count(table.get(key))) is not None]
    return sum(counts) if counts else None


def _steps(result: dict[str, Any]) -> Iterator[ForeignStep]:
    for at, step in enumerate(map(mapping, items(result.get("step_results"))), 1):
        rewards = mapping(mapping(step.get("verifier_result")).get("rewards"))
        yield ForeignStep(short_text(step.get("step_name")) or f"step {at}", _verdict(rewards) if rewards else None)


def _calls(folder: Path, model: str | None) -> list[ModelCall]:
    if not (folder / _TRAJECTORY).is_file():
        return []
    try:
        return calls_of_trajectory(read_object(folder / _TRAJECTORY, _TRAJECTORY)[0], model)
    except SourceFault:
        return []  # the verdict stands without it


# A trajectory in Harbor's format as model calls: each step of the agent was one.


def calls_of_trajectory(trajectory: dict[str, Any], model: str | None) -> list[ModelCall]:
    """The calls of a trajectory's own thread; those of sub-agents are left out. Empty if it is no trajectory."""
    model = short_text(mapping(trajectory.get("agent")).get("model_name")) or model
    told: list[dict[str, Any]] = []
    calls: list[ModelCall] = []
    for step in map(mapping, items(trajectory.get("steps"))):
        said = _message(step)
        if step.get("source") == "agent" and step.get("llm_call_count") != 0:
            calls.append(_call(len(calls), step, list(told), model))
        told += [said, *_observations(step)]
    return calls


def _call(index: int, step: dict[str, Any], told: list[dict[str, Any]], model: str | None) -> ModelCall:
    return ModelCall(
        index=index,
        dialect="openai_chat",
        path=IMPORTED_PATH,
        model=short_text(step.get("model_name")) or model,
        messages=told,
        response={"choices": [{"index": 0, "message": _message(step)}]},
        usage=_usage(mapping(step.get("metrics"))),
    )


def _message(step: dict[str, Any]) -> dict[str, Any]:
    source = step.get("source")
    role = {"agent": "assistant", "system": "system"}.get(source if isinstance(source, str) else "", "user")
    message: dict[str, Any] = {"role": role, "content": _content(step.get("message"))}
    if isinstance(reasoning := step.get("reasoning_content"), str):
        message["reasoning_content"] = reasoning
    if calls := [_tool_call(call) for call in map(mapping, items(step.get("tool_calls")))]:
        message["tool_calls"] = calls
    return message


def _tool_call(call: dict[str, Any]) -> dict[str, Any]:
    function = {"name": call.get("function_name"), "arguments": json.dumps(call.get("arguments"), ensure_ascii=False)}
    return {"id": call.get("tool_call_id"), "type": "function", "function": function}


def _observations(step: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for result in map(mapping, items(mapping(step.get("observation")).get("results"))):
        content = _content(result.get("content"))
        if called := short_text(result.get("source_call_id")):
            yield {"role": "tool", "tool_call_id": called, "content": content}
        else:
            yield {"role": "user", "content": content}


def _content(value: Any) -> Any:
    """A text; of a list of parts the texts, and a word for each part that is none: its file was not imported."""
    if not isinstance(value, list):
        return value if isinstance(value, str) else ""
    return "\n".join(_part(mapping(part)) for part in value)


def _part(part: dict[str, Any]) -> str:
    text = part.get("text")
    return text if isinstance(text, str) else f"[{short_text(part.get('type')) or 'part'}]"


def _usage(metrics: dict[str, Any]) -> TokenUsage | None:
    asked, said = count(metrics.get("prompt_tokens")), count(metrics.get("completion_tokens"))
    if asked is None and said is None:
        return None
    cached = count(metrics.get("cached_tokens"))
    return TokenUsage(input_tokens=asked or 0, cached_tokens=cached or 0, output_tokens=said or 0)
