"""Whose a model is, and what it is called there."""

import pytest

from seatrial.model.model_names import name_at, plain_name, provider_of


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("claude-opus-5", "anthropic"),
        ("anthropic/anything", "anthropic"),
        ("gpt-5.1", "openai"),
        ("o3-mini", "openai"),
        ("openai/gpt-5", "openai"),
        ("gemini-3-pro", "google"),
        ("gemini/gemini-3-pro", "google"),
        ("google/gemini-3-pro", "google"),
        ("llama-4", None),
        ("openrouter/claude-opus-5", None),
        ("olmo-2", None),
        ("", None),
    ],
)
def test_a_name_may_say_whose_it_is(model, provider):
    assert provider_of(model) == provider


@pytest.mark.parametrize(
    ("model", "upstream", "name"),
    [
        ("anthropic/claude-x", "anthropic", "claude-x"),
        ("openai/gpt-5", "openai,concurrent=8", "gpt-5"),
        ("openai/gpt-5", "cache:answers,openai", "gpt-5"),
        ("gemini/gemini-3", "google", "gemini-3"),
        ("openai/gpt-5", "https://router/v1", "openai/gpt-5"),
        ("openai/gpt-5", "openai:https://router/v1", "openai/gpt-5"),
        ("openai/gpt-5", "anthropic", "openai/gpt-5"),
        ("meta/llama", "openai", "meta/llama"),
        ("gpt-5", "openai", "gpt-5"),
        ("openai/gpt-5", None, "openai/gpt-5"),
        (None, "openai", None),
    ],
)
def test_only_a_provider_itself_does_without_its_name(model, upstream, name):
    assert name_at(model, upstream) == name


def test_agents_get_plain_names():
    assert [plain_name(each) for each in ("openai/gpt-5", "meta/llama", "x", "openai/")] == [
        *("gpt-5", "meta/llama", "x", "openai/"),
    ]
