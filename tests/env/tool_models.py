"""Models that call tools: each turn of a script is text, or calls as pairs of a name and arguments."""

import json
from typing import Any


def call(name: str, arguments: Any, number: int = 0) -> dict[str, Any]:
    """A call of a tool; arguments that are no text are written as JSON."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": text}}


def calling(*calls: tuple[str, Any]) -> dict[str, Any]:
    """A chat completion that calls tools."""
    made = [call(name, arguments, number) for number, (name, arguments) in enumerate(calls)]
    message = {"role": "assistant", "content": None, "tool_calls": made}
    return {"choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}]}


def scripted(*turns: Any):
    """A model that says one turn after the other, in each rollout from the first on."""

    def model(messages):
        turn = turns[sum(message["role"] == "assistant" for message in messages)]
        return turn if isinstance(turn, str) else calling(*turn)

    return model


def tool_texts(output) -> list[Any]:
    """What the tools said in a rollout."""
    return [message["content"] for message in output["completion"] if message["role"] == "tool"]
