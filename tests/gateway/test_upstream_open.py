"""Upstreams by name."""

import asyncio
from pathlib import Path

import pytest

from seatrial.errors import UsageError
from seatrial.gateway.upstreams.cache import CachedUpstream
from seatrial.gateway.upstreams.open import make_upstream, open_upstream
from seatrial.gateway.upstreams.provider import HttpProvider
from seatrial.gateway.upstreams.scripted import ScriptedModel
from seatrial.testing.fake_provider import FakeProvider, Say
from tests.gateway.upstream_calls import ask, call

KEYS = {"OPENAI_API_KEY": "o", "ANTHROPIC_API_KEY": "a", "GEMINI_API_KEY": "g", "MY_KEY": "m"}
GOOGLE = "https://generativelanguage.googleapis.com"


@pytest.mark.parametrize(
    ("text", "base_url", "key_var", "dialects"),
    [
        ("openai", "https://api.openai.com/v1", "OPENAI_API_KEY", {"openai_chat", "openai_responses"}),
        ("anthropic", "https://api.anthropic.com", "ANTHROPIC_API_KEY", {"anthropic"}),
        ("openai,key=MY_KEY", "https://api.openai.com/v1", "MY_KEY", {"openai_chat", "openai_responses"}),
        ("openai:https://h:8/v1", "https://h:8/v1", None, {"openai_chat", "openai_responses"}),
        ("anthropic:https://h,key=MY_KEY", "https://h", "MY_KEY", {"anthropic"}),
        ("google", GOOGLE, "GEMINI_API_KEY", {"google"}),
        ("google,key=MY_KEY", GOOGLE, "MY_KEY", {"google"}),
        ("google:https://h", "https://h", None, {"google"}),
        ("https://h/v1/", "https://h/v1", None, {"openai_chat"}),
        ("http://h:8000,dialects=openai_chat+anthropic", "http://h:8000", None, {"openai_chat", "anthropic"}),
    ],
)
def test_providers(text: str, base_url: str, key_var: str | None, dialects: set[str]):
    upstream = make_upstream(text, KEYS)
    assert isinstance(upstream, HttpProvider)
    assert (upstream.options.base_url, upstream.options.api_key_var) == (base_url, key_var)
    assert upstream.dialects == dialects


def test_googles_key_has_two_names():
    upstream = make_upstream("google", {"GOOGLE_API_KEY": "g"})
    assert isinstance(upstream, HttpProvider)
    assert upstream.options.api_key_var == "GOOGLE_API_KEY"
    with pytest.raises(UsageError, match="GEMINI_API_KEY"):
        make_upstream("google", {})


def test_options_of_a_provider():
    upstream = make_upstream("https://h/v1,concurrent=7,retries=0,key=MY_KEY,first_byte=30,idle=9", KEYS)
    assert isinstance(upstream, HttpProvider)
    assert (upstream.options.max_concurrent, upstream.options.retries) == (7, 0)
    assert (upstream.options.first_byte_timeout_sec, upstream.options.idle_timeout_sec) == (30.0, 9.0)


@pytest.mark.parametrize("text", ["openai", "https://h/v1", "anthropic:https://h"])
def test_a_provider_is_trusted_by_the_user_s_certificates(text):
    upstream = make_upstream(text, KEYS, "/my/ca.pem")
    assert isinstance(upstream, HttpProvider)
    assert upstream.options.ca_file == "/my/ca.pem"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "there is no upstream ''"),
        ("gpt-5", "there is no upstream 'gpt-5'; there are: anthropic, cache:"),
        ("openai:h/v1", "is not the address of a provider"),
        ("https://h/v1,speed=9", "'speed=9' is no option of a provider; there are: key="),
        ("https://h/v1,retries=many", "'retries=many' is no option"),
        ("https://h/v1,concurrent=0", "greater than 0"),
        ("https://h/v1,first_byte=0", "greater than 0"),
        ("https://h/v1,idle=2m", "'idle=2m' is no option"),
        ("https://h/v1,dialects=french", "openai_chat"),
        ("https://h/v1,key=OTHER", "set the variable OTHER"),
        ("scripted", "scripted needs a file"),
        ("scripted:/no/such/file", "cannot be read"),
        ("replay:", "replay needs a file"),
        ("cache:folder", "should be cache:FOLDER,UPSTREAM"),
        ("cache:folder,nothing", "there is no upstream 'nothing'"),
    ],
)
def test_what_cannot_be_opened_says_why(text: str, complaint: str):
    with pytest.raises(UsageError, match=complaint):
        make_upstream(text, KEYS)


def test_a_key_is_never_sent_where_it_was_not_named_for():
    async def run():
        async with FakeProvider(Say()) as fake, open_upstream(f"openai:{fake.base_url}/v1", KEYS) as upstream:
            await ask(upstream, call())
            return fake.received[0].headers

    assert "authorization" not in asyncio.run(run())


def test_files_and_a_cache_before_a_provider(tmp_path: Path):
    script = tmp_path / "script.json"
    script.write_text('["hi"]')
    (tmp_path / "calls.jsonl").touch()
    assert isinstance(make_upstream(f"scripted:{script}"), ScriptedModel)
    make_upstream(f"replay:{tmp_path}/calls.jsonl")

    async def run():
        async with FakeProvider() as fake:
            text = f"cache:{tmp_path}/kept,openai:{fake.base_url}/v1,key=MY_KEY"
            for _ in range(2):
                async with open_upstream(text, KEYS) as upstream:
                    assert isinstance(upstream, CachedUpstream)
                    assert (await ask(upstream, call())).status == 200
            assert [received.headers["authorization"] for received in fake.received] == ["Bearer m"]

    asyncio.run(run())


def test_a_folder_that_cannot_be_made(tmp_path: Path):
    (tmp_path / "file").touch()

    async def run():
        async with open_upstream(f"cache:{tmp_path}/file/kept,https://h/v1"):
            pass

    with pytest.raises(UsageError, match="answers cannot be kept"):
        asyncio.run(run())
