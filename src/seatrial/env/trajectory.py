"""TrajectoryStep: one turn of a rollout, for those who score it and for those who train on it."""

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from seatrial.env.messages import Message, Messages, Prefix, Trunk
from seatrial.env.response import Response

_KEYS = ("prompt", "completion", "response", "tokens", "is_truncated", "extras")


class TrajectoryStep(Mapping[str, Any]):
    """A turn as a table: prompt, completion, response, tokens, is_truncated, extras.

    `prompt` and `completion` are lists of messages, `tokens` a table of ids, masks and log-probabilities or None when
    the server told none. Steps share what their prompts have in common; each reading gives a list of its own.
    `extras` is the one table in it that may be written to.
    """

    __slots__ = ("asked", "asked_ids", "extras", "response")

    def __init__(self, asked: Prefix[Message], response: Response, asked_ids: Prefix[int] | None = None) -> None:
        self.asked = asked
        self.asked_ids = asked_ids
        self.response = response
        self.extras: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        match key:
            case "prompt":
                return self.asked.to_list()
            case "completion":
                return [self.response.message]
            case "response" | "extras":
                return getattr(self, key)
            case "tokens":
                return self._tokens()
            case "is_truncated":
                return self.response.is_truncated
        raise KeyError(key)

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
        return {
            "prompt_ids": prompt_ids,
            "prompt_mask": [0] * len(prompt_ids),
            "completion_ids": list(told.completion_ids),
            "completion_mask": [1] * len(told.completion_ids),
            "completion_logprobs": list(told.completion_logprobs),
            "is_truncated": self.response.is_truncated,
        }


@dataclass(slots=True)
class Recorder:
    """Makes the steps of one rollout, so that a conversation of any length is kept once."""

    messages: Trunk[Message] = field(default_factory=lambda: Trunk([]))
    prompt_ids: Trunk[int] = field(default_factory=lambda: Trunk(array("q")))
    last: TrajectoryStep | None = None

    def step(self, prompt: Messages, response: Response) -> TrajectoryStep:
        """A turn: what the model was asked, and what it said."""
        response, ids = self._without_prompt_ids(response)
        self.last = TrajectoryStep(self.messages.keep(self._with_last_answer(prompt)), response, ids)
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
