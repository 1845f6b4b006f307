"""An output as JSON and back, so that a stored rollout is as good as one that has just been run.

The prompts of a rollout's turns have most of their messages in common, and so they have in the file: a turn says how
many messages of which conversation it was asked with. Which files hold outputs is `saving`'s and `trials`' concern.
"""

import json
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seatrial.env.messages import Prefix, Response, ResponseTokens, chat_message
from seatrial.env.results import Output
from seatrial.env.rollout import TrajectoryStep
from seatrial.model.evaluation import EvaluationResult
from seatrial.model.trace import TokenUsage
from seatrial.store.files import create_file, storing
from seatrial.untrusted.files import read_file

ROLLOUT_FILE = "rollout.json"
_MAX_ROLLOUT_BYTES = 2**31


def read_output(folder: Path) -> Output:
    """The output in a trial's folder. Raises OSError, ValueError, KeyError or TypeError for one that is damaged."""
    return load_output(read_file(folder / ROLLOUT_FILE, _MAX_ROLLOUT_BYTES))


def write_output(folder: Path, line: bytes) -> None:
    """Put the line of an output into a trial's folder. Raises StoreError."""
    with storing(folder):
        create_file(f"{folder}/{ROLLOUT_FILE}", line)


def dump_output(output: Output) -> bytes:
    """One line of JSON. What JSON has no form for is written as text: it is no reason to lose the rest."""
    steps: Sequence[TrajectoryStep] = output["trajectory"]
    evaluation: EvaluationResult | None = output["evaluation"]
    messages, prompts = _shared([step.asked for step in steps])
    ids, id_prompts = _shared([step.asked_ids for step in steps])
    turns = [_dump_step(step, asked, told) for step, asked, told in zip(steps, prompts, id_prompts, strict=True)]
    table = {
        **output,
        "evaluation": evaluation.model_dump(mode="json") if evaluation else None,
        "trajectory": {"messages": messages, "prompt_ids": ids, "turns": turns},
    }
    fields = (f"{json.dumps(name)}: {as_json(value)}" for name, value in table.items())
    return f"{{{', '.join(fields)}}}\n".encode()


def as_json(value: object) -> str:
    """A value as JSON, or why it has none, as JSON."""
    try:
        return json.dumps(value, default=str)
    except (ValueError, TypeError, RecursionError):  # without end, with keys that are no text, or too deep
        return json.dumps(f"a {type(value).__name__} that cannot be stored")


def load_output(line: bytes) -> Output:
    """The output that a line holds. Raises ValueError, KeyError or TypeError for one that is damaged."""
    table: dict[str, Any] = json.loads(line)
    trajectory, evaluation = table["trajectory"], table["evaluation"]
    ids = [array("q", each) for each in trajectory["prompt_ids"]]
    messages = [_as_conversation(each) for each in trajectory["messages"]]
    steps = [_load_step(turn, messages, ids) for turn in trajectory["turns"]]
    for step in steps:
        step.trajectory_id = table["trajectory_id"]
    return {
        "advantage": None,  # which is missing from outputs of earlier releases
        **table,
        **{name: _as_conversation(table[name]) for name in ("prompt", "completion") if name in table},
        "evaluation": EvaluationResult.model_validate(evaluation) if evaluation else None,
        "trajectory": steps,
    }


def _as_conversation(value: Any) -> Any:
    """Messages with keys that are attributes too, as they were; what an author put in their place is left alone."""
    if not isinstance(value, list):
        return value
    return [chat_message(each) if isinstance(each, dict) and "role" in each else each for each in value]


def _shared(prefixes: Sequence[Prefix[Any] | None]) -> tuple[list[list[Any]], list[list[int] | None]]:
    """The rows that prefixes are of, each once and as long as needed, and for each prefix its row and length."""
    numbers: dict[int, int] = {}
    rows: list[list[Any]] = []
    places: list[list[int] | None] = []
    for prefix in prefixes:
        if prefix is None:
            places.append(None)
            continue
        number = numbers.setdefault(id(prefix.items), len(rows))
        if number == len(rows):
            rows.append([])
        if prefix.count > len(rows[number]):
            rows[number] = prefix.to_list()
        places.append([number, prefix.count])
    return rows, places


def _dump_step(step: TrajectoryStep, prompt: list[int] | None, prompt_ids: list[int] | None) -> dict[str, Any]:
    response, told = step.response, step.response.tokens
    return {
        "prompt": prompt,
        "prompt_ids": prompt_ids,
        "message": response.message,
        "finish_reason": response.finish_reason,
        "id": response.id,
        "model": response.model,
        "usage": response.usage.model_dump() if response.usage else None,
        "completion_ids": list(told.completion_ids) if told else None,
        "completion_logprobs": list(told.completion_logprobs) if told else None,
        "reward": step.reward,
        "advantage": step.advantage,
        "limit": step.limit,
        "extras": json.loads(as_json(step.extras)),
    }


def _load_step(turn: dict[str, Any], messages: list[list[Any]], ids: "list[array[int]]") -> TrajectoryStep:
    tokens = None
    if turn["completion_ids"] is not None:
        logprobs = array("d", turn["completion_logprobs"])
        tokens = ResponseTokens(array("q"), array("q", turn["completion_ids"]), logprobs)
    usage = TokenUsage.model_validate(turn["usage"]) if turn["usage"] else None
    response = Response(turn["message"], turn["finish_reason"], usage, tokens, turn["id"], turn["model"])
    number, count = turn["prompt"]
    asked = turn["prompt_ids"]
    told: Prefix[int] | None = Prefix(ids[asked[0]], asked[1]) if asked else None
    step = TrajectoryStep(Prefix(messages[number], count), response, told, limit=turn.get("limit"))
    step.reward, step.advantage = turn.get("reward"), turn.get("advantage")
    if isinstance(turn["extras"], dict):
        step.extras.update(turn["extras"])
    return step
