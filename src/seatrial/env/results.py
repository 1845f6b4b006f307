"""What comes out of an evaluation: an output for each rollout, made of its state.

What they amount to together is in `figures`, how they are kept in `stored` and `saving`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from seatrial.env.rollout import State, rollout_of
from seatrial.errors import HookError, ModelError, OverlongPromptError, ToolError, TrialError

Output = dict[str, Any]
"""One rollout, as the keys of `make_output` say."""

_COLUMNS = (
    *("example_id", "task", "prompt", "completion", "answer", "info", "metrics", "trajectory", "trajectory_id"),
    *("stop_condition", "is_completed", "is_truncated", "timing", "usage", "cleanup_errors", "reward_errors"),
    "advantage",
)
_WHERE_KNOWN = ("policy_version", "step_rewards", "step_metrics")
_OF_AGENTS = ("agent_exit_code", "agent_timed_out")
_MAX_SAID = 2000
_MAX_CAUSES = 10

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
    was one, with the end of what it wrote to stdout and stderr. Each metric is there by its own name too.
    """
    error = state["error"]
    record = rollout_of(state).record
    evaluation = state["evaluation"] or (record.evaluation if record else None)
    return {
        **(state["metrics"] if isinstance(state["metrics"], dict) else {}),
        **{name: state[name] for name in _COLUMNS},
        **{name: state[name] for name in _WHERE_KNOWN if name in state},
        **_agent_columns(state),
        **{name: state.get(name) for name in columns},
        "reward": None if error is not None else state["reward"],
        "error": None if error is None else describe(error),
        "evaluation": evaluation,
        "outcome": record.outcome if record else None,
        "verifier_broken": bool(record and record.has_broken_verifier),
        "token_usage": _token_usage(state),
    }


def _token_usage(state: State) -> dict[str, int] | None:
    """What a rollout's model read and wrote, and how much of that its last conversation still held."""
    usage, steps = state["usage"], state["trajectory"]
    if not isinstance(usage, dict) or not usage.get("calls"):
        return None
    told = steps[-1].token_count if steps else 0
    return {
        "input_tokens": usage["input_tokens"],
        "output_tokens": usage["output_tokens"],
        "final_input_tokens": max(0, told - usage["output_tokens"]),
        "final_output_tokens": usage["output_tokens"],
    }


def _agent_columns(state: State) -> dict[str, Any]:
    ended = {name: state[name] for name in _OF_AGENTS if name in state}
    said = {name: (state.get(name) or "")[-_MAX_SAID:] for name in ("agent_stdout", "agent_stderr")}
    return {**ended, **said} if ended else {}


def describe(error: BaseException) -> dict[str, Any]:
    """An error as a table: its type, message and kind, and whether another attempt may end otherwise; and what caused
    it, in the words that trainers know from verifiers.
    """
    chain = _causes(error)
    return {
        "error": type(error).__name__,
        "message": str(error),
        "kind": _kind(error),
        "retryable": isinstance(error, TrialError) and error.retryable,
        "error_chain_repr": " -> ".join(map(repr, chain)),
        "error_chain_str": " -> ".join(type(each).__name__ for each in chain),
    }


def _causes(error: BaseException | None) -> list[BaseException]:
    """An error, its cause, and so on; not for ever, for hooks may have made a circle of them."""
    chain: list[BaseException] = []
    while error is not None and len(chain) < _MAX_CAUSES:
        chain.append(error)
        error = error.__cause__
    return chain


def _kind(error: BaseException) -> str:
    return next((name for name, kinds in _KINDS.items() if isinstance(error, kinds)), "usage")
