"""ClientConfig: which key goes where, and values that make no sense."""

import asyncio

import pytest

import seatrial as vf
from seatrial.testing.fake_provider import FakeProvider, Say


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
