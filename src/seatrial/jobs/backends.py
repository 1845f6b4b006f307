"""Sandbox backends by name."""

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from seatrial.errors import HostUnsupportedError, UsageError
from seatrial.sandbox.api import Capabilities, Sandbox, SandboxBackend, SandboxSpec


def _embedded() -> SandboxBackend:
    from seatrial.sandbox.embedded.backend import EmbeddedBackend  # noqa: PLC0415 - only whoever runs trials needs it

    return EmbeddedBackend()


def _docker() -> SandboxBackend:
    from seatrial.sandbox.engine.backend import EngineBackend  # noqa: PLC0415 - only whoever runs trials needs it

    return EngineBackend("docker")


def _podman() -> SandboxBackend:
    from seatrial.sandbox.engine.backend import EngineBackend  # noqa: PLC0415 - only whoever runs trials needs it

    return EngineBackend("podman")


def _local() -> SandboxBackend:
    from seatrial.sandbox.local import LocalBackend  # noqa: PLC0415 - only whoever runs trials needs it

    return LocalBackend()


class AutoBackend:
    """The first backend that works here: our own, then Docker, then Podman; never one without isolation."""

    def __init__(self, candidates: Mapping[str, Callable[[], SandboxBackend]] | None = None) -> None:
        self._candidates = candidates or {"embedded": _embedded, "docker": _docker, "podman": _podman}
        self._chosen: SandboxBackend | None = None

    async def __aenter__(self) -> Self:
        """Raises HostUnsupportedError that says of each backend what stands in its way."""
        reasons = []
        for name, make in self._candidates.items():
            backend = make()
            try:
                self._chosen = await backend.__aenter__()
            except HostUnsupportedError as error:
                reasons.append(f"  {name}: {error}")
            else:
                return self
        raise HostUnsupportedError(
            "\n".join(["no kind of sandbox works on this machine; make one of them work:", *reasons])
        )

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.chosen.__aexit__(kind, error, trace)

    @property
    def chosen(self) -> SandboxBackend:
        """The backend that works. Raises UsageError before it has been found."""
        if self._chosen is None:
            raise UsageError("a backend is used inside its `async with` block")
        return self._chosen

    async def probe(self) -> Capabilities:
        """What the chosen backend can do, under its own name."""
        return await self.chosen.probe()

    async def create(self, spec: SandboxSpec) -> Sandbox:
        """A new sandbox of the chosen backend."""
        return await self.chosen.create(spec)


BACKENDS: Mapping[str, Callable[[], SandboxBackend]] = {
    "auto": AutoBackend,
    "docker": _docker,
    "embedded": _embedded,
    "local": _local,
    "podman": _podman,
}


def make_backend(name: str) -> SandboxBackend:
    """A new backend, not entered yet. Raises UsageError that lists the names there are."""
    check_backend(name)
    return BACKENDS[name]()


def check_backend(name: str) -> None:
    """Raise UsageError that lists the names there are unless this is one of them."""
    if name not in BACKENDS:
        raise UsageError(f"there is no sandbox backend called {name!r}; there are: {', '.join(sorted(BACKENDS))}")
