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
