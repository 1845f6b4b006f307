"""The images of a job: where its backend gets them from. Most jobs that run on this machine's own system need none."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from seatrial.images.choice import ImagePolicy, ImageRequest, Setup
from seatrial.images.resolver import ImageResolver, ImageSource, Say, open_resolver, unheard
from seatrial.jobs.backends import AutoBackend
from seatrial.sandbox.api import Image, SandboxBackend
from seatrial.sandbox.way_out import STRAIGHT, WayOut

OpenSource = Callable[[SandboxBackend, WayOut], AbstractAsyncContextManager[ImageSource]]


@asynccontextmanager
async def open_images(
    backend: SandboxBackend, say: Say = unheard, way_out: WayOut = STRAIGHT
) -> AsyncIterator[ImageResolver]:
    """The images for an open backend, for the length of a block; `way_out` is what builds and set-ups reach."""
    backend = backend.chosen if isinstance(backend, AutoBackend) else backend
    name = (await backend.probe()).backend
    open_source = _SOURCES.get(name)
    async with AsyncExitStack() as stack:
        source = None
        if open_source:
            source = _OnDemand(lambda: open_source(backend, way_out), stack, has_host=name == "embedded")
        yield await stack.enter_async_context(open_resolver(source, say))


class _OnDemand:
    """A source that is opened when the first image is wanted, and stays open for the job."""

    def __init__(
        self,
        open_source: Callable[[], AbstractAsyncContextManager[ImageSource]],
        job: AsyncExitStack,
        *,
        has_host: bool,
    ) -> None:
        self.has_host = has_host
        self._open = open_source
        self._job = job
        self._opening = asyncio.Lock()
        self._source: ImageSource | None = None

    async def _opened(self) -> ImageSource:
        async with self._opening:
            if self._source is None:
                self._source = await self._job.enter_async_context(self._open())
            return self._source

    async def fetch(self, reference: str, say: Say) -> Image:
        """An image by its name."""
        return await (await self._opened()).fetch(reference, say)

    async def build(self, request: ImageRequest, policy: ImagePolicy, say: Say) -> Image:
        """An image from a Dockerfile."""
        return await (await self._opened()).build(request, policy, say)

    async def extend(self, image: Image, setup: Setup, say: Say) -> Image:
        """An image with more on top."""
        return await (await self._opened()).extend(image, setup, say)


def _from_the_store(backend: SandboxBackend, way_out: WayOut) -> AbstractAsyncContextManager[ImageSource]:
    from seatrial.images.store_source import open_store_source  # noqa: PLC0415 - an HTTP client, slow to import

    return open_store_source(backend, way_out)


def _from_the_daemon(backend: SandboxBackend, _: WayOut) -> AbstractAsyncContextManager[ImageSource]:
    from seatrial.images.engine_source import open_engine_source  # noqa: PLC0415
    from seatrial.sandbox.engine.backend import EngineBackend  # noqa: PLC0415

    assert isinstance(backend, EngineBackend)  # noqa: S101 - by its name
    return open_engine_source(backend.client)


_SOURCES: dict[str, OpenSource] = {
    "embedded": _from_the_store,
    "docker": _from_the_daemon,
    "podman": _from_the_daemon,
}
