"""Rollouts as trainers take them: token ids, which of them the model chose, and how likely they were.

`per_turn` gives an example for each turn. `interleaved` gives one for a whole conversation, in which the tokens of the
environment are masked; where a turn does not go on from what came before, as after a compaction, another one begins.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from seatrial.env.results import Output
from seatrial.errors import UsageError

TrainingRow = dict[str, Any]
"""prompt_ids, prompt_mask, completion_ids, completion_mask, completion_logprobs, and what they are of."""

_TOKENS = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "completion_logprobs")


def per_turn(output: Output) -> list[TrainingRow]:
    """An example for each turn; none for a rollout that failed. Raises UsageError when the server told no tokens."""
    return [_row(output, [turn]) for turn in range(len(_turns(output)))]


def interleaved(output: Output) -> list[TrainingRow]:
    """One example for all turns of which each goes on from the last: usually one; none for a rollout that failed.

    Raises UsageError when the server told no tokens.
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
    return [_row(output, branch) for branch in branches]


def _turns(output: Output) -> list[Mapping[str, Any]]:
    """The turns of a rollout, with their tokens read once."""
    if output["error"] is not None:
        return []
    turns: list[Mapping[str, Any]] = [dict(step) for step in output["trajectory"]]
    untold = next((number for number, turn in enumerate(turns) if turn["tokens"] is None), None)
    if untold is not None:
        raise UsageError(
            f"turn {untold} of rollout {output['trajectory_id']} has no tokens; ask for them by "
            "sampling_args={'logprobs': True, 'extra_body': {'return_token_ids': True}} of a server that has them"
        )
    return turns


def _row(output: Output, numbers: Sequence[int]) -> TrainingRow:
    turns = [output["trajectory"][number] for number in numbers]
    row: TrainingRow = {name: list(turns[0]["tokens"][name]) for name in _TOKENS}
    for turn in turns[1:]:
        _append(row, turn["tokens"])
    first = turns[0]
    return {
        **row,
        "reward": first["reward"] if first["reward"] is not None else output["reward"],
        "advantage": first["advantage"] if first["advantage"] is not None else output["advantage"],
        "is_truncated": any(turn["is_truncated"] for turn in turns),
        "example_id": output["example_id"],
        "trajectory_id": output["trajectory_id"],
        "policy_version": output.get("policy_version"),
        "turns": list(numbers),
    }


def _append(row: TrainingRow, tokens: Mapping[str, Any]) -> None:
    """Add a turn to the completion: what the environment said is masked, and was as likely as it gets."""
    said = tokens["prompt_ids"][len(row["prompt_ids"]) + len(row["completion_ids"]) :]
    row["completion_ids"] += [*said, *tokens["completion_ids"]]
    row["completion_mask"] += [*[0] * len(said), *tokens["completion_mask"]]
    row["completion_logprobs"] += [*[0.0] * len(said), *tokens["completion_logprobs"]]
