"""Which model is asked, and where: options, providers, upstreams and files of endpoints."""

from pathlib import Path

import pytest

from seatrial.cli.eval_prepared import model_asked, sampling_asked
from seatrial.errors import UsageError

TOML = """
[[endpoint]]
endpoint_id = "mine"
model = "owner/mine-7b"
url = "http://localhost:9/v1"
key = "MINE_KEY"
"""
PYTHON = 'ENDPOINTS = {"mine": {"model": "owner/mine-7b", "url": "http://localhost:9/v1", "key": "MINE_KEY"}}'


def asked(environ=(), **options):
    usual = dict.fromkeys(("model", "upstream", "provider", "base_url", "key_var", "endpoints_path"))
    return model_asked({**usual, "headers": {}, **options}, dict(environ))


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_without_options_it_is_openai():
    found = asked()
    assert (found.name, found.client.base_url, found.client.api_key_var) == (
        "gpt-4.1-mini",
        "https://api.openai.com/v1",
        None,
    )


def test_a_key_goes_only_where_it_was_named_for():
    assert asked(base_url="http://localhost:8000/v1").client.api_key_var is None
    assert asked(base_url="http://localhost:8000/v1", key_var="MY_KEY").client.api_key_var == "MY_KEY"


def test_headers_are_sent_along():
    assert asked(headers={"X-Team": "a"}).client.extra_headers == {"X-Team": "a"}


@pytest.mark.parametrize(
    ("options", "environ", "address", "key"),
    [
        ({"provider": "openrouter"}, {}, "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
        ({"provider": "openrouter", "key_var": "OTHER"}, {}, "https://openrouter.ai/api/v1", "OTHER"),
        ({"provider": "vllm"}, {}, "http://localhost:8000/v1", None),
        ({"provider": "vllm"}, {"VLLM_API_KEY": "x"}, "http://localhost:8000/v1", "VLLM_API_KEY"),
        ({"provider": "vllm", "base_url": "http://other/v1"}, {}, "http://other/v1", None),
    ],
)
def test_providers_have_an_address_and_a_key(options, environ, address, key):
    client = asked(environ, **options).client
    assert (client.base_url, client.api_key_var) == (address, key)


def test_anthropic_speaks_its_own_dialect():
    assert asked(provider="anthropic").client == "anthropic"
    assert asked(provider="anthropic", key_var="MY_KEY").client == "anthropic,key=MY_KEY"


def test_a_provider_nobody_knows_is_an_error():
    with pytest.raises(UsageError, match="no provider 'nobody'; there are: anthropic, deepseek"):
        asked(provider="nobody")


@pytest.mark.parametrize(("file", "text"), [("endpoints.toml", TOML), ("endpoints.py", PYTHON)])
def test_a_file_of_endpoints_names_models(file, text):
    Path("configs").mkdir()
    Path("configs", file).write_text(text)
    found = asked(model="mine")
    assert (found.name, found.client.base_url, found.client.api_key_var) == (
        "owner/mine-7b",
        "http://localhost:9/v1",
        "MINE_KEY",
    )
    assert asked(model="other").client.base_url == "https://api.openai.com/v1"
    assert asked(model="mine", base_url="http://b/v1").name == "mine"


@pytest.mark.parametrize("text", ["[[endpoint]]\nmodel = 'x'", "nothing", "[[endpoint]]\nendpoint_id = 'a'\nmodel = 3"])
def test_a_file_that_is_none_is_an_error(text):
    Path("mine.toml").write_text(text)
    with pytest.raises(UsageError, match=r"mine.toml: cannot be read as a file of endpoints"):
        asked(model="mine", endpoints_path=Path("mine.toml"))


def test_the_sampling_object_goes_before_options_of_their_own():
    options = {"max_tokens": 10, "temperature": None, "sampling_args": {"max_tokens": 20, "top_p": 0.9}}
    assert sampling_asked(options) == {"max_tokens": 20, "top_p": 0.9}
