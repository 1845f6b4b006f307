"""Sandbox backends by name."""

from collections.abc import Callable, Mapping

from seatrial.errors import UsageError
from seatrial.sandbox.api import SandboxBackend


def _embedded() -> SandboxBackend:
    from seatrial.sandbox.embedded.backend import EmbeddedBackend  # noqa: PLC0415 - only whoever runs trials needs it

    return EmbeddedBackend()


def _local() -> SandboxBackend:
    from seatrial.sandbox.local import LocalBackend  # noqa: PLC0415 - only whoever runs trials needs it

    return LocalBackend()


BACKENDS: Mapping[str, Callable[[], SandboxBackend]] = {"embedded": _embedded, "local": _local}


def make_backend(name: str) -> SandboxBackend:
    """A new backend, not entered yet. Raises UsageError that lists the names there are."""
    check_backend(name)
    return BACKENDS[name]()


def check_backend(name: str) -> None:
    """Raise UsageError that lists the names there are unless this is one of them."""
    if name not in BACKENDS:
        raise UsageError(f"there is no sandbox backend called {name!r}; there are: {', '.join(sorted(BACKENDS))}")
