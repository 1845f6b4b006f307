"""Clients: what may stand for a model, and what it answers or fails with."""

import asyncio
import inspect
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import openai
import pytest

import seatrial as vf
from seatrial.env.client import Client, Policy, chat_request, make_upstream, open_client
from seatrial.gateway.upstreams.replies import Reply, ReplyCall
from seatrial.gateway.upstreams.scripted import ScriptedModel
from seatrial.testing.fake_provider import Fail, FakeProvider, Hang, Raw, Say
from tests.env.games import ROWS, Guessing, counting

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


@pytest.mark.parametrize(
    ("model", "given"),
    [
        (lambda messages: (type(messages),), ["list"]),
        (lambda whatever: (type(whatever),), ["list"]),
        (lambda m, seed=7: (type(m), type(seed)), ["list", "int"]),
        (lambda *m: [type(each) for each in m], ["list"]),
        (lambda m, **_: type(m), ["list"]),
        (lambda m, r: (type(m), type(r)), ["list", "dict"]),
        (lambda request, messages: (type(request), type(messages)), ["list", "dict"]),
        (lambda request: (type(request),), ["dict"]),
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
def test_a_function_gets_the_messages_and_the_request_by_their_places(model, given, is_async):
    def names(*args):
        answer = model(*args)
        return " ".join(each.__name__ for each in (answer if isinstance(answer, tuple | list) else [answer]))

    async def later(*args):
        return names(*args)

    wrapped = later if is_async else names
    setattr(wrapped, "__signature__", inspect.signature(model))  # noqa: B010 - no attribute that types know
    assert said(complete(wrapped)).split() == given


@pytest.mark.parametrize("model", [lambda: "x", lambda *, messages: "x", lambda a, b, c: "x"])
def test_a_function_that_cannot_be_called_so_is_refused_before_anything_starts(model):
    with pytest.raises(vf.UsageError, match=r"takes .*, expected \(messages\) or \(messages, request\)"):
        complete(model)


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


def asked_with(config_of, monkeypatch, **environ):
    """The authorization header by which a provider is asked."""
    for name, value in {"OPENAI_API_KEY": "from-the-usual-variable", **environ}.items():
        monkeypatch.setenv(name, value)

    async def scenario():
        async with FakeProvider(Say("0")) as fake:
            env = vf.MultiTurnEnv(dataset=[{"prompt": "hi"}], max_turns=1)
            state = await env.rollout({"prompt": "hi"}, config_of(fake.base_url), "m")
        assert state["error"] is None
        return fake.received[0].headers.get("authorization")

    return asyncio.run(scenario())


def test_a_key_that_is_given_is_used(monkeypatch):
    shown = asked_with(lambda url: vf.ClientConfig(api_key="secret", base_url=url), monkeypatch)
    assert shown == "Bearer secret"


def test_a_key_is_read_from_the_variable_that_is_named(monkeypatch):
    shown = asked_with(lambda url: vf.ClientConfig(api_key_var="MINE", base_url=url), monkeypatch, MINE="mine")
    assert shown == "Bearer mine"


def test_another_address_does_not_get_openai_s_key(monkeypatch):
    assert asked_with(lambda url: vf.ClientConfig(base_url=url), monkeypatch) is None


def test_the_older_name_of_the_address_is_understood():
    assert vf.ClientConfig(api_base_url="http://here/v1").base_url == "http://here/v1"


def test_without_anything_it_is_openai_with_its_variable(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(vf.UsageError, match="OPENAI_API_KEY"):
        vf.ClientConfig().provider()
    options = vf.ClientConfig(api_key="x").provider().options
    assert options.base_url == "https://api.openai.com/v1"
    assert options.dialects == {"openai_chat", "openai_responses"}


def test_timeouts_and_retries_are_those_of_the_provider():
    config = vf.ClientConfig(
        base_url="http://here/v1", timeout=5.0, connect_timeout=1.0, max_retries=2, max_connections=7
    )
    options = config.provider().options
    assert (options.first_byte_timeout_sec, options.connect_timeout_sec) == (5.0, 1.0)
    assert (options.retries, options.max_concurrent) == (2, 7)


def test_the_key_is_not_shown():
    assert "secret" not in repr(vf.ClientConfig(api_key="secret", extra_headers={"x-key": "secret"}))


@pytest.mark.parametrize(
    ("values", "named"),
    [({"timeout": -1.0}, "timeout"), ({"max_retries": "x"}, "max_ret"), ({"api_key": 7}, "api")],
)
def test_values_that_make_no_sense_are_named(values, named):
    with pytest.raises(vf.UsageError, match=f"ClientConfig: {named}"):
        vf.ClientConfig(**values)


def test_an_address_that_is_none_is_said_before_anything_starts():
    with pytest.raises(vf.UsageError, match="not the address of a provider"):
        vf.ClientConfig(base_url="here").provider()


@pytest.mark.parametrize(
    ("client_type", "dialect"),
    [
        ("openai_chat_completions", "openai_chat"),
        ("openai_chat_completions_token", "openai_chat"),
        ("renderer", "openai_chat"),
        ("openai_responses", "openai_responses"),
        ("anthropic_messages", "anthropic"),
    ],
)
def test_a_type_of_client_says_how_requests_are_written(client_type, dialect):
    config = vf.ClientConfig(base_url="http://here/v1", client_type=client_type)
    assert config.provider().options.dialects == {dialect}
    assert vf.ClientConfig(base_url="http://here/v1").provider().options.dialects == {"openai_chat"}


def test_what_verifiers_takes_is_taken_and_what_it_does_not_is_refused():
    config = vf.ClientConfig(
        api_base_url="http://here/v1", max_keepalive_connections=28000, client_idx=3, extra_headers=None
    )
    assert (config.api_base_url, config.max_keepalive_connections, config.extra_headers) == (
        "http://here/v1",
        28000,
        {},
    )
    with pytest.raises(vf.UsageError, match="client_type"):
        vf.ClientConfig(client_type="telepathy")


def test_rollouts_are_spread_over_endpoints_and_stay_with_theirs():
    class Echo(vf.MultiTurnEnv):
        async def env_response(self, messages, state, **_):
            return "again"

    async def scenario():
        async with FakeProvider(*[Say("a")] * 4) as first, FakeProvider(*[Say("b")] * 4) as second:
            endpoints = [{"api_base_url": first.base_url}, vf.ClientConfig(base_url=second.base_url)]
            config = vf.ClientConfig(endpoint_configs=endpoints, api_key="secret", max_retries=0)
            env = Echo(dataset=[{"prompt": "hi"}] * 4, max_turns=2)
            outputs = (await env.evaluate(config, "m", max_concurrent=1))["outputs"]
            keys = {each.headers.get("authorization") for each in (*first.received, *second.received)}
        return outputs, keys

    outputs, keys = asyncio.run(scenario())
    said = [[step["completion"][0]["content"] for step in output["trajectory"]] for output in outputs]
    assert said == [["a", "a"], ["b", "b"], ["a", "a"], ["b", "b"]]
    assert keys == {"Bearer secret"}


def test_keys_of_endpoints_go_along_to_other_processes_and_are_not_shown(monkeypatch):
    monkeypatch.setenv("MINE", "secret")
    config = vf.ClientConfig(endpoint_configs=[{"base_url": "http://here/v1", "api_key_var": "MINE"}]).with_key()
    monkeypatch.delenv("MINE")
    assert [each.api_key for each in config.endpoints()] == ["secret"]
    assert "secret" not in repr(config)
    with pytest.raises(vf.UsageError, match="no endpoints of its own"):
        vf.ClientConfig(endpoint_configs=[config])


def test_an_endpoint_is_a_table_or_a_config():
    with pytest.raises(vf.UsageError, match="endpoint_configs: 'h' is none"):
        vf.ClientConfig(endpoint_configs="http://localhost/v1")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"api_key": ""}, "api_key: is empty, expected a key; leave it out where none is needed"),
        ({"api_key": "a\nb"}, "api_key: is text with characters that no key has"),
        ({"extra_headers": {"X-Team": "a\r\nHost: b"}}, "the header X-Team holds a line break"),
        ({"extra_headers": {"X Team": "a"}}, "'X Team' is no name of a header"),
    ],
)
def test_what_cannot_be_sent_is_refused_before_anything_is(values, words):
    with pytest.raises(vf.UsageError, match=words):
        vf.ClientConfig(**values)


class Served:
    """An upstream that counts how often it is opened and closed."""

    def __init__(self, text):
        self.inner = make_upstream(lambda messages: text)
        self.dialects = self.inner.dialects
        self.life = []

    def ask(self, request):
        return self.inner.ask(request)

    async def __aenter__(self):
        self.life.append("opened")
        return self

    async def __aexit__(self, *_):
        self.life.append("closed")


def test_each_output_says_which_version_it_was_made_with():
    async def scenario():
        policy = Policy(lambda messages: "old")
        env = vf.MultiTurnEnv(dataset=[{"prompt": "q"}] * 4, max_turns=1)
        came = []
        async for output in env.stream(-1, policy, "m", max_concurrent=1, state_columns=["model"]):
            came.append((output["completion"][0]["content"], output["policy_version"], output["model"]))
            if len(came) == 2:
                assert policy.swap(lambda messages: "new", model="better") == 1
        return came

    assert asyncio.run(scenario()) == [("old", 0, "m"), ("old", 0, "m"), ("new", 1, "better"), ("new", 1, "better")]


def test_a_rollout_keeps_the_client_that_it_began_with():
    async def scenario():
        policy = Policy(None, version=7)

        async def old(messages):
            policy.swap(lambda messages: "new")
            return "1"

        policy.client = old
        env = Guessing(dataset=ROWS[:1], max_turns=2)
        return await env.evaluate(policy, "m", rollouts_per_example=2, max_concurrent=1)

    first, second = asyncio.run(scenario())["outputs"]
    assert [step["completion"][0]["content"] for step in first["trajectory"]] == ["1", "1"]
    assert (first["policy_version"], second["completion"][0]["content"]) == (7, "new")


def test_clients_are_opened_once_and_closed_when_no_rollout_has_them():
    async def scenario():
        old, new = Served("old"), Served("new")
        policy = Policy(old)
        env = vf.MultiTurnEnv(dataset=[{"prompt": "q"}] * 4, max_turns=1)
        count = 0
        async for _ in env.stream(-1, policy, "m", max_concurrent=1):
            count += 1
            if count == 2:
                policy.swap(new)
            if count == 4:
                assert old.life == ["opened", "closed"]
        return old.life, new.life

    assert asyncio.run(scenario()) == (["opened", "closed"], ["opened", "closed"])


def test_weights_that_change_in_place_are_another_version_of_the_same_client():
    policy = Policy(counting)
    assert (policy.swap(), policy.swap(version=40), policy.swap()) == (1, 40, 41)
    assert policy.client is counting


def test_a_client_that_is_none_fails_its_rollout_and_no_other():
    async def scenario():
        policy, came = Policy(counting), []
        async for output in Guessing(max_turns=1).stream(-1, policy, "m", max_concurrent=1):
            came.append(output["error"] and output["error"]["kind"])
            policy.swap(7 if len(came) == 1 else counting)
        return came

    assert asyncio.run(scenario()) == [None, "usage", None]


def test_a_rollout_by_hand_takes_a_policy_too():
    state = asyncio.run(Guessing(max_turns=1).rollout(ROWS[0], Policy(counting), "m"))
    assert state["error"] is None


def test_it_works_wherever_a_client_does():
    results = Guessing(max_turns=1).evaluate_sync(
        Policy(vf.ClientConfig(base_url="http://127.0.0.1:9/v1", max_retries=0)), "m"
    )
    assert results["metadata"]["base_url"] == "http://127.0.0.1:9/v1"
    assert results["metadata"]["errors_by_kind"] == {"model": 3}


ODD = Fail(500, "this one not", headers={"retry-after": "0"})
DOWN = Fail(503, "down", headers={"retry-after": "0"})
PAGE = Raw(b"<html>", 418, headers={"retry-after": "0"})


@pytest.mark.parametrize("failure", [ODD, DOWN, PAGE])
@pytest.mark.parametrize("retries", [0, 1, 2])
def test_a_request_is_sent_once_and_as_often_again_as_the_config_says(failure, retries):
    async def scenario():
        async with FakeProvider(otherwise=failure) as fake:
            config = vf.ClientConfig(base_url=fake.base_url, max_retries=retries)
            results = await vf.SingleTurnEnv(dataset=[{"question": "?"}]).evaluate(config, "m")
            return results["outputs"][0]["error"], fake.received

    error, received = asyncio.run(scenario())
    assert len(received) == 1 + retries
    assert {each.payload["messages"][0]["content"] for each in received} == {"?"}
    assert (error["error"], error["retryable"]) == ("ProviderError", True)
