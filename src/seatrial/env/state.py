"""State: what is known of one rollout, from its row of the dataset to its reward.

A plain table that the environment's methods read and write; nothing else in a rollout changes. The keys that are
always there:

    input, prompt, answer, task, info, example_id      the row it is about
    client, model, sampling_args, tools                whom to ask, and how
    trajectory, completion                             what was said: turns, and all messages after the prompt
    is_completed, is_truncated, stop_condition         how it ended
    reward, advantage, metrics, evaluation             what it is worth; None while nobody has judged it
    error                                              why it came to nothing, or None
    cleanup_errors, reward_errors                      what else went wrong, a line each
    timing, usage, trajectory_id, final_env_response
"""

import copy
import time
import uuid
from collections.abc import Mapping
from typing import Any

import orjson

from seatrial.env.chat_message import AttributeTable
from seatrial.env.messages import as_messages
from seatrial.env.rollout import ROLLOUT, Rollout
from seatrial.env.tool_tables import as_tool_tables

_TOOLS = ("tool_defs", "oai_tools")
_STAYS_HERE = (ROLLOUT, "client")


class State(dict[str, Any]):
    """One rollout. Pickled, it is without its client and whatever else belongs to this process."""

    def __copy__(self) -> "State":
        return State(self)

    def __missing__(self, name: str) -> Any:
        """The tools by the names that environments of verifiers read them by; what they write there goes before."""
        if name in _TOOLS:
            return self["tools"]
        raise KeyError(name)

    def __reduce__(self) -> tuple[type["State"], tuple[dict[str, Any]]]:
        return State, ({name: value for name, value in self.items() if name not in _STAYS_HERE},)


def new_state(row: Mapping[str, Any], model: str, sampling_args: Mapping[str, Any] | None) -> State:
    """The state of a rollout that has not begun, on a row that is its own. Raises TypeError or ValueError for a row."""
    own: dict[str, Any] = {name: _own(value) for name, value in row.items() if name != ROLLOUT}
    if "info" in own:
        own["info"] = read_info(own)
    own["prompt"] = as_messages(own.get("prompt"))
    state = State(
        {"answer": "", "task": "default", "info": {}, "example_id": 0, **own},
        input=own,
        model=model,
        sampling_args=dict(sampling_args or {}),
        tools=own.get("tools"),
        trajectory=[],
        trajectory_id=uuid.uuid4().hex,
        completion=None,
        is_completed=False,
        is_truncated=False,
        stop_condition=None,
        final_env_response=None,
        reward=None,
        advantage=None,
        metrics=None,
        evaluation=None,
        error=None,
        cleanup_errors=[],
        reward_errors={},
        timing={"start_time": time.time(), "setup_ms": 0.0, "generation_ms": 0.0, "scoring_ms": 0.0, "total_ms": 0.0},
        usage={"calls": 0, "input_tokens": 0, "cached_tokens": 0, "output_tokens": 0},
    )
    begun: Rollout | None = row.get(ROLLOUT)
    state[ROLLOUT] = Rollout(begun.place if begun else None)
    return state


def _own(value: Any) -> Any:
    """A copy that shares nothing that could be changed; of what JSON has, which is all that most rows have, quickly."""
    kind = type(value)
    if kind is str or kind is int or kind is float or kind is bool or value is None:
        return value
    if kind is dict:
        return {key: _own(each) for key, each in value.items()}
    if kind is list:
        return [_own(each) for each in value]
    if issubclass(kind, AttributeTable):  # messages, most of all
        table = kind.__new__(kind)
        dict.update(table, {key: _own(each) for key, each in value.items()})
        return table
    return copy.deepcopy(value)


def read_info(row: Mapping[str, Any]) -> Any:
    """The `info` of a row, which datasets hold as text where no two rows are alike. Raises ValueError."""
    info = row.get("info", {})
    if not isinstance(info, str):
        return info
    try:
        return orjson.loads(info)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"the row's info is text, expected a table or JSON: {info[:120]!r}") from error


def tools_of(state: State) -> list[dict[str, Any]] | None:
    """What the model of a rollout is offered. Raises UsageError for tools that are none."""
    written = next((state[name] for name in _TOOLS if isinstance(state.get(name), list | tuple)), None)
    tools: list[dict[str, Any]] | None = state["tools"] if written is None else as_tool_tables(written)
    return tools


def rollout_of(state: State) -> Rollout:
    """What the environments themselves know of a rollout; nothing yet for a state that a hook made from nothing."""
    rollout: Rollout | None = state.get(ROLLOUT)
    if rollout is None:
        rollout = state[ROLLOUT] = Rollout()
    return rollout
