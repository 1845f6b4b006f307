"""Conversations and answers of any shape that all dialects can hold, in the words of chat completions."""

import json
from typing import Any

from hypothesis import strategies as st

WORDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
NAMES = st.from_regex(r"[a-zA-Z][a-zA-Z0-9_]{0,8}", fullmatch=True)
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(-9, 9) | WORDS
ARGUMENTS = st.dictionaries(NAMES, SCALARS | st.lists(SCALARS, max_size=2), max_size=3).map(
    lambda value: json.dumps(value, separators=(",", ":"), ensure_ascii=False)
)
CONTENT = WORDS | st.lists(WORDS.map(lambda text: {"type": "text", "text": text}), min_size=2, max_size=3)
TOOLS = st.lists(
    st.builds(
        lambda name, description, strict: {
            "type": "function",
            "function": {
                "name": name,
                "parameters": {"type": "object", "properties": {"x": {"type": "string"}}},
                **({"description": description} if description else {}),
                **({"strict": True} if strict else {}),
            },
        },
        NAMES,
        st.none() | WORDS,
        st.booleans(),
    ),
    min_size=1,
    max_size=2,
)
CHOICES = st.sampled_from(["auto", "required", {"type": "function", "function": {"name": "f"}}])


@st.composite
def calls(draw: Any) -> list[dict[str, Any]]:
    """Tool calls of one turn."""
    return [
        {"id": f"call_{i}", "type": "function", "function": {"name": draw(NAMES), "arguments": draw(ARGUMENTS)}}
        for i in range(draw(st.integers(1, 3)))
    ]


@st.composite
def turns(draw: Any) -> list[dict[str, Any]]:
    """What the user says, what the assistant does about it, and what the tools give back."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": draw(CONTENT)}]
    for _ in range(draw(st.integers(0, 2))):
        found = draw(calls())
        messages.append({"role": "assistant", "content": draw(st.none() | CONTENT), "tool_calls": found})
        messages.extend({"role": "tool", "tool_call_id": call["id"], "content": draw(CONTENT)} for call in found)
    if draw(st.booleans()):
        messages.append({"role": "assistant", "content": draw(CONTENT)})
    elif len(messages) == 1:
        messages.append({"role": "assistant", "content": "Well."})
    return messages


@st.composite
def requests(draw: Any) -> dict[str, Any]:
    """A whole request."""
    system = draw(st.none() | WORDS)
    messages = [{"role": "system", "content": system}] if system else []
    for _ in range(draw(st.integers(1, 2))):
        messages.extend(draw(turns()))
    request: dict[str, Any] = {"model": "m", "messages": messages, "max_completion_tokens": draw(st.integers(1, 99))}
    if draw(st.booleans()):
        choice, parallel = draw(CHOICES), draw(st.booleans())
        request.update(tools=draw(TOOLS), tool_choice=choice, parallel_tool_calls=parallel)
    optional = {"temperature": st.floats(0, 1), "top_p": st.floats(0, 1), "stream": st.booleans()}
    for name, values in optional.items():
        if draw(st.booleans()):
            request[name] = draw(values)
    return request


@st.composite
def answers(draw: Any) -> dict[str, Any]:
    """A whole answer; nobody but OpenAI says when it was made."""
    text, found = draw(st.none() | WORDS), draw(st.just([]) | calls())
    message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
    if draw(st.booleans()):
        message["reasoning_content"] = draw(WORDS)
    if found:
        message["tool_calls"] = found
    finish = draw(st.sampled_from(["tool_calls" if found else "stop", "length"]))
    cached, fresh, output = (draw(st.integers(0, 99)) for _ in range(3))
    reasoning = draw(st.integers(0, output))
    usage = {
        "prompt_tokens": cached + fresh,
        "completion_tokens": output,
        "total_tokens": cached + fresh + output,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": "m"}
    return {**head, "choices": [choice], "usage": usage}
