"""Agents with the official SDKs: in all dialects, streaming or not, each request is a turn of chat messages."""

import aiohttp
import anthropic
import openai
import pytest

import seatrial as vf
from seatrial.env import interception
from seatrial.testing.fake import answer
from tests.env.worlds import cli_env, echo, evaluate, only


def openai_client(spec):
    return openai.AsyncOpenAI(base_url=spec.env["OPENAI_BASE_URL"], api_key=spec.env["OPENAI_API_KEY"])


def anthropic_client(spec):
    return anthropic.AsyncAnthropic(base_url=spec.env["ANTHROPIC_BASE_URL"], api_key=spec.env["ANTHROPIC_API_KEY"])


async def chat(spec):
    async with openai_client(spec) as client:
        reply = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hello"}])
        return reply.choices[0].message.content


async def chat_stream(spec):
    async with openai_client(spec) as client:
        asked = {"role": "user", "content": "hello"}
        stream = await client.chat.completions.create(model="m", messages=[asked], stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])


async def responses(spec):
    async with openai_client(spec) as client:
        return (await client.responses.create(model="m", input="hello")).output_text


async def responses_stream(spec):
    async with openai_client(spec) as client:
        stream = await client.responses.create(model="m", input="hello", stream=True)
        return "".join([event.delta async for event in stream if event.type == "response.output_text.delta"])


async def anthropic_messages(spec):
    async with anthropic_client(spec) as client:
        asked = {"role": "user", "content": "hello"}
        reply = await client.messages.create(model="m", max_tokens=64, messages=[asked])
        return reply.content[0].text


async def anthropic_stream(spec):
    async with anthropic_client(spec) as client:
        asked = {"role": "user", "content": "hello"}
        async with client.messages.stream(model="m", max_tokens=64, messages=[asked]) as stream:
            return "".join([text async for text in stream.text_stream])


def google(method):
    """Google's dialect without its SDK: the texts of all that comes."""

    async def way(spec):
        url = f"{spec.env['GOOGLE_GEMINI_BASE_URL']}/v1beta/models/m:{method}"
        asked = {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}
        headers = {"x-goog-api-key": spec.env["GEMINI_API_KEY"]}
        async with aiohttp.ClientSession(headers=headers) as client, client.post(url, json=asked) as response:
            found = await response.json()
        parts = [part for each in found for part in each["candidates"][0]["content"]["parts"]]
        return "".join(part["text"] for part in parts)

    return way


WAYS = [chat, chat_stream, responses, responses_stream, anthropic_messages, anthropic_stream]


@pytest.mark.parametrize("way", [*WAYS, google("streamGenerateContent")])
def test_every_dialect_is_a_turn(way):
    async def agent(spec, sandbox):
        return answer(await way(spec))

    output = only(evaluate(cli_env(agent), echo_text))
    assert (output["error"], output["agent_stdout"]) == (None, "you said hello")
    (turn,) = output["trajectory"]
    assert turn["prompt"][-1]["role"] == "user"
    assert turn["completion"] == [{"role": "assistant", "content": "you said hello"}]


def echo_text(messages: vf.Messages) -> str:
    """A model that says what it was asked, in whichever form that comes."""
    content = messages[-1]["content"]
    text = content if isinstance(content, str) else content[0]["text"]
    return echo([{"role": "user", "content": text}])


@pytest.mark.parametrize("way", WAYS)
def test_every_sdk_is_told_once_that_there_are_no_more_answers_and_does_not_try_again(way, monkeypatch):
    told: list[interception.RolloutEnded] = []
    refusal = interception._refusal

    def counted(ended):
        told.append(ended)
        return refusal(ended)

    monkeypatch.setattr(interception, "_refusal", counted)

    async def agent(spec, sandbox):
        await way(spec)
        try:
            await way(spec)
        except (openai.APIStatusError, anthropic.APIStatusError) as error:
            return answer(f"{error.status_code}")

    output = only(evaluate(cli_env(agent, max_turns=1), echo_text))
    assert (output["agent_stdout"], output["stop_condition"], len(told)) == ("429", "max_turns_reached", 1)


def test_a_tool_call_comes_to_the_agent_whole():
    def calling(_):
        return {"tool_calls": [{"name": "run", "arguments": {"command": "ls"}}]}

    async def agent(spec, sandbox):
        tool = {"name": "run", "description": "", "input_schema": {"type": "object"}}
        async with anthropic_client(spec) as client:
            asked = {"role": "user", "content": "hello"}
            reply = await client.messages.create(model="m", max_tokens=64, messages=[asked], tools=[tool])
        return answer(f"{reply.content[-1].name} {reply.content[-1].input} {reply.stop_reason}")

    assert only(evaluate(cli_env(agent), calling))["agent_stdout"] == "run {'command': 'ls'} tool_use"
