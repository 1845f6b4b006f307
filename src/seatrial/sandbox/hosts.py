"""Who may be reached: hosts against allow patterns, and addresses against what no sandbox should ever touch.

A request passes twice. First the host as it was asked for: with `allowlist` it must match a pattern, and a name matches
only name patterns, so that a name nobody listed is not even looked up (a lookup carries data out). Then each address
it stands for: a listed name may still point to the host's own services. Both decisions are pure; lookups and
connections are made in `proxy.py`.
"""

import re
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Literal, NamedTuple

from seatrial.errors import UsageError

Address = IPv4Address | IPv6Address
AddressRange = IPv4Network | IPv6Network

MAX_NAME = 253
_EXPECTED = (
    "expected a name (example.org), everything below it (*.example.org), an address (192.0.2.7, 2001:db8::7) "
    "or a range (192.0.2.0/24), each with or without a port (example.org:443, [2001:db8::7]:443)"
)
_PORT = r"(?::(?P<port>[0-9]{1,5}))?"
_BRACKETED = re.compile(rf"\[(?P<host>[^\[\]]+)\]{_PORT}")
_RANGE = re.compile(rf"(?P<host>[^\[\]/]+/[0-9]{{1,3}}){_PORT}")
_PLAIN = re.compile(rf"(?P<host>[^\[\]/:]+){_PORT}")
_ADDRESS = re.compile(r"[0-9a-fA-F:.]+(?:/[0-9]{1,3})?")
_AUTHORITY = re.compile(rf"(?P<host>\[[^\[\]]+\]|[^\[\]:@/?#]+){_PORT}")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
# The old and the new IDNA turn these into different names; nobody can tell which of the two was meant.
_AMBIGUOUS = frozenset("\u00df\u03c2\u200c\u200d")
_NAT64 = IPv6Network("64:ff9b::/96")
_MAPPED = IPv6Network("::ffff:0:0/96")


def _ranges(*texts: str) -> tuple[AddressRange, ...]:
    return tuple(ip_network(text) for text in texts)


# Refused in every mode. The metadata services of the large clouds hand out credentials of the machine; some of
# their addresses lie in no special range.
_SPECIAL = {
    "a loopback": _ranges("127.0.0.0/8", "::1/128"),
    "an unspecified": _ranges("0.0.0.0/8", "::/128"),
    "a link-local": _ranges("169.254.0.0/16", "fe80::/10"),
    "a multicast": _ranges("224.0.0.0/4", "ff00::/8"),
    "a reserved": _ranges("240.0.0.0/4", "::/96"),
    "a cloud metadata": _ranges(
        *("169.254.169.254/32", "168.63.129.16/32", "100.100.100.200/32", "192.0.0.192/32"),
        *("fd00:ec2::254/128", "fd20:ce::254/128"),
    ),
}
# Refused with `public` unless `allow_private`: the usual three, carriers' and overlay networks' own, and their
# equals in IPv6.
_PRIVATE = {
    "a private": _ranges("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7", "fec0::/10")
}


class NamePattern(NamedTuple):
    """One name (`exact`) or every name below it at any depth (`below`, which leaves out the name itself)."""

    text: str
    name: str
    depth: Literal["exact", "below"]
    port: int | None = None


class AddressPattern(NamedTuple):
    """An address, as a range of one, or a range."""

    text: str
    network: AddressRange
    port: int | None = None


HostPattern = NamePattern | AddressPattern


class HostPolicy(NamedTuple):
    """What a command may reach: what matches (`allowlist`), or all but special addresses (`public`).

    With `public` the patterns only open special addresses; `allow_private` opens private networks as a whole.
    """

    mode: Literal["allowlist", "public"]
    patterns: tuple[HostPattern, ...] = ()
    allow_private: bool = False


def parse_patterns(texts: Iterable[str]) -> tuple[HostPattern, ...]:
    """The patterns in the same order. Raises UsageError, naming the first that makes no sense and what is expected."""
    return tuple(_parse_pattern(text) for text in texts)


def parse_host(text: str) -> Address | str | None:
    """An address, a name in lower-case ASCII without the final dot, or None when it is neither.

    Short forms of addresses (`127.1`, `0x7f000001`) are neither: whoever resolves them would get an address.
    """
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    try:
        return normalise(ip_address(bare))
    except ValueError:
        return _canonical_name(text)


def parse_authority(text: str, default_port: int | None) -> tuple[Address | str, int] | None:
    """The host and the port of `host:port`, or None when it makes no sense; without a default the port is needed."""
    match = _AUTHORITY.fullmatch(text)
    host = parse_host(match["host"]) if match else None
    port = int(match["port"]) if match and match["port"] else default_port
    return (host, port) if host is not None and port is not None and 0 < port < 2**16 else None


def normalise(address: Address) -> Address:
    """The address to check and to connect to: IPv4 when it is IPv4 in IPv6's clothes, and without a zone."""
    if isinstance(address, IPv4Address):
        return address
    return address.ipv4_mapped or IPv6Address(int(address))


def is_allowed(host: str, port: int, patterns: Sequence[HostPattern]) -> bool:
    """Whether a host, as it was asked for, matches a pattern: names match names, addresses match addresses."""
    parsed = parse_host(host)
    if parsed is None:
        return False
    if isinstance(parsed, str):
        return any(isinstance(pattern, NamePattern) and _names(pattern, parsed, port) for pattern in patterns)
    return any(isinstance(pattern, AddressPattern) and _covers(pattern, parsed, port) for pattern in patterns)


def is_reachable_address(address: Address, port: int, policy: HostPolicy) -> bool:
    """Whether a connection may go to this address, wherever it came from; see `address_refusal` for the rules."""
    return address_refusal(address, port, policy) is None


def address_refusal(address: Address, port: int, policy: HostPolicy) -> str | None:
    """Why no connection may go to this address, or None.

    A special range opens only to a pattern that lies wholly inside it: `127.0.0.0/8` opens loopback, `0.0.0.0/0`
    does not, and the metadata address opens to nothing but itself. An IPv4 address inside an IPv6 address counts.
    """
    if is_listed(address, port, policy.patterns):
        return None
    closed = _SPECIAL if policy.mode == "allowlist" or policy.allow_private else _SPECIAL | _PRIVATE
    for face in _faces(normalise(address)):
        for kind, ranges in closed.items():
            if any(face in special and not _is_open(special, face, port, policy.patterns) for special in ranges):
                return f"{address} is {kind} address"
    return None


def is_listed(address: Address, port: int, patterns: Sequence[HostPattern]) -> bool:
    """Whether a pattern is this one address, not a range around it."""
    return _is_open(ip_network(normalise(address)), normalise(address), port, patterns)


def _parse_pattern(text: str) -> HostPattern:
    match = _BRACKETED.fullmatch(text) or _RANGE.fullmatch(text) or _PLAIN.fullmatch(text)
    # What has several colons and no brackets can only be an IPv6 address without a port.
    host, digits = (match["host"], match["port"]) if match else (text, None)
    port = int(digits) if digits else None
    if port is not None and not 0 < port < 2**16:
        raise _invalid(text, "a port lies between 1 and 65535")
    if network := _parse_range(text, host):
        return AddressPattern(text, network, port)
    base = host.removeprefix("*.")
    name = None if text.startswith("[") else _canonical_name(base)
    if name is None:
        raise _invalid(text, 'for all hosts use the network mode "public"' if host == "*" else _EXPECTED)
    return NamePattern(text, name, "exact" if base == host else "below", port)


def _parse_range(text: str, host: str) -> AddressRange | None:
    # A zone means something on one machine only, and a net mask is often written the wrong way round.
    if not _ADDRESS.fullmatch(host):
        return None
    try:
        network = ip_network(host, strict=False)
    except ValueError:
        return None
    if "/" in host and ip_network(host.partition("/")[0]).network_address != network.network_address:
        raise _invalid(text, f"the range is written {network}")
    if isinstance(network, IPv6Network) and network.subnet_of(_MAPPED):
        return ip_network((int(network.network_address) & 0xFFFF_FFFF, network.prefixlen - 96))
    return network


def _invalid(text: str, hint: str) -> UsageError:
    return UsageError(f"allowed host {text!r} cannot be used: {hint}")


def _canonical_name(text: str) -> str | None:
    if not 0 < len(text) <= MAX_NAME + 1 or not _AMBIGUOUS.isdisjoint(text):
        return None
    try:
        name = text.encode("idna").decode("ascii").lower().removesuffix(".")
    except UnicodeError:
        return None
    labels = name.split(".")
    # Resolvers read a name that ends in a number as an address.
    if len(name) > MAX_NAME or _NUMBER.fullmatch(labels[-1]) or not all(map(_LABEL.fullmatch, labels)):
        return None
    return name


def _names(pattern: NamePattern, name: str, port: int) -> bool:
    matched = name == pattern.name if pattern.depth == "exact" else name.endswith(f".{pattern.name}")
    return matched and pattern.port in {None, port}


def _covers(pattern: AddressPattern, address: Address, port: int) -> bool:
    return address in pattern.network and pattern.port in {None, port}


def _is_open(special: AddressRange, address: Address, port: int, patterns: Sequence[HostPattern]) -> bool:
    return any(
        isinstance(pattern, AddressPattern) and _covers(pattern, address, port) and _inside(pattern.network, special)
        for pattern in patterns
    )


def _inside(network: AddressRange, special: AddressRange) -> bool:
    first, last = network.network_address, network.broadcast_address
    return first in special and last in special


def _faces(address: Address) -> tuple[Address, ...]:
    """The address and the IPv4 addresses a gateway would read out of it."""
    if isinstance(address, IPv4Address):
        return (address,)
    embedded = [address.sixtofour, *(address.teredo or ())]
    if address in _NAT64:
        embedded.append(IPv4Address(int(address) & 0xFFFF_FFFF))
    return (address, *(inner for inner in embedded if inner))
