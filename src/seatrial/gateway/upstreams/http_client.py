"""The HTTP client of a provider: whom it trusts, which proxy it takes, and the key that it sends."""

import urllib.request
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp.connector import Connection
from aiohttp.http import HttpProcessingError

from seatrial.errors import UsageError
from seatrial.gateway.upstreams.provider_options import ProviderOptions
from seatrial.sandbox.ca_file import client_trust


def read_key(options: ProviderOptions, environ: Mapping[str, str]) -> str | None:
    """The key, if the provider takes one. Raises UsageError when it is not in the environment, or cannot be one."""
    if options.api_key_var is None:
        return None
    key = environ.get(options.api_key_var, "").strip()
    if not key:
        raise UsageError(
            f"the provider at {options.base_url} needs a key: set the variable {options.api_key_var} before starting"
        )
    if not key.isascii() or not key.isprintable():
        raise UsageError(f"the variable {options.api_key_var} holds characters that no key has")
    return key


class _Connector(aiohttp.TCPConnector):
    """Calls `connected` in the task of a request that has got its connection."""

    def __init__(self, connected: Callable[[], object], **options: Any) -> None:
        super().__init__(**options)
        self._connected = connected

    async def connect(self, *args: Any, **options: Any) -> Connection:
        connection = await super().connect(*args, **options)
        self._connected()
        return connection


def open_session(options: ProviderOptions, connected: Callable[[], object]) -> aiohttp.ClientSession:
    """A client for a provider, to be closed. `connected` is called in the task of each request, before it is sent."""
    return aiohttp.ClientSession(
        # The slots are the only limit: a second one here would make requests wait where no time-out looks.
        connector=_Connector(
            connected, limit=0, keepalive_timeout=60, ttl_dns_cache=300, ssl=client_trust(options.ca_file)
        ),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=options.connect_timeout_sec),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"accept-encoding": "identity"},  # a server that compresses holds a stream back until it has enough
        proxy=_proxy(options.base_url),
    )


def _proxy(base_url: str) -> str | None:
    """The proxy the environment names for an address. aiohttp's `trust_env` would look again for every request."""
    parts = urlsplit(base_url)
    if parts.hostname and urllib.request.proxy_bypass(parts.hostname):
        return None
    return urllib.request.getproxies().get(parts.scheme)


def is_unreadable(error: Exception) -> bool:
    """Whether bytes came, but none that HTTP or the way they are said to be compressed allows."""
    return isinstance(error.__cause__, HttpProcessingError)


def in_words(error: Exception) -> str:
    """What an error says, in one line; without the status 400 that aiohttp gives to what it cannot read."""
    cause = error.__cause__
    said = cause.message if isinstance(cause, HttpProcessingError) else str(error)
    return " ".join(said.split()) or type(error).__name__
