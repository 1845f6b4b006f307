"""What our process asks the spawner to do, as types on both sides of the wire.

Named tuples here and wherever the spawner looks: dataclasses would bring `inspect`, and with it memory that the kernel
has to go through at every fork.
"""

from typing import Any, Literal, NamedTuple, TypeVar

Mode = Literal["root", "userns", "user"]
"""`root`: the host's root inside; `userns`: root, shifted into a user namespace; `user`: an ordinary user."""

Request = TypeVar("Request")


class Box(NamedTuple):
    """A sandbox to make: where its files go and what its root is made of."""

    name: str
    state: str
    base: str
    layers: list[str]
    hostname: str
    workdir: str
    system_folders: list[str]
    disk: str | None  # "tmpfs:SIZE_MB" or "loop:IMAGE_PATH"


class CommandRequest(NamedTuple):
    """A command to run.

    Its standard descriptors travel beside it, then one of an archive to `unpack` there, then the two of a `watch`.
    """

    name: str
    token: str
    phase: str
    argv: list[str]
    env: dict[str, str]
    cwd: str
    user: str | int | None
    host_network: bool
    join: list[str]
    remember: bool
    unpack: str | None = None
    watch: bool = False


class Transfer(NamedTuple):
    """An archive to unpack or to fill; its descriptor travels beside it."""

    name: str
    phase: str
    path: str
    limit: int = 0
    manner: Literal["files", "layer"] = "files"


class Target(NamedTuple):
    """A sandbox by name, and whatever one more word an operation needs."""

    name: str = ""
    phase: str = "agent"
    port: int = 0
    path: str = ""
    system: str = "live"


def decode(kind: type[Request], message: dict[str, Any]) -> Request:
    """The typed request in a message; the fields of the envelope are left out."""
    return kind(**{key: value for key, value in message.items() if key not in ("id", "op")})
