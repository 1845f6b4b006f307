"""TrajectoryStep: one turn of a rollout, for those who score it and for those who train on it."""

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from seatrial.env.messages import Message, Messages, Prefix, Trunk, as_messages
from seatrial.env.response import Response, ResponseTokens, as_response

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
        """A turn: what the model was asked, and what it said."""
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
