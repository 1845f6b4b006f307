"""A rollout under way: its state, the turns of its trajectory, and what the environments know of it besides.

A State is a plain table that the environment's methods read and write; nothing else in a rollout changes. What the
environments themselves need is a Rollout behind one private key, so that without it a state can be sent wherever its
values can.
"""

import copy
import time
import uuid
from array import array
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from seatrial.env.messages import (
    AttributeTable,
    Message,
    Messages,
    Prefix,
    Response,
    ResponseTokens,
    Trunk,
    as_messages,
    as_response,
)
from seatrial.env.tool_tables import as_tool_tables

if TYPE_CHECKING:
    from seatrial.env.agent_state import AgentState
    from seatrial.env.trial_workplace import TrialWorkplace
    from seatrial.model.record import TrialRecord
    from seatrial.trial.spec import TrialSpec


# Turns, for those who score a rollout and for those who train on it.

_TO_WRITE = ("reward", "advantage", "extras")
_KEYS = ("prompt", "completion", "response", "tokens", "is_truncated", "trajectory_id", *_TO_WRITE)


class TrajectoryStep(Mapping[str, Any]):
    """A turn as a table: prompt, completion, response, tokens, reward, advantage, is_truncated, trajectory_id, extras.

    `prompt` and `completion` are lists of messages, `tokens` a table of ids, masks and log-probabilities or None when
    the server told none. Steps share what their prompts have in common; each reading gives a list of its own.
    `reward`, `advantage` and `extras` may be written to. With a `limit`, tokens beyond that many are left out.
    """

    __slots__ = ("advantage", "asked", "asked_ids", "extras", "limit", "response", "reward", "trajectory_id")

    def __init__(
        self,
        asked: Prefix[Message],
        response: Response,
        asked_ids: Prefix[int] | None = None,
        trajectory_id: str = "",
        limit: int | None = None,
    ) -> None:
        self.asked = asked
        self.asked_ids = asked_ids
        self.response = response
        self.trajectory_id = trajectory_id
        self.limit = limit
        self.reward: float | None = None
        self.advantage: float | None = None
        self.extras: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        match key:
            case "prompt":
                return self.asked.to_list()
            case "completion":
                return [self.response.message]
            case "response" | "reward" | "advantage" | "trajectory_id" | "extras":
                return getattr(self, key)
            case "tokens":
                return self._tokens()
            case "is_truncated":
                return self.response.is_truncated or self._is_beyond_limit
        raise KeyError(key)

    def __setitem__(self, key: str, value: Any) -> None:
        if key not in _TO_WRITE:
            raise TypeError(f"{key} of a turn cannot be set; {', '.join(_TO_WRITE)} can")
        setattr(self, key, value)

    @property
    def token_count(self) -> int:
        """How many tokens the prompt and its answer have, as far as the server told."""
        told, usage = self.response.tokens, self.response.usage
        if told is not None and self.asked_ids is not None:
            return self.asked_ids.count + len(told.completion_ids)
        return usage.input_tokens + usage.output_tokens if usage else 0

    @property
    def _is_beyond_limit(self) -> bool:
        return self.limit is not None and self.token_count > self.limit

    def to_table(self) -> dict[str, Any]:
        """The turn in lists, tables, text and numbers only, but for what was written into `extras`."""
        response = self.response
        return {
            **self,
            "response": {
                "id": response.id,
                "model": response.model,
                "message": response.message,
                "finish_reason": response.finish_reason,
                "usage": response.usage.model_dump() if response.usage else None,
            },
        }

    def __iter__(self) -> Iterator[str]:
        return iter(_KEYS)

    def __len__(self) -> int:
        return len(_KEYS)

    def __repr__(self) -> str:
        return f"TrajectoryStep({self.asked.count} messages of prompt, {self.response.message!r})"

    def _tokens(self) -> dict[str, Any] | None:
        told = self.response.tokens
        if told is None:
            return None
        prompt_ids = self.asked_ids.to_list() if self.asked_ids else []
        completion_ids, logprobs = list(told.completion_ids), list(told.completion_logprobs)
        overlong = self.limit is not None and len(prompt_ids) > self.limit
        if self.limit is not None:
            prompt_ids = prompt_ids[: self.limit]
            room = self.limit - len(prompt_ids)
            completion_ids, logprobs = completion_ids[:room], logprobs[:room]
        return {
            "prompt_ids": prompt_ids,
            "prompt_mask": [0] * len(prompt_ids),
            "completion_ids": completion_ids,
            "completion_mask": [1] * len(completion_ids),
            "completion_logprobs": logprobs,
            "overlong_prompt": overlong,
            "is_truncated": self["is_truncated"],
        }


@dataclass(slots=True)
class Recorder:
    """Makes the steps of one rollout, so that a conversation of any length is kept once."""

    messages: Trunk[Message] = field(default_factory=lambda: Trunk([]))
    prompt_ids: Trunk[int] = field(default_factory=lambda: Trunk(array("q")))
    last: TrajectoryStep | None = None
    trajectory_id: str = ""
    max_seq_len: int | None = None

    def step(self, prompt: Messages, response: Response) -> TrajectoryStep:
        response, ids = self._without_prompt_ids(response)
        asked = self.messages.keep(self._with_last_answer(prompt))
        self.last = TrajectoryStep(asked, response, ids, self.trajectory_id, self.max_seq_len)
        return self.last

    def _with_last_answer(self, prompt: Messages) -> Messages:
        """The prompt with the model's last answer as we have it, instead of a copy that came back by some way."""
        at = self.last.asked.count if self.last else len(prompt)
        if self.last is None or at >= len(prompt) or prompt[at] != self.last.response.message:
            return prompt
        return [*prompt[:at], self.last.response.message, *prompt[at + 1 :]]

    def _without_prompt_ids(self, response: Response) -> tuple[Response, Prefix[int] | None]:
        told = response.tokens
        if told is None or not told.prompt_ids:
            return response, None
        ids = self.prompt_ids.keep(told.prompt_ids)
        return replace(response, tokens=replace(told, prompt_ids=array("q"))), ids


def as_step(value: Any) -> TrajectoryStep:
    """A turn from a table that a hook made itself. Raises TypeError or InvalidModelResponseError for what is none."""
    if isinstance(value, TrajectoryStep):
        return value
    if not isinstance(value, Mapping):
        raise TypeError(f"a turn of a trajectory is a table with a prompt and a completion, not {repr(value)[:120]}")
    completion = as_messages(value.get("completion"), "assistant")
    said = value.get("response") or (completion[-1] if completion else "")
    response, tokens = as_response(said), value.get("tokens")
    if isinstance(tokens, Mapping):
        ids, logprobs = array("q", tokens["completion_ids"]), array("d", tokens.get("completion_logprobs") or ())
        response = replace(response, tokens=ResponseTokens(array("q", tokens["prompt_ids"]), ids, logprobs))
    recorder = Recorder(trajectory_id=value.get("trajectory_id") or "")
    step = recorder.step(as_messages(value.get("prompt")), response)
    step.reward, step.advantage = value.get("reward"), value.get("advantage")
    step.extras.update(value.get("extras") or {})
    return step


# Rollout: what the environments themselves know of one.

ROLLOUT = "_rollout"
"""The one private key of a state; in a row, it gives a rollout that is a trial its place."""


@dataclass(frozen=True, slots=True)
class RolloutPlace:
    """What a rollout is a trial of, and where it leaves its files."""

    spec: "TrialSpec"
    folder: Path


@dataclass(eq=False, slots=True)
class Rollout:
    """One rollout under way."""

    place: RolloutPlace | None = None
    recorder: Recorder = field(default_factory=Recorder)
    resources: AsyncExitStack = field(default_factory=AsyncExitStack)
    """What it holds until it is given back."""
    kept: bool = False
    """Whether `resources` are given back after the scoring only."""
    unanswered: Messages = field(default_factory=list)
    """What the environment said last, to which the model had no answer any more."""
    agent: "AgentState | None" = None
    trial: "TrialWorkplace | None" = None
    record: "TrialRecord | None" = None
    """Of a rollout that is a trial, in the end."""


# State: what is known of one rollout, from its row of the dataset to its reward. The keys that are always there:
#
#     input, prompt, answer, task, info, example_id      the row it is about
#     client, model, sampling_args, tools                whom to ask, and how
#     trajectory, completion                             what was said: turns, and all messages after the prompt
#     is_completed, is_truncated, stop_condition         how it ended
#     reward, advantage, metrics, evaluation             what it is worth; None while nobody has judged it
#     error                                              why it came to nothing, or None
#     cleanup_errors, reward_errors                      what else went wrong, a line each
#     timing, usage, trajectory_id, final_env_response

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
