"""Talking to one repository of a registry, and proving who we are when it asks.

Credentials go to the registry and to the token service it names, and nowhere else: a redirect to another place is
followed without them.
"""

import asyncio
import base64
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp
import orjson
from yarl import URL

from seatrial.errors import ImageError, ImageFetchError
from seatrial.images.credentials import Credentials
from seatrial.images.registry_servers import RegistryServer, is_loopback
from seatrial.images.retrying import PassingError, UnreachedError, Wait, retry_after, with_retries
from seatrial.sandbox.ca_file import client_trust

_REDIRECTS = 5
_MAX_TOKEN_ANSWER = 2**20
_MAX_COMPLAINT = 2**14
_PASSING = frozenset({408, 429, 500, 502, 503, 504})
_MOVED = frozenset({301, 302, 303, 307, 308})
_NOT_SATISFIABLE = 416
_FIELD = re.compile(r'(\w+)=(?:"([^"]*)"|([^\s,]+))')
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=20, sock_read=60)


class NotThereError(ImageError):
    """The registry does not have what was asked for."""


def new_session(ca_file: str | None = None) -> aiohttp.ClientSession:
    """Connections to registries, through the proxy of the environment if it names one."""
    connector = aiohttp.TCPConnector(ssl=client_trust(ca_file))
    return aiohttp.ClientSession(connector=connector, timeout=_TIMEOUT, trust_env=True, auto_decompress=False)


class Access:
    """A repository at a place."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        place: RegistryServer,
        repository: str,
        credentials: Credentials,
        wait: Wait = asyncio.sleep,
    ) -> None:
        self._session = session
        self._place = place
        self._repository = repository
        self._credentials = credentials
        self._authorization: str | None = None
        self._login = asyncio.Lock()
        self.wait = wait

    def __str__(self) -> str:
        return f"{self._place.base.authority} ({self._credentials.source})"

    async def read(self, path: str, limit: int, headers: Mapping[str, str] | None = None) -> tuple[bytes, str, str]:
        """Something small: its bytes, media type and digest as the registry says. Raises ImageError."""

        async def once() -> tuple[bytes, str, str]:
            async with self.stream(path, headers) as response:
                raw = await _read_up_to(response, limit)
                return raw, response.content_type, response.headers.get("Docker-Content-Digest", "")

        return await with_retries(once, self.wait)

    @asynccontextmanager
    async def stream(
        self, path: str, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer to one request below the repository: 2xx, or 416 if a range was asked for.

        Raises PassingError for what another try may mend, also for what the block meets; ImageError otherwise.
        """
        url = self._place.base / "v2" / self._repository / path
        try:
            response = await self._answer(url, headers or {})
            try:
                await self._check(response, str(self))
                yield response
            finally:
                response.close()
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise UnreachedError(f"{self} cannot be reached: {error}") from error
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            raise PassingError(f"{self} broke off: {str(error) or type(error).__name__}") from error

    async def _answer(self, url: URL, headers: Mapping[str, str]) -> aiohttp.ClientResponse:
        used = self._authorization
        response = await self._follow(url, headers)
        if response.status != 401:
            return response
        response.close()
        async with self._login:
            if self._authorization == used:  # nobody else has logged in meanwhile
                self._authorization = await self._authorize(response.headers.getall("WWW-Authenticate", []))
        return await self._follow(url, headers)

    async def _follow(self, url: URL, headers: Mapping[str, str]) -> aiohttp.ClientResponse:
        for _ in range(_REDIRECTS):
            ours = url.origin() == self._place.base.origin()
            shown = {"Authorization": self._authorization} if ours and self._authorization else {}
            response = await self._session.get(url, headers={**headers, **shown}, allow_redirects=False)
            if response.status not in _MOVED:
                return response
            response.close()
            target = url.join(URL(response.headers.get("Location", "")))
            if target.scheme != "https" and not (target.scheme == "http" and url.scheme == "http"):
                raise ImageError(f"{self} sends us to {target.origin()}, which is not encrypted")
            url = target
        raise ImageFetchError(f"{self} redirects again and again")

    async def _authorize(self, challenges: list[str]) -> str:
        """What to show the registry, after it asked for it."""
        for challenge in challenges:
            scheme, _, rest = challenge.strip().partition(" ")
            fields = {name.lower(): quoted or bare for name, quoted, bare in _FIELD.findall(rest)}
            if scheme.lower() == "bearer" and "realm" in fields:
                return await self._fetch_token(fields)
            if scheme.lower() == "basic" and self._credentials.password:
                return self._basic()
        raise ImageError(f"{self} asks for credentials; {self._log_in}")

    def _basic(self) -> str:
        pair = f"{self._credentials.username}:{self._credentials.password}"
        return f"Basic {base64.b64encode(pair.encode()).decode()}"

    @property
    def _log_in(self) -> str:
        return f"log in with `docker login {self._place.domain}`, or write its credentials to ~/.docker/config.json"

    async def _fetch_token(self, fields: Mapping[str, str]) -> str:
        realm = URL(fields["realm"])
        if realm.scheme != "https" and not (self._place.base.scheme == "http" and is_loopback(realm.host or "")):
            raise ImageError(f"{self} wants tokens from {realm.origin()}, which is not encrypted")
        query = {
            "service": fields.get("service", ""),
            "scope": fields.get("scope") or f"repository:{self._repository}:pull",
        }
        if self._credentials.identity_token:
            form = {**query, "grant_type": "refresh_token", "client_id": "seatrial"}
            form["refresh_token"] = self._credentials.identity_token
            asked = self._session.post(realm, data=form, allow_redirects=False)
        else:
            headers = {} if self._credentials.anonymous else {"Authorization": self._basic()}
            asked = self._session.get(realm.update_query(query), headers=headers, allow_redirects=False)
        async with asked as response:
            await self._check(response, f"{realm.origin()}, which has the tokens for {self},")
            raw = await _read_up_to(response, _MAX_TOKEN_ANSWER)
            return f"Bearer {_token_in(raw, realm)}"

    async def _check(self, response: aiohttp.ClientResponse, who: str) -> None:
        status = response.status
        if 200 <= status < 300 or status == _NOT_SATISFIABLE:
            return
        said = _complaint(await response.content.read(_MAX_COMPLAINT))
        if status == 404:
            raise NotThereError(f"{who} does not have it{said}")
        if status in (401, 403):
            raise ImageError(f"{who} does not let us have it, if it exists at all{said}; {self._log_in}")
        if status in _PASSING:
            raise PassingError(f"{who} answered {status}{said}", retry_after=retry_after(response.headers))
        raise ImageFetchError(f"{who} answered {status}{said}")


async def _read_up_to(response: aiohttp.ClientResponse, limit: int) -> bytes:
    raw = bytearray()
    async for chunk in response.content.iter_any():
        raw += chunk
        if len(raw) > limit:
            raise ImageError(f"{response.url} is larger than the {limit} bytes that such a document may have")
    return bytes(raw)


def _complaint(body: bytes) -> str:
    """What the body of a refusal says, in one bounded line."""
    try:
        errors = orjson.loads(body)["errors"]
        said = "; ".join(str(error.get("message") or error.get("code")) for error in errors)
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""
    return f": {' '.join(said.split())[:300]}" if said.isprintable() and said else ""


def _token_in(raw: bytes, realm: URL) -> str:
    try:
        answer = orjson.loads(raw)
    except ValueError:
        answer = None
    token = (answer.get("token") or answer.get("access_token")) if isinstance(answer, dict) else None
    if not isinstance(token, str) or not token.isprintable():
        raise ImageFetchError(f"{realm.origin()} gave no token")
    return token
