"""Upstreams by name, as a command line or a job file gives them.

    openai                      api.openai.com, with the key in OPENAI_API_KEY
    anthropic                   api.anthropic.com, with the key in ANTHROPIC_API_KEY
    google                      Google's Gemini API, with the key in GEMINI_API_KEY or GOOGLE_API_KEY
    openai:URL, anthropic:URL   another provider that speaks so; google:URL as well
    https://host/v1             a provider that speaks chat completions
    scripted:FILE               replies from a file, in a line or by rules
    replay:FILE                 answers from an earlier calls.jsonl
    cache:FOLDER,UPSTREAM       any of these, each thing asked once

Providers take options after a comma: `key=VARIABLE`, `concurrent=64`, `retries=4`, `dialects=openai_chat+anthropic`,
`first_byte=600` and `idle=300` (seconds of silence before an answer and in the middle of one). A key goes only to an
address it was named for. Other names are plug-ins of the group `seatrial.upstreams`.
"""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from seatrial.errors import UsageError
from seatrial.gateway.api import Upstream
from seatrial.gateway.dialects import DIALECTS, PROVIDERS
from seatrial.gateway.upstreams.cache import CachedUpstream
from seatrial.gateway.upstreams.http import ProviderOptions
from seatrial.gateway.upstreams.provider import HttpProvider
from seatrial.gateway.upstreams.replay import ReplayModel
from seatrial.gateway.upstreams.scripted import load_script
from seatrial.plugins import load_plugin, plugin_names

_GROUP = "seatrial.upstreams"

_SECONDS = {"first_byte": "first_byte_timeout_sec", "idle": "idle_timeout_sec"}


def make_upstream(text: str, environ: Mapping[str, str] = os.environ, ca_file: str | None = None) -> Upstream:
    """The upstream a text names, not started yet. Raises UsageError that says what is wrong with it.

    A provider is trusted by the certificates in `ca_file`, if there is one.
    """
    trust = {"ca_file": ca_file} if ca_file else {}
    kind, colon, rest = text.strip().partition(":")
    if kind in {"http", "https"} and colon:
        return _provider(text.strip(), trust, environ)
    if kind == "cache":
        return _cached(text, rest, environ, ca_file)
    if kind in {"scripted", "replay"}:
        if not rest:
            raise UsageError(f"{kind} needs a file: {kind}:FILE")
        path = Path(rest).expanduser()
        return load_script(path) if kind == "scripted" else ReplayModel.from_file(path)
    name, comma, settings = kind.partition(",")
    if name in PROVIDERS:
        at_home = not rest or bool(comma)
        values = {**_named(name, environ, at_home=at_home), **trust}
        return _provider(f",{settings}{colon}{rest}" if at_home else rest, values, environ)
    return _plugin(kind, rest, text)


@asynccontextmanager
async def open_upstream(
    text: str, environ: Mapping[str, str] = os.environ, ca_file: str | None = None
) -> AsyncIterator[Upstream]:
    """The upstream a text names, for the length of a block. Raises UsageError that says what is wrong with it."""
    upstream = make_upstream(text, environ, ca_file)
    if isinstance(upstream, AbstractAsyncContextManager):
        async with upstream:
            yield upstream
    else:
        yield upstream


def missing_plugin(text: str) -> str | None:
    """The plug-in that an upstream needs and that is not installed here; None when nothing is missing."""
    kind, _, rest = text.strip().partition(":")
    if kind == "cache":
        return missing_plugin(rest.partition(",")[2])
    ours = {"http", "https", "scripted", "replay", *PROVIDERS}
    return None if kind.partition(",")[0] in ours or kind in plugin_names(_GROUP) else kind


def _named(name: str, environ: Mapping[str, str], *, at_home: bool) -> Mapping[str, Any]:
    """The options of a provider; where it is, unless another address is named, and which of its variables has a key."""
    provider = PROVIDERS[name]
    spoken = {"dialects": frozenset(each.name for each in DIALECTS.values() if each.provider is provider)}
    if not at_home:
        return spoken
    key = next(filter(environ.get, provider.key_variables), provider.key_variables[0])
    return {**spoken, "base_url": provider.base_url, "api_key_var": key}


def _cached(text: str, rest: str, environ: Mapping[str, str], ca_file: str | None) -> Upstream:
    folder, _, inner = rest.partition(",")
    if not folder or not inner:
        raise UsageError(f"{text!r} should be cache:FOLDER,UPSTREAM, as in cache:answers,openai")
    return CachedUpstream(make_upstream(inner, environ, ca_file), Path(folder).expanduser(), scope=inner)


def _provider(text: str, defaults: Mapping[str, Any], environ: Mapping[str, str]) -> Upstream:
    url, *settings = text.split(",")
    values = dict(defaults) | ({"base_url": url} if url else {})
    for setting in filter(None, settings):
        values |= _setting(setting)
    try:
        options = ProviderOptions.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"upstream {text.lstrip(',')!r}: {first['msg'].removeprefix('Value error, ')}") from error
    return HttpProvider(options, environ=environ)


def _setting(text: str) -> dict[str, Any]:
    name, _, value = text.partition("=")
    if name == "key" and value:
        return {"api_key_var": value}
    if name in {"concurrent", "retries"} and value.isdecimal():
        return {"max_concurrent" if name == "concurrent" else "retries": int(value)}
    if name in _SECONDS and value.isdecimal():
        return {_SECONDS[name]: float(value)}
    if name == "dialects" and value:
        return {"dialects": frozenset(value.split("+"))}
    known = "key=VARIABLE, concurrent=NUMBER, retries=NUMBER, dialects=NAME+NAME, first_byte=SECONDS, idle=SECONDS"
    raise UsageError(f"{text!r} is no option of a provider; there are: {known}")


def _plugin(kind: str, rest: str, text: str) -> Upstream:
    if kind not in plugin_names(_GROUP):
        ours = sorted([*PROVIDERS, "cache:FOLDER,UPSTREAM", "https://HOST/v1", "replay:FILE", "scripted:FILE"])
        known = ", ".join([*ours, *plugin_names(_GROUP)])
        raise UsageError(f"there is no upstream {text!r}; there are: {known}")
    upstream: Upstream = load_plugin(_GROUP, kind)(rest)
    return upstream
