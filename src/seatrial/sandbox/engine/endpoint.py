"""Where the daemon of a container engine listens: as its own command line tool would find it."""

import errno
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from seatrial.errors import HostUnsupportedError

Engine = Literal["docker", "podman"]

_START = {
    "docker": "start it (systemctl start docker), or name its socket in DOCKER_HOST",
    "podman": "start it (systemctl start podman.socket, as a user with --user), or name its socket in CONTAINER_HOST",
}
_RIGHTS = {
    "docker": "add yourself to the docker group (usermod -aG docker USER, then log in again), or use sudo",
    "podman": "use the socket of your own service (systemctl --user start podman.socket), or sudo",
}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A daemon's address: a unix socket, or else a host and port."""

    engine: Engine
    socket: str | None
    host: str = "localhost"
    port: int = 0

    def __str__(self) -> str:
        return f"unix://{self.socket}" if self.socket else f"tcp://{self.host}:{self.port}"

    def explain(self, error: BaseException) -> str:
        """Why there is no answer, and what to do."""
        causes = list(_causes(error))
        numbers = {each.errno for each in causes if isinstance(each, OSError)}
        if numbers & {errno.EACCES, errno.EPERM}:
            return f"{self}: permission denied; {_RIGHTS[self.engine]}"
        if numbers & {errno.ENOENT, errno.ECONNREFUSED}:
            return f"no {self.engine} daemon at {self}; {_START[self.engine]}"
        if any(isinstance(each, TimeoutError) for each in causes):
            return f"the {self.engine} daemon at {self} does not answer; look at its log, or restart it"
        return f"the {self.engine} daemon at {self} failed: {str(causes[-1]) or type(causes[-1]).__name__}"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def find_endpoint(engine: Engine, environ: Mapping[str, str] = os.environ) -> Endpoint:
    """The daemon to use: what the environment names, then Docker's chosen context, then the usual socket.

    Raises HostUnsupportedError for an address of a kind we do not speak.
    """
    if engine == "podman":
        named = environ.get("CONTAINER_HOST")
        return parse_address(engine, named) if named else Endpoint(engine, _usual(engine, environ))
    named = environ.get("DOCKER_HOST") or _context_address(environ)
    return parse_address(engine, named) if named else Endpoint(engine, _usual(engine, environ))


def parse_address(engine: Engine, address: str) -> Endpoint:
    """An endpoint from a URL such as unix:///path or tcp://host:port. Raises HostUnsupportedError for others."""
    scheme, _, rest = address.partition("://")
    if scheme == "unix" and rest:
        return Endpoint(engine, rest)
    if scheme in ("tcp", "http") and "DOCKER_TLS_VERIFY" not in os.environ:
        host, _, port = rest.rstrip("/").rpartition(":")
        if host and port.isdigit():
            return Endpoint(engine, None, host, int(port))
    raise HostUnsupportedError(
        f"the {engine} daemon at {address!r} cannot be used: only unix:///path and tcp://host:port without TLS are "
        "spoken here; forward its socket, e.g. ssh -L /tmp/engine.sock:/var/run/docker.sock HOST, and name that"
    )


def _usual(engine: Engine, environ: Mapping[str, str]) -> str:
    """The socket of the system's daemon, or of the user's own where only that exists."""
    name = "docker.sock" if engine == "docker" else "podman/podman.sock"
    system = f"/var/run/{name}" if engine == "docker" else f"/run/{name}"
    own = f"{environ.get('XDG_RUNTIME_DIR') or f'/run/user/{os.getuid()}'}/{name}"
    prefer_own = engine == "podman" and os.getuid() != 0
    return own if Path(own).exists() and (prefer_own or not Path(system).exists()) else system


def _context_address(environ: Mapping[str, str]) -> str | None:
    """What Docker's command line tool was told to use, with `docker context use`; None for its default."""
    folder = Path(environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    name = environ.get("DOCKER_CONTEXT") or _read(folder / "config.json").get("currentContext") or "default"
    if name == "default":
        return None
    digest = hashlib.sha256(str(name).encode()).hexdigest()
    meta = _read(folder / "contexts" / "meta" / digest / "meta.json")
    address = meta.get("Endpoints", {}).get("docker", {}).get("Host")
    return str(address) if address else None


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
