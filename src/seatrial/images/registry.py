"""Asking a registry what an image is made of: where to ask, as whom, how often, and what its manifests say.

Everything is checked by its digest. `pull.py` downloads the layers; the names of images are in `reference.py`.
"""

import asyncio
import base64
import binascii
import ipaddress
import json
import os
import random
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import orjson
from yarl import URL

from seatrial.backoff import retry_after, wait_before
from seatrial.concurrency import finish
from seatrial.errors import ImageError, ImageFetchError, UsageError
from seatrial.images.config import (
    ImageDocument,
    Platform,
    choose_platform,
    describe_platform,
    digest_of,
    matches_digest,
    read_document,
)
from seatrial.images.reference import DOCKER_HUB, Reference, is_digest
from seatrial.sandbox.trust import client_trust
from seatrial.untrusted.json import mapping, parse

# Servers: the mirrors of a registry first, then itself, encrypted unless it is this machine.

_HUB_HOST = "registry-1.docker.io"


@dataclass(frozen=True, slots=True)
class RegistryOptions:
    """Other places to ask first, by registry, and hosts that may be spoken to without encryption."""

    mirrors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    plain_http: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class RegistryServer:
    """A server that may have an image; `domain` is the name it has in `config.json`."""

    domain: str
    base: URL


def read_options(environ: Mapping[str, str]) -> RegistryOptions:
    """$SEATRIAL_MIRRORS (`docker.io=mirror.example:5000 …`) and $SEATRIAL_PLAIN_HTTP (`host:port …`)."""
    mirrors: dict[str, tuple[str, ...]] = {}
    for word in _words(environ, "SEATRIAL_MIRRORS"):
        domain, _, mirror = word.rpartition("=")
        domain = domain or DOCKER_HUB
        mirrors[domain] = (*mirrors.get(domain, ()), mirror)
    return RegistryOptions(mirrors, frozenset(_words(environ, "SEATRIAL_PLAIN_HTTP")))


def _words(environ: Mapping[str, str], name: str) -> list[str]:
    return environ.get(name, "").replace(",", " ").split()


def places_of(reference: Reference, options: RegistryOptions) -> list[RegistryServer]:
    """Where to ask for an image, in this order. Raises UsageError for a mirror that is not the name of a host."""
    found = []
    for mirror in options.mirrors.get(reference.domain, ()):
        scheme, separator, rest = mirror.rpartition("://")
        domain = rest.rstrip("/")
        if separator and scheme not in ("https", "http"):
            raise UsageError(f"mirror {mirror!r}: expected a host with an optional port, perhaps with https:// before")
        found.append(RegistryServer(domain, _base(domain, options, "SEATRIAL_MIRRORS")))
    own = _HUB_HOST if reference.domain == DOCKER_HUB else reference.domain
    return [*found, RegistryServer(reference.domain, _base(own, options, str(reference)))]


def _base(domain: str, options: RegistryOptions, where: str) -> URL:
    try:
        host = URL(f"https://{domain}").host
        if not host or "/" in domain:
            raise ValueError("no host")  # noqa: TRY301 - as if the library had said so
        plain = is_loopback(host) or domain in options.plain_http
        return URL(f"{'http' if plain else 'https'}://{domain}")
    except ValueError as error:
        raise UsageError(f"{where}: {domain!r} is not a host with an optional port: {error}") from error


def is_loopback(host: str) -> bool:
    """Whether a host is this very machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


# Credentials: what `docker login` left in `config.json`, or what its credential helpers answer.

_HUB_KEY = "https://index.docker.io/v1/"
_TOKEN_USER = "<token>"  # noqa: S105 - how helpers say that the secret is a token
_HELPER_SEC = 60.0


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user and a password, or a token to ask for tokens with; neither when anonymous.

    `source` tells where they come from, or why there are none.
    """

    source: str
    username: str = ""
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)

    @property
    def anonymous(self) -> bool:
        return not (self.password or self.identity_token)


async def find_credentials(domain: str, environ: Mapping[str, str] = os.environ) -> Credentials:
    """What is known for a registry. Never raises: what cannot be read or asked is told in `source`."""
    path = _config_path(environ)
    try:
        config = json.loads(path.read_bytes())
    except FileNotFoundError:
        return Credentials(f"anonymous: there is no {path}")
    except (OSError, ValueError) as error:
        return Credentials(f"anonymous: {path} cannot be read: {error}")
    if not isinstance(config, dict):
        return Credentials(f"anonymous: {path} is not a table")
    helper = mapping(config.get("credHelpers")).get(domain) or config.get("credsStore")
    if isinstance(helper, str) and helper:
        answered = await _ask_helper(helper, _HUB_KEY if domain == DOCKER_HUB else domain, environ)
        if not answered.anonymous or not _entry(config, domain):
            return answered
    return _written(_entry(config, domain), domain, path)


def _config_path(environ: Mapping[str, str]) -> Path:
    folder = environ.get("DOCKER_CONFIG")
    return (Path(folder) if folder else Path(environ.get("HOME") or Path.home()) / ".docker") / "config.json"


def _entry(config: Mapping[str, Any], domain: str) -> dict[str, Any]:
    """What `auths` has for a registry, under whichever of its names."""
    for key, value in mapping(config.get("auths")).items():
        host = key.removeprefix("https://").removeprefix("http://").partition("/")[0]
        hub = domain == DOCKER_HUB and host in ("index.docker.io", "docker.io", "registry-1.docker.io")
        if isinstance(value, dict) and value and (host == domain or hub):
            return value
    return {}


def _written(entry: dict[str, Any], domain: str, path: Path) -> Credentials:
    if not entry:
        return Credentials(f"anonymous: {path} has nothing for {domain}")
    username, password = str(entry.get("username") or ""), str(entry.get("password") or "")
    if isinstance(entry.get("auth"), str) and entry["auth"]:
        try:
            username, _, password = base64.b64decode(entry["auth"].strip(), validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError) as error:
            return Credentials(
                f"anonymous: {path} has an `auth` for {domain} that is not base64 of user:password: {error}"
            )
    token = str(entry.get("identitytoken") or "")
    return Credentials(f"{username or 'a token'} of {path}", username, password.rstrip("\0"), token)


async def _ask_helper(name: str, server: str, environ: Mapping[str, str]) -> Credentials:
    program = f"docker-credential-{name}"
    path = shutil.which(program, path=environ.get("PATH"))
    if path is None or "/" in name:
        return Credentials(f"anonymous: the credential helper {program} is not on the PATH")
    process = await asyncio.create_subprocess_exec(
        path,
        "get",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=dict(environ),
    )
    try:
        async with asyncio.timeout(_HELPER_SEC):
            out, _ = await process.communicate(server.encode())
    except TimeoutError:
        return Credentials(f"anonymous: {program} did not answer within {_HELPER_SEC:g} s")
    finally:
        if process.returncode is None:
            process.kill()
            await finish(process.wait())
    return _answer_of(program, process.returncode, out)


def _answer_of(program: str, status: int | None, out: bytes) -> Credentials:
    answer = mapping(parse(out)) if status == 0 else {}
    if not answer.get("Secret"):
        words = out.decode("utf-8", "replace").strip()[:200]
        return Credentials(f"anonymous: {program} has none: {words if status else 'its answer is not readable'}")
    username, secret = str(answer.get("Username") or ""), str(answer["Secret"])
    if username == _TOKEN_USER:
        return Credentials(f"a token of {program}", identity_token=secret)
    return Credentials(f"{username} of {program}", username, secret)


# Retries.

T = TypeVar("T")
Wait = Callable[[float], Awaitable[None]]

_LONGEST_WAIT_SEC = 60.0
_TRIES = 6
_TRIES_UNREACHED = 3  # who is not there at all will hardly be in a moment


class PassingError(ImageFetchError):
    """Something that another try may not meet again."""

    def __init__(self, message: str, *, retry_after: float | None = None, tries: int = _TRIES) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.tries = tries


class UnreachedError(PassingError):
    """Nobody answered at all."""

    def __init__(self, message: str) -> None:
        super().__init__(message, tries=_TRIES_UNREACHED)


async def with_retries(work: Callable[[], Awaitable[T]], wait: Wait) -> T:
    """What some work gives, tried again while its errors may pass. Raises ImageFetchError that tells how often."""
    tried = 0
    while True:
        try:
            return await work()
        except PassingError as error:
            tried += 1
            if tried >= error.tries:
                raise ImageFetchError(f"{error}; tried {tried} times") from error
            await wait(pause(tried, error))


def pause(tried: int, error: PassingError) -> float:
    """How long to wait after the `tried`th failure: what was asked for, else ever longer, spread by chance."""
    return wait_before(tried - 1, error.retry_after, _LONGEST_WAIT_SEC, random.random())  # noqa: S311 - it spreads waits


# Requests to one repository. Credentials go to the registry and to the token service it names, and nowhere else: a
# redirect to another place is followed without them.

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
    answer = mapping(parse(raw))
    token = answer.get("token") or answer.get("access_token")
    if not isinstance(token, str) or not token.isprintable():
        raise ImageFetchError(f"{realm.origin()} gave no token")
    return token


# Manifests: indexes by platform, the layers of an image, its configuration.

INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_ACCEPT = {"Accept": ", ".join((*INDEXES, *MANIFESTS))}
_MAX_MANIFEST = 8 * 2**20
_MAX_CONFIG = 8 * 2**20
_MAX_LAYERS = 500


@dataclass(frozen=True, slots=True)
class Descriptor:
    """Some content, by its digest and size; in an index, for a platform."""

    digest: str
    size: int
    media_type: str = ""
    platform: Platform | None = None


@dataclass(frozen=True, slots=True)
class ImageManifest:
    """What an image is made of."""

    config: Descriptor
    layers: tuple[Descriptor, ...]


@dataclass(frozen=True, slots=True)
class Resolved:
    """An image as a registry has it: by the digest it was found under, with its configuration as written."""

    manifest_digest: str
    raw_config: bytes
    document: ImageDocument
    layers: tuple[Descriptor, ...]


async def resolve(access: Access, wanted: str, platform: Platform) -> Resolved:
    """The image a tag or digest means for a platform. Raises ImageError."""
    raw, digest = await _fetch_manifest(access, wanted)
    top = digest
    table = parse_table(raw)
    if is_index(table):
        entry = choose_entry(table, platform)
        raw, _ = await _fetch_manifest(access, entry.digest)
        table = parse_table(raw)
    manifest = read_manifest(table)
    raw_config, _, _ = await access.read(f"blobs/{manifest.config.digest}", _MAX_CONFIG)
    check_digest(raw_config, manifest.config.digest)
    document = read_document(raw_config, manifest.config.digest)
    check_layers(document, manifest)
    return Resolved(top, raw_config, document, manifest.layers)


async def _fetch_manifest(access: Access, wanted: str) -> tuple[bytes, str]:
    raw, _, told = await access.read(f"manifests/{wanted}", _MAX_MANIFEST, _ACCEPT)
    expected = wanted if is_digest(wanted) else told
    if is_digest(expected):
        check_digest(raw, expected)
        return raw, expected
    return raw, digest_of(raw)


def check_digest(raw: bytes, digest: str) -> None:
    """Raise ImageError for content that is not what its digest says."""
    if not matches_digest(raw, digest):
        raise ImageError(
            f"what came for {digest} has another content: {digest_of(raw)}; somebody changed it on the way"
        )


def check_layers(document: ImageDocument, manifest: ImageManifest) -> None:
    """Raise ImageError when configuration and manifest do not speak of the same layers."""
    expected, found = len(document.rootfs.diff_ids), len(manifest.layers)
    if expected != found:
        raise ImageError(f"its configuration has {expected} layers and its manifest {found}: it is no root file system")


def is_index(table: dict[str, Any]) -> bool:
    """Whether a document lists images for several platforms."""
    return isinstance(table.get("manifests"), list)


def choose_entry(table: dict[str, Any], platform: Platform) -> Descriptor:
    """The image for a platform in an index. Raises ImageError naming the platforms there are."""
    entries = [read_descriptor(entry) for entry in table["manifests"]]
    chosen = choose_platform(entries, platform)
    if chosen is None and len(entries) == 1 and entries[0].platform is None:
        return entries[0]
    if chosen is None:
        offered = ", ".join(sorted({str(entry.platform) for entry in entries if entry.platform})) or "none"
        raise ImageError(f"there is no image for {platform}; there are: {offered}")
    return chosen


def parse_table(raw: bytes) -> dict[str, Any]:
    """A JSON object. Raises ImageError."""
    try:
        table = orjson.loads(raw)
    except ValueError as error:
        raise ImageError(f"its manifest is not JSON: {error}") from error
    if not isinstance(table, dict):
        raise ImageError("its manifest is not a JSON object")
    return table


def read_manifest(table: dict[str, Any]) -> ImageManifest:
    """A manifest of one image. Raises ImageError."""
    if table.get("schemaVersion") == 1:
        raise ImageError("its manifest has the old schema 1, which no tool writes any more; push the image again")
    layers = table.get("layers")
    if not isinstance(layers, list) or not isinstance(table.get("config"), dict) or len(layers) > _MAX_LAYERS:
        raise ImageError("its manifest has no configuration or no list of layers: it is not an image")
    return ImageManifest(read_descriptor(table["config"]), tuple(read_descriptor(layer) for layer in layers))


def read_descriptor(entry: Any) -> Descriptor:
    """A descriptor. Raises ImageError."""
    match entry:
        case {"digest": str(digest), "size": int(size)} if is_digest(digest) and size >= 0:
            platform = entry.get("platform")
            described = describe_platform(platform) if isinstance(platform, dict) else None
            return Descriptor(digest, size, str(entry.get("mediaType") or ""), described)
        case _:
            raise ImageError("its manifest names something without a usable digest and size")
