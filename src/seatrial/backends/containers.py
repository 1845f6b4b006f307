"""Containers as plug-ins: one for Docker, one for Podman. Their daemons pull and build the images."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from seatrial.backends.api import BackendPlugin
from seatrial.images.resolver import ImageSource
from seatrial.sandbox.api import SandboxBackend
from seatrial.sandbox.doctor import HostFinding
from seatrial.sandbox.leftovers import Cleared
from seatrial.sandbox.way_out import WayOut

if TYPE_CHECKING:
    from seatrial.sandbox.engine.endpoint import Engine


def _open_images(backend: SandboxBackend, way_out: WayOut) -> AbstractAsyncContextManager[ImageSource]:
    from seatrial.images.engine_source import open_engine_source
    from seatrial.sandbox.engine.backend import EngineBackend

    assert isinstance(backend, EngineBackend)  # noqa: S101 - by its name
    return open_engine_source(backend.client, way_out)


def _plugin(engine: "Engine") -> BackendPlugin:
    def make() -> SandboxBackend:
        from seatrial.sandbox.engine.backend import EngineBackend

        return EngineBackend(engine)

    async def examine() -> AsyncIterator[HostFinding]:
        from seatrial.sandbox.engine.doctor import examine_engine

        yield await examine_engine(engine)

    async def sweep() -> Cleared:
        from seatrial.sandbox.engine.leftovers import clear_engine

        return await clear_engine(engine)

    return BackendPlugin(make, _open_images, examine, sweep)


DOCKER = _plugin("docker")
PODMAN = _plugin("podman")
