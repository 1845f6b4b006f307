"""verifiers' saved evaluations: a folder with `results.jsonl`, a rollout a line, and `metadata.json`.

The layouts of 0.1.9 (times in flat columns, errors as text) to 0.3.1 (times and errors as objects) are read alike.
First the folder, then one line as a trial, and its conversation as model calls.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from seatrial.integrations.foreign import (
    IMPORTED_PATH,
    ForeignAgent,
    ForeignTask,
    ForeignTrial,
    ForeignVerdict,
    Skipped,
    SourceFault,
    digest_of,
    numbered_lines,
    read_own_result,
    storable,
    storable_object,
)
from seatrial.model.outcome import format_reward
from seatrial.model.record import Failure, ImportedFrom, ModelUsage, Phase, PhaseTime, SourceFormat
from seatrial.model.trace import ModelCall
from seatrial.untrusted.json import count, items, mapping, moment, number, short_text

RESULTS, METADATA = "results.jsonl", "metadata.json"


class VerifiersResults:
    """The results in a folder; metadata.json may be missing, as it is after a run that was killed."""

    format: SourceFormat = "verifiers"
    rule = "verifiers counts every rollout, and one that failed as 0"

    def __init__(self, folder: Path) -> None:
        self._path = folder / RESULTS
        self._metadata, self._has_metadata = read_own_result(folder / METADATA), (folder / METADATA).exists()
        self.sha256 = digest_of(self._path)
        self._found: int | None = None
        self.agent = ForeignAgent("verifiers", self.version, short_text(self._metadata.get("model")))

    @property
    def version(self) -> str | None:
        return short_text(mapping(self._metadata.get("version_info")).get("vf_version"))

    @property
    def stored_means(self) -> Mapping[ForeignAgent, float]:
        mean = number(self._metadata.get("avg_reward"))
        return {} if mean is None else {self.agent: mean}

    @property
    def notes(self) -> Sequence[str]:
        """What metadata.json lacks, or counts otherwise than we do; complete once the trials were read."""
        if not self._has_metadata:
            return [f"there is no {METADATA}: model, environment and stored mean are not known"]
        found = []
        threshold = number(self._metadata.get("pass_threshold"))
        if self._metadata.get("pass_at_k") and threshold is not None:
            found.append(f"its pass@k counts a reward from {format_reward(threshold)} on as passed")
        examples, rollouts = (count(self._metadata.get(key)) for key in ("num_examples", "rollouts_per_example"))
        if examples and rollouts and self._found not in (None, examples * rollouts):
            found.append(f"{METADATA} speaks of {examples * rollouts:,} rollouts, and {RESULTS} has {self._found:,}")
        return found

    def trials(self) -> Iterator[ForeignTrial | Skipped]:
        rollouts = Rollouts(short_text(self._metadata.get("env_id")), self.agent, self.version, RESULTS, self.sha256)
        found = 0
        for at, line in numbered_lines(self._path, self.sha256):
            place = f"{RESULTS} line {at}"
            try:
                row = _row(line)
            except SourceFault as error:
                yield Skipped(place, str(error))
            else:
                found += 1
                yield storable(partial(rollouts.trial, row, at), place)
        self._found = found


def _row(line: bytes | None) -> dict[str, Any]:
    if line is None:
        raise SourceFault("is longer than any rollout")
    row = storable_object(line)
    if not is_rollout(row):
        raise SourceFault("is no rollout: expected `example_id` and `reward` or `error`")
    return row


# One line as a trial.

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
        model = self._agent.model
        failure = _failure(row.get("error"))
        stated = {key: row[key] for key in _STATED if row.get(key) is not None}
        if failure and number(row.get("reward")) is not None:
            stated["reward"] = row["reward"]
        return ForeignTrial(
            task=self._task(row),
            agent=self._agent,
            origin=ImportedFrom.model_validate({**self._origin, "line": line, "stated": stated or None}),
            counted_as=number(row.get("reward")) or 0.0,
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
    return str(example) if is_number else short_text(example)


def _failure(error: Any) -> Failure | None:
    """Why a rollout came to nothing: an object in newer versions, the text of an exception in older ones."""
    if not error:
        return None
    if isinstance(error, dict):
        cause, message = short_text(error.get("error")), short_text(error.get("message"))
        if message in (None, cause):  # the exception that was raised first says more
            message = short_text(error.get("error_chain_repr"))
    else:
        found = _ERROR.fullmatch(str(error))
        cause, message = (found[1], found[2].strip("'\"")) if found else (None, short_text(str(error)))
    # The source does not tell in which phase it failed; all that it tells of are those of the agent.
    return Failure(phase="agent", cause=cause or "Error", message=message or "the source gives no message")


def _verdict(row: dict[str, Any]) -> ForeignVerdict:
    score = number(row.get("reward"))
    fault = "" if score is not None else f"its reward is {row.get('reward')!r:.60}, expected a number"
    return ForeignVerdict(score, fault, parts=_metrics(row))


def _metrics(row: dict[str, Any]) -> dict[str, Any]:
    """What the reward functions gave. Older versions have them only among the columns of the row."""
    metrics = row.get("metrics")
    if not isinstance(metrics, dict):
        metrics = {key: value for key, value in row.items() if key not in _OWN}
    return {key: value for key, value in metrics.items() if number(value) is not None}


def _usage(row: dict[str, Any]) -> ModelUsage | None:
    told = mapping(row.get("token_usage"))
    tokens = [count(told.get(key)) for key in ("input_tokens", "output_tokens")]
    if tokens[0] is None or tokens[1] is None:
        return None
    return ModelUsage(calls=count_answers(row.get("completion")), input_tokens=tokens[0], output_tokens=tokens[1])


def _with_times(calls: list[ModelCall], row: dict[str, Any]) -> list[ModelCall]:
    """The calls with their times, where the row has as many as there are calls."""
    spans = items(mapping(mapping(row.get("timing")).get("model")).get("spans"))
    if len(spans) != len(calls):
        return calls
    return [call.model_copy(update=_span(mapping(span))) for call, span in zip(calls, spans, strict=True)]


def _span(span: dict[str, Any]) -> dict[str, Any]:
    begun, ended = moment(span.get("start")), moment(span.get("end"))
    if begun is None or ended is None or ended < begun:
        return {}
    return {"started_at": begun, "duration_sec": (ended - begun).total_seconds()}


def _times(row: dict[str, Any]) -> Iterator[PhaseTime]:
    """When each phase ran, where the row has more than durations."""
    timing = mapping(row.get("timing"))
    for name, phase in _PHASES.items():
        span = mapping(timing.get(name))
        begun, ended = moment(span.get("start")), moment(span.get("end"))
        if begun and ended and begun <= ended:
            yield PhaseTime(phase=phase, started_at=begun, finished_at=ended)


# A conversation as model calls: each answer was one, which had all before it.


def calls_of(prompt: Any, completion: Any, tools: Any, model: str | None) -> list[ModelCall]:
    """A call for each answer. `prompt` and `completion` are lists of chat messages, or texts."""
    asked, said = messages_of(prompt, "user"), messages_of(completion, "assistant")
    request = {"tools": [_tool(tool) for tool in tools]} if isinstance(tools, list) and tools else None
    answers = [at for at, message in enumerate(said) if message.get("role") == "assistant"]
    return [
        ModelCall(
            index=index,
            dialect="openai_chat",
            path=IMPORTED_PATH,
            model=model,
            messages=[*asked, *said[:at]],
            request=request,
            response={"choices": [{"index": 0, "message": said[at]}]},
        )
        for index, at in enumerate(answers)
    ]


def _tool(tool: Any) -> Any:
    """A definition in the form of the chat API; newer versions store what is in `function` alone."""
    if isinstance(tool, dict) and "function" not in tool and "name" in tool:
        return {"type": "function", "function": tool}
    return tool


def count_answers(completion: Any) -> int:
    return sum(message.get("role") == "assistant" for message in messages_of(completion, "assistant"))


def messages_of(value: Any, role: str) -> list[dict[str, Any]]:
    """Chat messages; a text is one of this role. What is no message is left out."""
    if isinstance(value, str):
        return [{"role": role, "content": value}] if value else []
    return [dict(_pruned(message)) for message in items(value) if isinstance(message, dict)]


def _pruned(message: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Without keys that say nothing: tables of some writers have every key in every message."""
    for key, value in message.items():
        if value is not None or key == "content":
            yield key, _calls(value) if key == "tool_calls" else value


def _calls(calls: Any) -> Any:
    """Tool calls in the form of the chat API; some versions store each as JSON text, some without `function`."""
    return [_call(call) for call in items(calls)]


def _call(call: Any) -> Any:
    if isinstance(call, str):
        try:
            call = orjson.loads(call)
        except orjson.JSONDecodeError:
            return call
    if isinstance(call, dict) and "function" not in call and "name" in call:
        function = {"name": call["name"], "arguments": call.get("arguments", "")}
        return {"id": call.get("id"), "type": "function", "function": function}
    return call
