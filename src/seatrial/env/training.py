"""Rollouts as trainers take them: token ids, which of them the model chose, and how likely they were.

`per_turn` gives an example for each turn. `interleaved` gives one for a whole conversation, in which the tokens of the
environment are masked; where a turn does not go on from what came before, as after a compaction, another one begins.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from seatrial.env.results import Output
from seatrial.errors import UsageError

TrainingRow = dict[str, Any]
"""prompt_ids, prompt_mask, completion_ids, completion_mask, completion_logprobs, and what they are of.

The log-probabilities are one for each id of the completion, or none at all where the server told none.
"""

_TOKENS = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "completion_logprobs")


def per_turn(output: Output) -> list[TrainingRow]:
    """An example for each turn; none for a rollout that failed. Raises UsageError when the server told too little."""
    return [_row(output, [turn], [number]) for number, turn in enumerate(_turns(output))]


def interleaved(output: Output) -> list[TrainingRow]:
    """One example for all turns of which each goes on from the last: usually one; none for a rollout that failed.

    Its reward and advantage are those of its turns where they agree, else those of the rollout. Raises UsageError when
    the server told too little.
    """
    turns = _turns(output)
    branches: list[list[int]] = []
    seen: Sequence[int] = ()
    for number, turn in enumerate(turns):
        asked = turn["tokens"]["prompt_ids"]
        if branches and asked[: len(seen)] == seen:
            branches[-1].append(number)
        else:
            branches.append([number])
        seen = [*asked, *turn["tokens"]["completion_ids"]]
    return [_row(output, [turns[number] for number in branch], branch) for branch in branches]


def _turns(output: Output) -> list[Mapping[str, Any]]:
    """The turns of a rollout, with their tokens read once. Raises UsageError unless all that trainers need is there.

    A server that told no log-probability at all, of any turn, is one for trainers that compute them themselves.
    """
    if output["error"] is not None:
        return []
    turns: list[Mapping[str, Any]] = [dict(step) for step in output["trajectory"]]
    some = any(turn["tokens"] and turn["tokens"]["completion_logprobs"] for turn in turns)
    for number, turn in enumerate(turns):
        if (lacks := _missing(turn["tokens"], logprobs=some)) is not None:
            raise UsageError(
                f"turn {number} of rollout {output['trajectory_id']} has {lacks}; ask for them by "
                "sampling_args={'logprobs': True, 'extra_body': {'return_token_ids': True}} of a server that has them"
            )
    return turns


def _missing(tokens: Mapping[str, Any] | None, *, logprobs: bool) -> str | None:
    """What was not told of a turn; None if nothing is missing."""
    if tokens is None:
        return "no tokens"
    if not tokens["prompt_ids"]:
        return "no ids of its prompt"
    ids, told = len(tokens["completion_ids"]), len(tokens["completion_logprobs"])
    return f"{ids} token ids and {told} log-probabilities" if logprobs and ids != told else None


def _row(output: Output, turns: Sequence[Mapping[str, Any]], numbers: Sequence[int]) -> TrainingRow:
    row: TrainingRow = {name: list(turns[0]["tokens"][name]) for name in _TOKENS}
    for turn in turns[1:]:
        _append(row, turn["tokens"])
    if not any(turn["tokens"]["completion_logprobs"] for turn in turns):
        row["completion_logprobs"] = []
    return {
        **row,
        "reward": _agreed("reward", turns, output),
        "advantage": _agreed("advantage", turns, output),
        "is_truncated": any(turn["is_truncated"] for turn in turns),
        "example_id": output["example_id"],
        "trajectory_id": output["trajectory_id"],
        "policy_version": output.get("policy_version"),
        "turns": list(numbers),
    }


def _agreed(name: str, turns: Sequence[Mapping[str, Any]], output: Output) -> float | None:
    values = {turn[name] for turn in turns}
    value: float | None = values.pop() if len(values) == 1 else None
    given: float | None = output[name] if value is None else value
    return given


def _append(row: TrainingRow, tokens: Mapping[str, Any]) -> None:
    """Add a turn to the completion: what the environment said is masked, and was as likely as it gets."""
    said = tokens["prompt_ids"][len(row["prompt_ids"]) + len(row["completion_ids"]) :]
    row["completion_ids"] += [*said, *tokens["completion_ids"]]
    row["completion_mask"] += [*[0] * len(said), *tokens["completion_mask"]]
    row["completion_logprobs"] += [*[0.0] * len(said), *tokens["completion_logprobs"]]
