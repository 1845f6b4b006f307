"""The images of a job: where its backend gets them from. Most jobs that run on this machine's own system need none."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from seatrial.backends.auto import AutoBackend
from seatrial.backends.named import find_backend
from seatrial.images.choice import ImagePolicy, ImageRequest, Setup
from seatrial.images.resolver import ImageResolver, ImageSource, Say, open_resolver, unheard
from seatrial.sandbox.api import Image, SandboxBackend
from seatrial.sandbox.way_out import STRAIGHT, WayOut


@asynccontextmanager
async def open_images(
    backend: SandboxBackend, say: Say = unheard, way_out: WayOut = STRAIGHT
) -> AsyncIterator[ImageResolver]:
    """The images for an open backend, for the length of a block; `way_out` is what builds and set-ups reach."""
    backend = backend.chosen if isinstance(backend, AutoBackend) else backend
    plugin = find_backend((await backend.probe()).backend)
    open_source = plugin.open_images if plugin else None
    async with AsyncExitStack() as stack:
        source = _OnDemand(lambda: open_source(backend, way_out), stack) if open_source else None
        yield await stack.enter_async_context(open_resolver(source, say))


class _OnDemand:
    """A source that is opened when the first image is wanted, and stays open for the job."""

    def __init__(
        self, open_source: Callable[[], AbstractAsyncContextManager[ImageSource]], job: AsyncExitStack
    ) -> None:
        self._open = open_source
        self._job = job
        self._opening = asyncio.Lock()
        self._source: ImageSource | None = None

    @property
    def has_host(self) -> bool:
        """Only an open source can tell. The question comes up when fetching has failed, so it is open by then."""
        return self._source is not None and self._source.has_host

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
