"""What a compose file asks for beyond the Dockerfile and task.toml, which is all that a sandbox here is made from.

Most public ones ask for nothing: one service `main` that repeats the Dockerfile. The rest is named, key by key, so that
a task is refused with the reason instead of being run without half of its machine.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from seatrial.tasks.compose_service import Machine, Outside, asks_of_service, has_no_network, quoted

MAX_COMPOSE_BYTES = 2**18
_MAIN = "main"
_MAX_ASKS = 8
_WITHOUT_EFFECT = frozenset({"version", "name", "services", "networks", "volumes", "configs", "secrets"})


@dataclass(frozen=True, slots=True)
class _Compose:
    """A compose file with one mapping per section, whatever the file has there."""

    services: dict[str, Any]
    outside: Outside
    sections: tuple[str, ...]


@lru_cache(maxsize=256)
def compose_asks(content: bytes, machine: Machine) -> tuple[str, ...]:
    """What the file wants that `machine` does not say, one phrase each; empty when it only repeats it.

    Thousands of tasks share a few such files, so the answers are kept. Never raises.
    """
    try:
        compose = _read(content)
    except (ValueError, RecursionError) as error:
        return (f"a compose file that cannot be read ({quoted(str(error))})",)
    asks = list(dict.fromkeys(_asks(compose, machine)))
    more = len(asks) - _MAX_ASKS
    return (*asks[:_MAX_ASKS], f"{more} more") if more > 0 else tuple(asks)


@lru_cache(maxsize=256)
def closes_network(content: bytes) -> bool:
    """Whether the file leaves the service `main` without a network, which needs no engine. Never raises."""
    if b"network_mode" not in content and b"internal" not in content:
        return False
    try:
        compose = _read(content)
    except (ValueError, RecursionError):
        return False
    return has_no_network(compose.services.get(_MAIN), compose.outside)


def is_meant(file: str, *, has_image: bool) -> bool:
    """Whether a compose file describes a machine. Beside a Dockerfile or an image, one of another name is data."""
    return file.endswith("/docker-compose.yaml") or not has_image


def _read(content: bytes) -> _Compose:
    from seatrial.bounded_yaml import read_documents  # noqa: PLC0415 - slow to import, and most tasks have no such file

    documents = read_documents(content.decode("utf-8").removeprefix("\ufeff"))
    if len(documents) > 1:
        raise ValueError(f"{len(documents)} documents in one file")
    file = documents[0] if documents else None
    sections = _table(file, "the file")
    services, networks, volumes = (_table(sections.get(name), name) for name in ("services", "networks", "volumes"))
    return _Compose(services, Outside(networks, volumes), tuple(sections))


def _table(value: Any, name: str) -> dict[str, Any]:
    if value is None:
        return {}
    if isinstance(value, dict):
        return {str(key): below for key, below in value.items()}
    raise ValueError(f"{name}: found {type(value).__name__}, expected a table")


def _asks(compose: _Compose, machine: Machine) -> Iterator[str]:
    others = [name for name, service in compose.services.items() if name != _MAIN and _is_started(service)]
    if others:
        yield f"the service{'s' if len(others) > 1 else ''} {', '.join(map(quoted, others[:_MAX_ASKS]))}"
    for name in compose.sections:
        if name not in _WITHOUT_EFFECT and not name.startswith("x-"):
            yield f"`{quoted(name)}`"
    yield from asks_of_service(compose.services.get(_MAIN), machine, compose.outside)


def _is_started(service: Any) -> bool:
    """Services with a profile are started only by whoever asks for it, which no task runner does."""
    return not (isinstance(service, dict) and service.get("profiles"))
