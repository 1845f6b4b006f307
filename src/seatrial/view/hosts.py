"""By which names a viewer may be called. A name that somebody else's DNS leads here is none of them."""

import ipaddress
import re
import socket
from dataclasses import dataclass

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/@\[\]\\]+)(?::[0-9]{1,5})?", re.ASCII)
_EVERYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 - only compared with
_LOCAL = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, slots=True)
class HostNames:
    """The names that may stand in a Host header. With `addresses` of `any`, so may every IP address, which is no name
    and so cannot be led anywhere by DNS.
    """

    shown: tuple[str, ...]
    addresses: str = "named"

    def has(self, header: str) -> bool:
        """Whether a Host header names us; the port does not matter, since it may be forwarded."""
        found = _HOST.fullmatch(header)
        if not found:
            return False
        name = found[1].lower()
        return name in self.shown or (self.addresses == "any" and _is_address(name))


def host_names(host: str) -> HostNames:
    """The names of a viewer that listens at an address."""
    if host in _EVERYWHERE:
        machine = socket.gethostname().lower()
        return HostNames((*_LOCAL, machine), "any")
    named = f"[{host}]" if ":" in host else host
    return HostNames(tuple(dict.fromkeys((*_LOCAL, named.lower()))))


def root_url(host: str, port: int) -> str:
    """Where a viewer is, as it is written into a browser."""
    if host in _EVERYWHERE:
        host = socket.gethostname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
