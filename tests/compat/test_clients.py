import pytest

from seatrial.compat.clients import OpenAIChatCompletionsClient, resolve_client, setup_openai_client
from seatrial.env.client_config import ClientConfig


def test_a_client_is_what_it_was_made_from():
    given = object()
    assert OpenAIChatCompletionsClient(given) is resolve_client(given) is given


def test_an_sdk_s_client_is_made_from_a_config(monkeypatch):
    pytest.importorskip("openai")
    monkeypatch.setenv("OWN_MODEL_KEY", "secret")
    client = setup_openai_client(ClientConfig(api_base_url="http://127.0.0.1:1/v1", api_key_var="OWN_MODEL_KEY"))
    assert (str(client.base_url), client.api_key) == ("http://127.0.0.1:1/v1/", "secret")
