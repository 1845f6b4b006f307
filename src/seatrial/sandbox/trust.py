"""The certificates that a user trusts, in sandboxes: which file may be one, where it lies, which variables lead to it.

Only certificates are taken from the file; a key that stands beside them stays here. A `WayOut` also has the proxy by
which builds and set-ups reach the network.
"""

import re
import ssl
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from seatrial.errors import JobError
from seatrial.sandbox.api import Network, ProxyUse

AGENT_CA = "/task/ca.pem"
VERIFIER_CA = "/tests/.ca.pem"
VARIABLES = (
    *("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS"),
    *("AWS_CA_BUNDLE", "CARGO_HTTP_CAINFO", "DENO_CERT"),
)
_MAX_BYTES = 8 * 2**20
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


@lru_cache(maxsize=4)
def read_ca(path: str) -> bytes:
    """The certificates of a file. Raises JobError for one that has none, or cannot be read."""
    try:
        if Path(path).stat().st_size > _MAX_BYTES:
            raise JobError(f"--ca-file {path}: it has more than {_MAX_BYTES // 2**20} MiB; name a file of certificates")
        found = _CERTIFICATE.findall(Path(path).read_bytes())
    except OSError as error:
        raise JobError(f"--ca-file {path}: it cannot be read: {error.strerror}") from error
    if not found:
        raise JobError(
            f"--ca-file {path}: it has no certificates; expected a PEM file with lines -----BEGIN CERTIFICATE-----, "
            "such as /etc/ssl/certs/ca-certificates.crt"
        )
    return b"\n".join([*found, b""])


def named_ca(environ: Mapping[str, str]) -> bytes | None:
    """The certificates that a machine trusts by its variables, None where it has no such file."""
    for path in filter(None, (environ.get(name) for name in VARIABLES)):
        try:
            return read_ca(path)
        except JobError:  # a folder, perhaps: whoever named it meant others
            continue
    return None


def ca_variables(place: str) -> Mapping[str, str]:
    """What leads usual programs to certificates at a place inside."""
    return dict.fromkeys(VARIABLES, place)


@lru_cache(maxsize=4)
def client_trust(path: str | None) -> ssl.SSLContext | bool:
    """What our own clients trust: the certificates of a file, or what this machine does."""
    if path is None:
        return True
    try:
        return ssl.create_default_context(cadata=read_ca(path).decode("ascii", "replace"))
    except ssl.SSLError as error:
        raise JobError(f"--ca-file {path}: its certificates cannot be used: {error.reason or error}") from error


class WayOut(NamedTuple):
    """What a user says about the network of this machine: whose certificates builds trust, and whose proxy they use."""

    ca_file: str | None = None
    proxy: ProxyUse = "direct"

    @property
    def ca(self) -> bytes | None:
        """The certificates to trust; None where this says nothing about them. Raises JobError."""
        return read_ca(self.ca_file) if self.ca_file else None

    @property
    def network(self) -> Network:
        return Network("public", proxy=self.proxy)


STRAIGHT = WayOut()
