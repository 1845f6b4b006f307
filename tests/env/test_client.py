"""Clients: what may stand for a model, and what it answers or fails with."""

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import openai
import pytest

import seatrial as vf
from seatrial.env.client import Client, chat_request, make_upstream, open_client
from seatrial.gateway.upstreams.reply import Reply, ReplyCall
from seatrial.gateway.upstreams.scripted import ScriptedModel
from seatrial.testing.fake_provider import Fail, FakeProvider, Hang, Raw, Say
from tests.env.games import Guessing

ASKED = [{"role": "user", "content": "hi"}]


def complete(given: object, **sampling: Any) -> dict[str, Any]:
    async def scenario() -> dict[str, Any]:
        async with open_client(given) as client:
            return await client.complete(chat_request(ASKED, "m", None, sampling))

    return asyncio.run(scenario())


def said(answer: dict[str, Any]) -> str:
    content = answer["choices"][0]["message"]["content"]
    assert isinstance(content, str)
    return content


def by_config(url: str) -> object:
    return vf.ClientConfig(base_url=url, max_retries=0)


def by_sdk(url: str) -> object:
    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0)


def by_blocking_sdk(url: str) -> object:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0)


WAYS = [by_config, by_sdk, by_blocking_sdk]


def ask_fake(way, *steps, **sampling):
    async def scenario():
        async with FakeProvider(*steps) as fake, open_client(way(fake.base_url)) as client:
            try:
                answer = await client.complete(chat_request(ASKED, "m", None, sampling))
            finally:
                given = client.given
                if isinstance(given, openai.AsyncOpenAI):
                    await given.close()
                elif isinstance(given, openai.OpenAI):
                    given.close()
            return answer, fake.received

    return asyncio.run(scenario())


@pytest.mark.parametrize("way", WAYS)
def test_a_provider_is_asked_by_a_config_or_by_an_sdk(way):
    answer, received = ask_fake(way, Say("hello"), temperature=0.5, extra_body={"top_k": 4})
    assert said(answer) == "hello"
    assert received[0].path == "/v1/chat/completions"
    assert received[0].payload["temperature"] == 0.5
    assert received[0].payload["top_k"] == 4


@pytest.mark.parametrize("way", WAYS)
def test_how_to_ask_is_said_to_the_client_and_not_to_the_model(way):
    _, received = ask_fake(way, Say("hello"), timeout=30.0, extra_headers={"x-title": "trial"})
    assert set(received[0].payload) == {"model", "messages"}
    assert received[0].headers["x-title"] == "trial"


def test_a_timeout_among_the_sampling_arguments_is_heeded():
    with pytest.raises(vf.ModelError, match=r"not answered within timeout=0\.05"):
        ask_fake(by_config, Hang(), timeout=0.05)


@pytest.mark.parametrize("way", WAYS)
def test_a_provider_that_fails_is_an_error_of_the_model(way):
    with pytest.raises(vf.ProviderError):
        ask_fake(way, Fail(502))
    with pytest.raises(vf.ModelError):
        ask_fake(way, Fail(404, "no such model"))


@pytest.mark.parametrize("way", WAYS)
def test_a_prompt_that_does_not_fit_is_told_apart(way):
    with pytest.raises(vf.OverlongPromptError):
        ask_fake(way, Fail(400, "This model's maximum context length is 8192 tokens."))


@pytest.mark.parametrize("way", WAYS)
def test_what_else_an_answer_has_is_kept(way):
    choice = {"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": "stop", "token_ids": [7]}
    whole = {"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
    answer, _ = ask_fake(way, Say({**whole, "prompt_token_ids": [1]}))
    assert (answer["choices"][0]["token_ids"], answer["prompt_token_ids"]) == ([7], [1])


def test_an_answer_that_is_no_json_is_an_error_of_the_model():
    with pytest.raises(vf.ModelError, match="no answer of a model"):
        ask_fake(by_config, Raw(b"<html>"))


def test_a_provider_of_another_dialect_is_translated_for():
    def anthropic(url):
        return vf.ClientConfig(base_url=url, api_key="k", dialects=("anthropic",))

    answer, received = ask_fake(anthropic, Say("bonjour"))
    assert said(answer) == "bonjour"
    assert received[0].path == "/v1/messages"


@pytest.mark.parametrize("name", ["messages", "prompt", "request", "whatever"])
def test_a_function_gets_the_messages_or_the_request_as_its_parameter_says(name):
    namespace: dict[str, Any] = {}
    exec(f"def model({name}): return type({name}).__name__", namespace)  # noqa: S102 - the name is what it is about
    assert said(complete(namespace["model"])) == ("list" if name in ("messages", "prompt") else "dict")


def test_functions_may_be_async_or_objects_and_return_replies():
    async def model(messages):
        return Reply("calling", (ReplyCall("look", "{}"),))

    class Policy:
        def __call__(self, request):
            return {"text": request["model"]}

    answer = complete(model)
    assert answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "look"
    assert said(complete(Policy())) == "m"


def test_an_upstream_or_the_name_of_one_will_do(tmp_path):
    script = tmp_path / "script.txt"
    script.write_text('["from a file"]')
    assert said(complete(ScriptedModel(["from a script"]))) == "from a script"
    assert said(complete(f"scripted:{script}")) == "from a file"


def test_each_rollout_starts_a_script_at_its_beginning():
    rows = [{"question": "Guess.", "info": {"number": 1}}] * 3
    results = Guessing(dataset=rows).evaluate_sync(ScriptedModel(["0", "1"]), "m")
    assert [output["reward"] for output in results["outputs"]] == [1.0, 1.0, 1.0]


def test_a_client_that_is_like_an_sdk_s_is_enough():
    class Completions:
        async def create(self, **request):
            assert "stream" not in request
            message = {"role": "assistant", "content": request["model"]}
            return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}

    assert said(complete(SimpleNamespace(chat=SimpleNamespace(completions=Completions())))) == "m"


@pytest.mark.parametrize("given", [None, 7, object()])
def test_anything_else_is_refused_with_what_may_be_given(given):
    with pytest.raises(vf.UsageError, match="expected a ClientConfig"):
        make_upstream(given)


def test_an_evaluation_by_a_config_as_documented():
    async def scenario():
        async with FakeProvider(otherwise=Say("0")) as fake:
            config = vf.ClientConfig(api_key="...", base_url=fake.base_url)
            env = Guessing(max_turns=2)
            first = await env.evaluate(client=config, model="gpt-4", num_examples=10)
            second = await env.evaluate(client=config, model="gpt-4", num_examples=1)
            return first["metadata"]["avg_reward"], second["metadata"]["avg_reward"]

    assert asyncio.run(scenario()) == (pytest.approx(1 / 3), 1.0)


def test_a_client_that_cannot_be_used_is_said_before_any_rollout(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(vf.UsageError, match="OPENAI_API_KEY"):
        Guessing().evaluate_sync(vf.ClientConfig(), "m")


class OpenAILike:
    """An upstream that speaks what OpenAI does, and remembers what it was sent."""

    def __init__(self, *dialects):
        self.dialects, self.sent = frozenset(dialects), []

    @asynccontextmanager
    async def ask(self, request):
        self.sent.append(request.payload)

        async def chunks():
            yield b'{"choices": [{"message": {"role": "assistant", "content": "ok"}}]}'

        yield SimpleNamespace(status=200, chunks=chunks())


@pytest.mark.parametrize(
    ("dialects", "name"),
    [(("openai_chat", "openai_responses"), "max_completion_tokens"), (("openai_chat",), "max_tokens")],
)
def test_openai_is_told_the_length_by_the_name_that_its_models_take(dialects, name):
    upstream = OpenAILike(*dialects)
    asyncio.run(Client(upstream, None).complete(chat_request(ASKED, "m", None, {"max_tokens": 9})))
    assert {key: value for key, value in upstream.sent[0].items() if "tokens" in key} == {name: 9}
