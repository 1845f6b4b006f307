"""A small agent that uses the official SDKs in all the usual ways and says what it got, as JSON.

It runs here and inside sandboxes, so it knows nothing but the SDKs and the variables that every agent finds.
"""

import asyncio
import json
import sys
from typing import Any

import anthropic
import openai

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
ASKED: list[Any] = [{"role": "user", "content": "hello"}]
SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}}
CHAT_TOOL = {"type": "function", "function": {"name": "add", "description": "adds", "parameters": SCHEMA}}
RESPONSES_TOOL = {"type": "function", "name": "add", "description": "adds", "parameters": SCHEMA, "strict": False}
CLAUDE_TOOL = {"name": "add", "description": "adds", "input_schema": SCHEMA}
PICTURE: dict[str, Any] = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
CLAUDE_PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}


def chat_calls(message):
    return [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls or ()]


def claude_calls(message):
    return [(block.name, block.input) for block in message.content if block.type == "tool_use"]


def responses_calls(response):
    return [(item.name, json.loads(item.arguments)) for item in response.output if item.type == "function_call"]


def claude_text(message):
    return "".join(block.text for block in message.content if block.type == "text")


def chat(client):
    """Text, a picture with a tool, the results of two parallel calls; then all of it streamed."""
    ask = client.chat.completions.create
    yield ask(model="m", messages=ASKED).choices[0].message.content
    seen = [{"role": "user", "content": [{"type": "text", "text": "what is it?"}, PICTURE]}]
    message = ask(model="m", messages=seen, tools=[CHAT_TOOL]).choices[0].message
    yield chat_calls(message)
    results = [{"role": "tool", "tool_call_id": call.id, "content": "3"} for call in message.tool_calls]
    answered = [*seen, message.model_dump(exclude_none=True), *results]
    yield ask(model="m", messages=answered, tools=[CHAT_TOOL]).choices[0].message.content
    with client.chat.completions.stream(model="m", messages=ASKED) as stream:
        yield stream.get_final_completion().choices[0].message.content
    with client.chat.completions.stream(model="m", messages=ASKED, tools=[CHAT_TOOL]) as stream:
        yield chat_calls(stream.get_final_completion().choices[0].message)


def responses(client):
    """The same by responses."""
    ask = client.responses.create
    yield ask(model="m", input="hello").output_text
    picture = {"type": "input_image", "detail": "auto", "image_url": PICTURE["image_url"]["url"]}
    seen = [{"role": "user", "content": [{"type": "input_text", "text": "what is it?"}, picture]}]
    response = ask(model="m", input=seen, tools=[RESPONSES_TOOL])
    yield responses_calls(response)
    made = [
        {"type": "function_call", "call_id": item.call_id, "name": item.name, "arguments": item.arguments}
        for item in response.output
        if item.type == "function_call"
    ]
    results = [{"type": "function_call_output", "call_id": call["call_id"], "output": "3"} for call in made]
    yield ask(model="m", input=[*seen, *made, *results], tools=[RESPONSES_TOOL]).output_text
    with client.responses.stream(model="m", input="hello") as stream:
        yield stream.get_final_response().output_text
    with client.responses.stream(model="m", input="hello", tools=[RESPONSES_TOOL]) as stream:
        yield responses_calls(stream.get_final_response())


def messages(client):
    """The same by messages."""
    ask = client.messages.create
    yield claude_text(ask(model="m", max_tokens=99, messages=ASKED))
    seen = [{"role": "user", "content": [{"type": "text", "text": "what is it?"}, CLAUDE_PICTURE]}]
    message = ask(model="m", max_tokens=99, messages=seen, tools=[CLAUDE_TOOL])
    yield claude_calls(message)
    made = [block for block in message.content if block.type == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": block.id, "content": "3"} for block in made]
    uses = [{"type": "tool_use", "id": block.id, "name": block.name, "input": block.input} for block in made]
    answered = [*seen, {"role": "assistant", "content": uses}, {"role": "user", "content": results}]
    yield claude_text(ask(model="m", max_tokens=99, messages=answered, tools=[CLAUDE_TOOL]))
    with client.messages.stream(model="m", max_tokens=99, messages=ASKED) as stream:
        yield claude_text(stream.get_final_message())
    with client.messages.stream(model="m", max_tokens=99, messages=ASKED, tools=[CLAUDE_TOOL]) as stream:
        yield claude_calls(stream.get_final_message())


async def side_by_side(count):
    """So many calls at once, half of them streamed, by both asynchronous clients."""

    async def plain(client):
        return (await client.chat.completions.create(model="m", messages=ASKED)).choices[0].message.content

    async def streamed(client):
        async with client.messages.stream(model="m", max_tokens=99, messages=ASKED) as stream:
            return claude_text(await stream.get_final_message())

    async with openai.AsyncOpenAI() as chats, anthropic.AsyncAnthropic() as claude:
        calls = [plain(chats) if number % 2 else streamed(claude) for number in range(count)]
        return sorted(await asyncio.gather(*calls))


def refused():
    """The errors that a budget that is used up shows as."""
    found: list[Any] = []
    with openai.OpenAI(max_retries=5) as client:
        try:
            client.chat.completions.create(model="m", messages=ASKED)
        except openai.RateLimitError as error:
            found.append(error.code)
    with anthropic.Anthropic(max_retries=5) as client:
        try:
            client.messages.create(model="m", max_tokens=9, messages=ASKED)
        except anthropic.RateLimitError as error:
            found.append(error.status_code)
    return found


def main(wanted):
    """What happened in each of the parts that are asked for."""
    said: dict[str, Any] = {}
    if "chat" in wanted:
        with openai.OpenAI() as client:
            said["chat"] = list(chat(client))
    if "responses" in wanted:
        with openai.OpenAI() as client:
            said["responses"] = list(responses(client))
    if "messages" in wanted:
        with anthropic.Anthropic() as client:
            said["messages"] = list(messages(client))
    if "side_by_side" in wanted:
        said["side_by_side"] = asyncio.run(side_by_side(8))
    if "models" in wanted:
        with openai.OpenAI() as client:
            said["models"] = [model.id for model in client.models.list()]
        with anthropic.Anthropic() as client:
            counted = client.messages.count_tokens(model="m", messages=ASKED)
            said["count"] = counted.input_tokens
    if "refused" in wanted:
        said["refused"] = refused()
    return said


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1:])))
