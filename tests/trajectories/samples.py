"""Calls of agents in every dialect, with their whole conversations, as an agent would make them."""

import datetime as dt
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from seatrial.model.trace import ModelCall, TokenUsage

BEGUN = dt.datetime(2026, 5, 1, 12, 0, tzinfo=dt.UTC)
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="  # one dot
Tool = tuple[str, str, dict[str, Any]]
"""The id of a call, its tool and its arguments."""


class Chat:
    """Chat completions, where the system prompt is a message."""

    dialect = "openai_chat"
    path = "/v1/chat/completions"

    def begin(self, system: str) -> list[Any]:
        return [{"role": "system", "content": system}]

    def request(self, system: str, tools: Sequence[str]) -> dict[str, Any]:
        defined = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in tools]
        return {"model": "m", **({"tools": defined} if defined else {})}

    def user(self, text: str) -> dict[str, Any]:
        return {"role": "user", "content": text}

    def image(self) -> dict[str, Any]:
        url = f"data:image/png;base64,{PNG}"
        return {
            "role": "user",
            "content": [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": url}}],
        }

    def said(self, text: str, *tools: Tool) -> list[Any]:
        calls = [
            {"id": id_, "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
            for id_, name, given in tools
        ]
        return [{"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}]

    def result(self, tool: Tool, text: str) -> dict[str, Any]:
        return {"role": "tool", "tool_call_id": tool[0], "content": text}

    def answer(self, text: str, *tools: Tool) -> dict[str, Any]:
        return {"id": "r", "choices": [{"message": self.said(text, *tools)[0], "finish_reason": "stop"}]}


class Anthropic(Chat):
    """Messages made of blocks, with the system prompt beside them."""

    dialect = "anthropic"
    path = "/v1/messages"

    def begin(self, system: str) -> list[Any]:
        return []

    def request(self, system: str, tools: Sequence[str]) -> dict[str, Any]:
        defined = [{"name": name, "input_schema": {"type": "object"}} for name in tools]
        return {"model": "m", "system": [{"type": "text", "text": system}], **({"tools": defined} if defined else {})}

    def image(self) -> dict[str, Any]:
        source = {"type": "base64", "media_type": "image/png", "data": PNG}
        return {"role": "user", "content": [{"type": "text", "text": "see"}, {"type": "image", "source": source}]}

    def said(self, text: str, *tools: Tool) -> list[Any]:
        calls = [{"type": "tool_use", "id": id_, "name": name, "input": given} for id_, name, given in tools]
        return [{"role": "assistant", "content": [{"type": "text", "text": text}, *calls]}]

    def result(self, tool: Tool, text: str) -> dict[str, Any]:
        return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": tool[0], "content": text}]}

    def answer(self, text: str, *tools: Tool) -> dict[str, Any]:
        thought = {"type": "thinking", "thinking": "hm", "signature": "xyz"}
        return {"id": "r", **self.said(text, *tools)[0], "content": [thought, *self.said(text, *tools)[0]["content"]]}


class Responses(Chat):
    """Items: a message, a call and a result are each one of them."""

    dialect = "openai_responses"
    path = "/v1/responses"

    def begin(self, system: str) -> list[Any]:
        return []

    def request(self, system: str, tools: Sequence[str]) -> dict[str, Any]:
        defined = [{"type": "function", "name": name, "parameters": {"type": "object"}} for name in tools]
        return {"model": "m", "instructions": system, **({"tools": defined} if defined else {})}

    def user(self, text: str) -> dict[str, Any]:
        return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}

    def image(self) -> dict[str, Any]:
        url = f"data:image/png;base64,{PNG}"
        parts = [{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": url}]
        return {"type": "message", "role": "user", "content": parts}

    def said(self, text: str, *tools: Tool) -> list[Any]:
        calls = [
            {"type": "function_call", "call_id": id_, "name": name, "arguments": json.dumps(given)}
            for id_, name, given in tools
        ]
        return [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}, *calls]

    def result(self, tool: Tool, text: str) -> dict[str, Any]:
        return {"type": "function_call_output", "call_id": tool[0], "output": text}

    def answer(self, text: str, *tools: Tool) -> dict[str, Any]:
        thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}
        return {"id": "", "output": [thought, *self.said(text, *tools)]}


class Google(Chat):
    """Contents made of parts; calls of tools have no ids."""

    dialect = "google"
    path = "/v1beta/models/m:generateContent"

    def begin(self, system: str) -> list[Any]:
        return []

    def request(self, system: str, tools: Sequence[str]) -> dict[str, Any]:
        defined = [{"functionDeclarations": [{"name": name, "parameters": {}} for name in tools]}]
        return {"systemInstruction": {"parts": [{"text": system}]}, **({"tools": defined} if tools else {})}

    def user(self, text: str) -> dict[str, Any]:
        return {"role": "user", "parts": [{"text": text}]}

    def image(self) -> dict[str, Any]:
        return {"role": "user", "parts": [{"text": "see"}, {"inlineData": {"mimeType": "image/png", "data": PNG}}]}

    def said(self, text: str, *tools: Tool) -> list[Any]:
        calls = [{"functionCall": {"name": name, "args": given}} for _, name, given in tools]
        return [{"role": "model", "parts": [{"text": text}, *calls]}]

    def result(self, tool: Tool, text: str) -> dict[str, Any]:
        response = {"name": tool[1], "response": {"output": text}}
        return {"role": "user", "parts": [{"functionResponse": response}]}

    def answer(self, text: str, *tools: Tool) -> dict[str, Any]:
        thought = {"text": "hm", "thought": True}
        content = self.said(text, *tools)[0]
        return {"candidates": [{"content": {**content, "parts": [thought, *content["parts"]]}}]}


DIALECTS = (Chat(), Anthropic(), Responses(), Google())


@dataclass
class Trial:
    """The calls of one trial, by as many agents as there are."""

    dialect: Chat
    calls: list[ModelCall] = field(default_factory=list)

    def agent(self, system: str, *tools: str) -> "Talker":
        return Talker(self, system, tools, self.dialect.begin(system))


@dataclass
class Talker:
    """An agent with a conversation that grows."""

    trial: Trial
    system: str
    tools: tuple[str, ...]
    messages: list[Any]

    def hears(self, *messages: Any) -> "Talker":
        dialect = self.trial.dialect
        self.messages = [*self.messages, *(dialect.user(each) if isinstance(each, str) else each for each in messages)]
        return self

    def gets(self, tool: Tool, text: str) -> "Talker":
        return self.hears(self.trial.dialect.result(tool, text))

    def asks(self, text: str, *tools: Tool) -> ModelCall:
        """A call that is answered; the conversation goes on with the answer."""
        made = self.call(self.trial.dialect.answer(text, *tools))
        self.messages = [*self.messages, *self.trial.dialect.said(text, *tools)]
        return made

    def call(self, response: Any = None, **more: Any) -> ModelCall:
        """A call with this answer, which is not taken up."""
        index, dialect = len(self.trial.calls), self.trial.dialect
        values: dict[str, Any] = {
            "index": index,
            "dialect": dialect.dialect,
            "path": dialect.path,
            "started_at": BEGUN + dt.timedelta(seconds=index),
            "duration_sec": 0.5,
            "model": "m",
            "messages": self.messages,
            "request": dialect.request(self.system, self.tools),
            "response": response,
            "status": 200 if response else 503,
            "usage": TokenUsage(input_tokens=10, cached_tokens=4, output_tokens=2) if response else None,
            "cost_usd": 0.25 if response else None,
        }
        made = ModelCall(**{**values, **more})
        self.trial.calls.append(made)
        return made


LOOK: Tool = ("c1", "shell", {"command": "ls"})
ALSO: Tool = ("c2", "shell", {"command": "pwd"})
HELP: Tool = ("c3", "task", {"prompt": "Count the files in the folder /etc."})
LAST_WORDS = "There are 146 files in the folder, I counted."


def whole_trial(dialect: Chat) -> Trial:
    """A trial with everything: a title, parallel calls, a failed call and its repetition, a sub-agent, an image."""
    trial = Trial(dialect)
    main, title = trial.agent("You work.", "shell", "task"), trial.agent("Make a title.")
    main.hears("Do the task.")
    title.hears("Do the task.").asks("Doing a task")
    main.asks("I look.", LOOK, ALSO)
    main.gets(LOOK, "a.txt").gets(ALSO, "/work")
    main.call()
    main.asks("I ask.", HELP)
    helper = trial.agent("You help.", "shell").hears("Count the files in the folder /etc.")
    helper.asks("Counting.", LOOK)
    helper.gets(LOOK, "146").asks(LAST_WORDS)
    main.gets(HELP, f"The helper says: {LAST_WORDS}").hears(dialect.image()).asks("Done.")
    return trial
