"""The HTTP client of a provider: its options, what is sent to it and comes back, and the key that goes along.

The agent's credentials stay here, and so does whatever would tell it whose account is used. Attempts and retries are
in `provider`.
"""

import asyncio
import contextlib
import io
import json
import re
import urllib.request
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import lru_cache
from time import monotonic
from typing import Annotated, Any, NamedTuple, Self
from urllib.parse import urlsplit

import aiohttp
from aiohttp.connector import Connection
from aiohttp.http import HttpProcessingError
from pydantic import Field, field_validator
from yarl import URL

from seatrial.errors import ModelSilentError, ProviderError, UsageError
from seatrial.gateway.api import ModelRequest, Spooled
from seatrial.gateway.dialects import DIALECTS, call_body, dialect_of, dialect_of_headers, owner_of_path
from seatrial.model.base import StrictModel
from seatrial.model.trace import DialectName
from seatrial.sandbox.trust import client_trust

Seconds = Annotated[float, Field(gt=0)]


class ProviderOptions(StrictModel):
    """A provider of models. Its key is named, never written: `api_key_var` is a variable of our own environment."""

    base_url: str
    api_key_var: str | None = None
    dialects: Annotated[frozenset[DialectName], Field(min_length=1)] = frozenset({"openai_chat"})
    max_concurrent: Annotated[int, Field(gt=0)] = 64
    retries: Annotated[int, Field(ge=0)] = 4
    second_opinion: bool = True
    """Whether a failure that one odd request may have brought about is followed by a plain question, and by the request
    once more if that is answered. Who sends only requests of its own does without: all that fails is the provider's."""
    connect_timeout_sec: Seconds = 10.0
    first_byte_timeout_sec: Seconds = 600.0
    idle_timeout_sec: Seconds = 300.0
    longest_wait_sec: Seconds = 60.0
    ca_file: str | None = None
    headers: dict[str, str] = Field(default_factory=dict)

    @field_validator("base_url")
    @classmethod
    def _is_http(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"{value!r} is not the address of a provider; expected something like https://host/v1")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError("the address of a provider has no password, query or fragment; name its key by a variable")
        return value.rstrip("/")


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


# Addresses and headers: what of a request goes on to the provider, and what of its answer goes back.

_TARGET = re.compile(r"/[!-\"$-~]*\Z")  # printable ASCII without a fragment
_VERSION = re.compile(r"/v\d+[a-z0-9]*(/|\Z)")
_OWN_VERSION = re.compile(r"\A/v1/")
_DOTS = re.compile(r"/(\.|%2e){1,2}(/|\Z)", re.IGNORECASE)

_MOST_NAMES = 256
_LONGEST_NAME = 64
_SENT = frozenset(
    {"accept", "content-type", "http-referer", "idempotency-key", "user-agent", "x-client-request-id", "x-title"}
    | {name for each in DIALECTS.values() for name in each.forwarded_headers}
)
_SENT_PREFIXES = ("x-stainless-", *(name for name in _SENT if name.endswith("-")))

_KEPT_BACK = frozenset(
    {
        # of the connection, or of a form in which the body no longer is
        *("connection", "content-encoding", "content-length", "keep-alive", "proxy-authenticate", "proxy-connection"),
        *("te", "trailer", "transfer-encoding", "upgrade", "proxy-authentication-info"),
        # of the server and the account behind the key
        *("alt-svc", "anthropic-organization-id", "cf-ray", "date", "openai-organization", "openai-project"),
        *("report-to", "nel", "server", "set-cookie", "strict-transport-security", "via", "www-authenticate"),
    }
)


@lru_cache(maxsize=256)
def target_url(base_url: str, path: str) -> URL:
    """The address of a path at a provider, whether or not its base address ends in `/v1`. Raises ValueError.

    A path that could lead out of the base address is refused: our key would go with it.
    """
    if not _TARGET.match(path) or _DOTS.search(path.partition("?")[0]):
        raise ValueError(f"{path[:200]!r} is not a path that can be passed on")
    owner = owner_of_path(path)
    if _VERSION.search(URL(base_url).path):
        path = _OWN_VERSION.sub("/", path) if owner is None else owner[1].unversioned(path)
    elif owner is None and dialect_of(path) and not path.startswith("/v1/"):
        path = "/v1" + path
    return URL(base_url + path, encoded=True)


def sent_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers of an agent's request that mean something to a provider, with names in small letters.

    Only in ASCII: what cannot be sent again would be a failure of ours, and the agent's to choose.
    """
    return {low: value for name, value in headers.items() if (low := _SENT_NAMES[name]) and value.isascii()}


def returned_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers of a provider's answer that are meant for the agent, with names in small letters."""
    return {low: value for name, value in headers.items() if (low := _RETURNED_NAMES[name])}


class _Names(dict[str, str | None]):
    """Names of headers in small letters, None for those that do not go on. Most are looked up at once."""

    def __init__(self, goes_on: Callable[[str], bool]) -> None:
        self._goes_on = goes_on

    def __missing__(self, name: str) -> str | None:
        low = name.lower()
        found = low if self._goes_on(low) else None
        if len(self) < _MOST_NAMES and len(name) <= _LONGEST_NAME:  # an agent may make up names
            self[name] = found
        return found


_SENT_NAMES = _Names(lambda low: low in _SENT or low.startswith(_SENT_PREFIXES))
_RETURNED_NAMES = _Names(lambda low: low not in _KEPT_BACK)


def key_headers(key: str | None, dialect: DialectName | None) -> dict[str, str]:
    name, before = DIALECTS[dialect or "openai_chat"].key_header
    return {name: before + key} if key else {}


# Requests in the form in which they go to a provider, as often as it takes.

_LARGE = 512 * 1024
_MADE_UP = frozenset({"content-type", "user-agent"})


class Outgoing(NamedTuple):
    """What is sent. The key is ours, not the agent's."""

    method: str
    url: URL
    headers: dict[str, str]
    body: bytes | None
    dialect: DialectName | None
    spooled: Spooled | None = None

    def left_out(self) -> frozenset[str] | None:
        """The headers that aiohttp would make up. Only if there are any: to keep them out takes it long."""
        return _MADE_UP.difference(self.headers) or None

    def data(self) -> bytes | io.BytesIO | AsyncIterator[bytes] | None:
        """The body as aiohttp wants it: a large one in pieces, as a file that is written once only."""
        if self.spooled is not None:
            return self.spooled.pieces()
        if self.body is None or len(self.body) <= _LARGE:
            return self.body
        return io.BytesIO(self.body)


class Envelope:
    """How requests go to one provider: its address, the headers that are always the same, and how the key is shown."""

    def __init__(self, options: ProviderOptions, key: str | None) -> None:
        self._options = options
        self._headers = {style: {**options.headers, **key_headers(key, style)} for style in (*DIALECTS, None)}

    def prepare(self, request: ModelRequest) -> Outgoing:
        """An agent's request as it goes to this provider. Raises ValueError for a path that cannot be passed on."""
        style = request.dialect or self._style(request)
        headers = sent_headers(request.headers)
        body: bytes | None = request.body or None
        # The bytes of a request that is passed on as it came are here, or else in its file.
        spooled = request.spooled if body is None else None
        if spooled is not None:
            headers["content-length"] = str(spooled.size)
        elif body is None and request.payload is not None:
            body = call_body(request.dialect, request.payload)
        if body is not None or spooled is not None:
            headers.setdefault("content-type", "application/json")
        if style is not None:
            for name, value in DIALECTS[style].default_headers.items():
                headers.setdefault(name, value)
        headers.update(self._headers[style])
        url = target_url(self._options.base_url, request.path)
        return Outgoing(request.method, url, headers, body, request.dialect, spooled)

    def _style(self, request: ModelRequest) -> DialectName | None:
        """The dialect whose way of showing a key is used on paths of none: the way the agent itself used."""
        spoken = [DIALECTS[name] for name in self._options.dialects]
        if len(spoken) == 1:
            return spoken[0].name
        owner = owner_of_path(request.path)
        if owner is not None and owner[0] in spoken:
            return owner[0].name
        name = dialect_of_headers({name.lower() for name in request.headers})
        return name if name in self._options.dialects else None


# Answers as they arrive, without secrets, given up when nothing arrives for too long.

_HIDDEN = "[key]"
_LEAST_SECRET = 8
_SECRET_HEADER = re.compile(r"auth|key|token|secret|cookie|password|credential", re.IGNORECASE)


def secrets_of(key: str | None, headers: Mapping[str, str]) -> tuple[str, ...]:
    """What a provider is sent that nobody else may see: its key, and what headers carry that are named like one."""
    values = [key or "", *(value for name, value in headers.items() if _SECRET_HEADER.search(name))]
    parts = {part for value in values for part in (value, *value.split())}  # a key stands behind the word Bearer
    return tuple(sorted((part for part in parts if len(part) >= _LEAST_SECRET), key=len, reverse=True))


class Hider:
    """Replaces secrets by `[key]`, in text and in bodies that come in pieces. They are of one line each."""

    def __init__(self, secrets: Sequence[str]) -> None:
        written = dict.fromkeys(form for each in secrets for form in (each, json.dumps(each)[1:-1]))
        self._forms = sorted(written, key=len, reverse=True)
        self._written = [form.encode() for form in self._forms]
        self.hides = bool(written)

    def hides_in(self, *texts: str) -> bool:
        """Whether there is something to hide in any of them."""
        return self.hides and any(form in text for form in self._forms for text in texts)

    def text(self, text: str) -> str:
        for form in self._forms:
            text = text.replace(form, _HIDDEN)
        return text

    def whole(self, data: bytes) -> bytes:
        for form in self._written:
            if form in data:
                data = data.replace(form, _HIDDEN.encode())
        return data

    def begun(self, data: bytes) -> int:
        """How many bytes at the end may be the beginning of a secret."""
        if data.endswith(b"\n"):  # as nearly all pieces of a stream do
            return 0
        for form in self._written:
            start = data.find(form[:1], max(0, len(data) - len(form) + 1))
            while start >= 0:
                if form.startswith(data[start:]):
                    return len(data) - start
                start = data.find(form[:1], start + 1)
        return 0


_NOTHING_HIDDEN = Hider(())


class Body:
    """Owns a response whose first bytes are here, until it is closed. Its chunks come as the network gives them, but
    for secrets, and end in ProviderError if the answer breaks off or falls silent.

    It is an iterator itself: a generator would have to be started and ended for each of many short answers.
    """

    __slots__ = (
        "_begun",
        "_content",
        "_first",
        "_hider",
        "_idle_sec",
        "_is_idle",
        "_response",
        "_timer",
        "_waiting_since",
    )

    def __init__(self, response: aiohttp.ClientResponse, idle_sec: float, hider: Hider) -> None:
        self._response = response
        self._content = response.content
        self._hider = hider
        self._begun = b""  # what may be the beginning of a secret
        self._first = b""
        self._idle_sec = idle_sec
        self._is_idle = False
        self._timer: asyncio.TimerHandle | None = None
        self._waiting_since: float | None = None

    @classmethod
    async def begun(cls, response: aiohttp.ClientResponse, idle_sec: float, hider: Hider = _NOTHING_HIDDEN) -> Self:
        """The body of a response, once its first bytes are here. Raises what aiohttp raises."""
        body = cls(response, idle_sec, hider)
        content = response.content
        try:  # all of a short answer is here already
            body._first = hider.whole(content.read_nowait()) if content.is_eof() else await body._read()
        except BaseException:
            response.close()
            raise
        return body

    async def _read(self) -> bytes:
        content = self._content
        while True:
            chunk = self._shown(await content.readany())
            if chunk or content.at_eof():
                return chunk

    def _shown(self, chunk: bytes) -> bytes:
        """A chunk without secrets, and without what may be the beginning of one, which is kept for the next chunk."""
        if self._begun:
            chunk, self._begun = self._begun + chunk, b""
        chunk = self._hider.whole(chunk)
        if chunk and not self._content.at_eof() and (size := self._hider.begun(chunk)):
            chunk, self._begun = chunk[:-size], chunk[-size:]
        return chunk

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._first:
            first, self._first = self._first, b""
            return first
        content = self._content
        if self._timer is None:
            if content.at_eof() and not self._begun:
                raise StopAsyncIteration
            self._watch(self._idle_sec)
        try:
            self._waiting_since = monotonic()
            chunk = await content.readany()
            if self._hider.hides:
                chunk = self._shown(chunk)
            if not chunk and not content.at_eof():
                chunk = await self._read()
        except (aiohttp.ClientError, OSError) as error:
            silent = f"nothing more came for {self._idle_sec:g} s"
            if self._is_idle:
                raise ModelSilentError(f"the answer stopped in the middle: {silent}") from error
            raise ProviderError(f"the answer stopped in the middle: the connection broke: {in_words(error)}") from error
        self._waiting_since = None  # a reader who takes his time is no fault of the provider's
        if chunk:
            return chunk
        raise StopAsyncIteration

    @property
    def first(self) -> bytes:
        """The first bytes, as long as nothing is taken."""
        return self._first

    def whole(self) -> bytes | None:
        """All of it, if nothing is taken or to come."""
        return self._first if self._content.at_eof() and not self._begun else None

    async def read(self, most: int) -> bytes:
        """The body as far as it comes, up to about `most` bytes; for what the provider says about a failure."""
        said = bytearray()
        with contextlib.suppress(ProviderError):
            async for chunk in self:
                said += chunk
                if len(said) >= most:
                    break
        return bytes(said[:most])

    def close(self) -> None:
        """Let go of the response. A connection whose answer was read to its end serves the next request."""
        if self._timer is not None:
            self._timer.cancel()
        if not self._response.closed:
            self._response.close()

    def _watch(self, for_sec: float) -> None:
        # One timer for the whole answer, moved when it fires: moving it for every chunk would cost more than the chunk.
        self._timer = asyncio.get_running_loop().call_later(for_sec, self._check)

    def _check(self) -> None:
        now = monotonic()
        left_sec = self._idle_sec - (now - (self._waiting_since or now))
        if left_sec > 0:
            self._watch(left_sec)
        else:
            self._is_idle = True
            self._response.close()
