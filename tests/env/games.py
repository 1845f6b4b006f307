"""Environments to test with: a game of guessing, and models that play it."""

from typing import Any

import seatrial as vf

ROWS: list[dict[str, Any]] = [{"question": "Guess a number.", "info": {"number": number}} for number in range(3)]


class Guessing(vf.MultiTurnEnv):
    """The model guesses until it is right."""

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("dataset", ROWS)
        kwargs.setdefault("rubric", vf.Rubric([won]))
        super().__init__(**kwargs)

    async def env_response(self, messages: vf.Messages, state: vf.State, **_: Any) -> vf.Messages | str:
        guess, number = int(messages[-1]["content"]), state["info"]["number"]
        if guess == number:
            state["final_env_response"] = "right"
        return "right" if guess == number else "higher" if guess < number else "lower"


def won(completion):
    """1.0 for a game that ended well."""
    return float(completion[-1]["content"] == "right")


def counting(messages):
    """A model that guesses 0, 1, 2 and so on."""
    return str(sum(message["role"] == "assistant" for message in messages))
