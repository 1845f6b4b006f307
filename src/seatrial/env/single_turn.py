"""SingleTurnEnv: a question, one answer of the model, and what it is worth."""

from typing import Any, NoReturn

from seatrial.env.definition import MessageType
from seatrial.env.messages import Messages
from seatrial.env.multi_turn import MultiTurnEnv
from seatrial.env.state import State
from seatrial.errors import UsageError


class SingleTurnEnv(MultiTurnEnv):
    """A rollout is one answer.

    Models are asked by chat completions only. With `message_type="completion"` a prompt of text is asked as the one
    message of a user, and reward functions get the answer as text.
    """

    def __init__(self, message_type: MessageType = "chat", **kwargs: Any) -> None:
        if message_type not in ("chat", "completion"):
            raise UsageError(f"message_type is {message_type!r}, expected 'chat' or 'completion'")
        super().__init__(max_turns=1, message_type=message_type, **kwargs)

    async def env_response(self, messages: Messages, state: State, **kwargs: Any) -> NoReturn:
        """Never: the rollout is over by then."""
        raise NotImplementedError(f"{type(self).__name__} has one turn, in which the environment says nothing")

    async def render_completion(self, state: State) -> Messages | str | None:
        """The answer: its message, or its text where that was asked for."""
        messages = await super().render_completion(state)
        if self.message_type == "chat" or not isinstance(messages, list):
            return messages
        state["completion"] = "".join(str(message.get("content") or "") for message in messages)
        return str(state["completion"])
