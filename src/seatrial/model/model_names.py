"""Names of models: whose a model is, and what its provider calls it when a name like `openai/gpt-5` was given."""

import re
from typing import Literal

Provider = Literal["anthropic", "google", "openai"]

_PREFIXES: dict[str, Provider] = {"anthropic": "anthropic", "google": "google", "gemini": "google", "openai": "openai"}
_FAMILIES: tuple[tuple[re.Pattern[str], Provider], ...] = (
    (re.compile(r"claude-"), "anthropic"),
    (re.compile(r"gemini-"), "google"),
    (re.compile(r"(?:gpt-|chatgpt-|codex-|o\d)"), "openai"),
)
_UPSTREAM = re.compile(r"(?:^|,)(anthropic|google|openai)(?:,|$)")


def provider_of(model: str) -> Provider | None:
    """Whose model it is, as far as its name says so; None where several may have it."""
    prefix, slash, _ = model.partition("/")
    if slash:
        return _PREFIXES.get(prefix)
    return next((provider for family, provider in _FAMILIES if family.match(model)), None)


def plain_name(model: str) -> str:
    """A model's name without that of its provider before it, as agents expect it."""
    prefix, slash, name = model.partition("/")
    return name if slash and prefix in _PREFIXES and name else model


def name_at(model: str | None, upstream: str | None) -> str | None:
    """What to call a model at an upstream: one that is a provider itself does not know its own name in it."""
    found = _UPSTREAM.search(upstream or "")
    prefix, slash, _ = (model or "").partition("/")
    if model is None or found is None or not slash or _PREFIXES.get(prefix) != found[1]:
        return model
    return plain_name(model)
