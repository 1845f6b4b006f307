"""Where the images of a registry can be had: its mirrors first, then itself, encrypted unless it is this machine."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field

from yarl import URL

from seatrial.errors import UsageError
from seatrial.images.reference import DOCKER_HUB, Reference

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
