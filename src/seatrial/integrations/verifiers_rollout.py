"""One line of verifiers' results.jsonl as a trial: who was asked what, what came of it, and which columns say so."""

import hashlib
import re
from collections.abc import Iterator
from typing import Any

import orjson

from seatrial.integrations.foreign import ForeignAgent, ForeignTask, ForeignTrial, ForeignVerdict
from seatrial.integrations.messages import calls_of, count_answers, messages_of
from seatrial.integrations.values import count_of, list_of, moment_of, number_of, table_of, text_of
from seatrial.model.imported import ImportedFrom
from seatrial.model.record import Failure, ModelUsage, Phase, PhaseTime
from seatrial.model.trace import ModelCall

_PHASES: dict[str, Phase] = {"setup": "setup", "generation": "agent", "scoring": "score"}
_ERROR = re.compile(r"\s*([A-Za-z_][\w.]*)\((.*)\)\s*", re.DOTALL)
_STATED = ("stop_condition", "is_completed", "is_truncated", "generation_ms", "scoring_ms", "total_ms", "example_id")
_OWN = frozenset(
    {
        *("example_id", "prompt", "completion", "answer", "info", "task", "reward", "error", "timing", "is_completed"),
        *("is_truncated", "stop_condition", "metrics", "token_usage", "tool_defs", "error_chain", "long_error_chain"),
        *("generation_ms", "scoring_ms", "total_ms", "trajectory"),
    }
)


def is_rollout(row: dict[str, Any]) -> bool:
    """Whether an object has what every rollout has, in every version."""
    return _example(row) is not None and ("reward" in row or "error" in row)


class Rollouts:
    """Makes trials of rows. Rows of one example are attempts at one task, if they were asked the same."""

    def __init__(self, env_id: str | None, agent: ForeignAgent, version: str | None, file: str, sha256: str) -> None:
        self._env_id = env_id or "verifiers"
        self._agent = agent
        self._origin = {"format": "verifiers", "version": version, "file": file, "sha256": sha256}
        self._digests: dict[str, str] = {}

    def trial(self, row: dict[str, Any], line: int) -> ForeignTrial:
        """The trial of a row."""
        model = self._agent.model
        failure = _failure(row.get("error"))
        stated = {key: row[key] for key in _STATED if row.get(key) is not None}
        if failure and number_of(row.get("reward")) is not None:
            stated["reward"] = row["reward"]
        return ForeignTrial(
            task=self._task(row),
            agent=self._agent,
            origin=ImportedFrom.model_validate({**self._origin, "line": line, "stated": stated or None}),
            counted_as=number_of(row.get("reward")) or 0.0,
            verdict=None if failure else _verdict(row),
            failure=failure,
            usage=_usage(row),
            times=tuple(_times(row)),
            calls=_with_times(calls_of(row.get("prompt"), row.get("completion"), row.get("tool_defs"), model), row),
        )

    def _task(self, row: dict[str, Any]) -> ForeignTask:
        example = _example(row) or ""
        # What is empty is left out by some versions, and the same examples are to be the same tasks for all of them.
        asked = [self._env_id, messages_of(row.get("prompt"), "user"), row.get("answer") or "", row.get("info") or {}]
        digest = hashlib.sha256(orjson.dumps(asked, option=orjson.OPT_SORT_KEYS)).hexdigest()
        if self._digests.setdefault(example, digest) != digest:
            example = f"{example}-{digest[:8]}"
        name = self._env_id.rpartition("/")[2]
        return ForeignTask(f"{name}-{example}", f"{self._env_id} example {example}", digest, self._env_id)


def _example(row: dict[str, Any]) -> str | None:
    """The name of an example; a number or, in datasets of some, a text."""
    example = row.get("example_id")
    if isinstance(example, float) and example.is_integer():
        example = int(example)
    is_number = isinstance(example, int) and not isinstance(example, bool)
    return str(example) if is_number else text_of(example)


def _failure(error: Any) -> Failure | None:
    """Why a rollout came to nothing: an object in newer versions, the text of an exception in older ones."""
    if not error:
        return None
    if isinstance(error, dict):
        cause, message = text_of(error.get("error")), text_of(error.get("message"))
        if message in (None, cause):  # the exception that was raised first says more
            message = text_of(error.get("error_chain_repr"))
    else:
        found = _ERROR.fullmatch(str(error))
        cause, message = (found[1], found[2].strip("'\"")) if found else (None, text_of(str(error)))
    # The source does not tell in which phase it failed; all that it tells of are those of the agent.
    return Failure(phase="agent", cause=cause or "Error", message=message or "the source gives no message")


def _verdict(row: dict[str, Any]) -> ForeignVerdict:
    score = number_of(row.get("reward"))
    fault = "" if score is not None else f"its reward is {row.get('reward')!r:.60}, expected a number"
    return ForeignVerdict(score, fault, parts=_metrics(row))


def _metrics(row: dict[str, Any]) -> dict[str, Any]:
    """What the reward functions gave. Older versions have them only among the columns of the row."""
    metrics = row.get("metrics")
    if not isinstance(metrics, dict):
        metrics = {key: value for key, value in row.items() if key not in _OWN}
    return {key: value for key, value in metrics.items() if number_of(value) is not None}


def _usage(row: dict[str, Any]) -> ModelUsage | None:
    told = table_of(row.get("token_usage"))
    tokens = [count_of(told.get(key)) for key in ("input_tokens", "output_tokens")]
    if tokens[0] is None or tokens[1] is None:
        return None
    return ModelUsage(calls=count_answers(row.get("completion")), input_tokens=tokens[0], output_tokens=tokens[1])


def _with_times(calls: list[ModelCall], row: dict[str, Any]) -> list[ModelCall]:
    """The calls with their times, where the row has as many as there are calls."""
    spans = list_of(table_of(table_of(row.get("timing")).get("model")).get("spans"))
    if len(spans) != len(calls):
        return calls
    return [call.model_copy(update=_span(table_of(span))) for call, span in zip(calls, spans, strict=True)]


def _span(span: dict[str, Any]) -> dict[str, Any]:
    begun, ended = moment_of(span.get("start")), moment_of(span.get("end"))
    if begun is None or ended is None or ended < begun:
        return {}
    return {"started_at": begun, "duration_sec": (ended - begun).total_seconds()}


def _times(row: dict[str, Any]) -> Iterator[PhaseTime]:
    """When each phase ran, where the row has more than durations."""
    timing = table_of(row.get("timing"))
    for name, phase in _PHASES.items():
        span = table_of(timing.get(name))
        begun, ended = moment_of(span.get("start")), moment_of(span.get("end"))
        if begun and ended and begun <= ended:
            yield PhaseTime(phase=phase, started_at=begun, finished_at=ended)
