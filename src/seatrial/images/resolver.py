"""Getting the images of a run, each once however many trials ask for it, and saying what is used instead of what."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from seatrial.errors import HostUnsupportedError, ImageFetchError, TrialError
from seatrial.images.choice import ImagePlan, ImagePolicy, ImageRequest, Setup, plan_image
from seatrial.model.events import Notice, Observer, unobserved
from seatrial.sandbox.api import HOST_IMAGE, Image


class ImageSource(Protocol):
    """Where the images of one backend come from. `observe` is told what is worth knowing meanwhile."""

    @property
    def has_host(self) -> bool:
        """Whether the backend can run on this machine's own system, so that it may stand in for an image."""
        ...

    async def fetch(self, reference: str, observe: Observer[Notice]) -> Image:
        """An image by its name. Raises ImageError; ImageFetchError when nobody could be asked."""
        ...

    async def build(self, request: ImageRequest, policy: ImagePolicy, observe: Observer[Notice]) -> Image:
        """An image from a Dockerfile. Raises BuildError."""
        ...

    async def extend(self, image: Image, setup: Setup, observe: Observer[Notice]) -> Image:
        """An image with what a set-up leaves behind on top of another. Raises BuildError."""
        ...


ImageOrigin = Literal["host", "directory", "fetch", "build"]


class ResolvedImage(NamedTuple):
    """An image to make sandboxes from, and how it came about."""

    image: Image
    how: ImageOrigin


class ImageResolver:
    """The images of a run. Without a source, every task runs on this machine's own system or in a directory."""

    def __init__(self, source: ImageSource | None, observe: Observer[Notice]) -> None:
        self._source = source
        self._observe = observe
        self._builds = asyncio.Semaphore(os.cpu_count() or 1)
        self._tasks: dict[tuple[ImageRequest, ImagePolicy], asyncio.Task[ResolvedImage]] = {}

    async def resolve(self, request: ImageRequest, policy: ImagePolicy) -> ResolvedImage:
        """The image for a task. Raises ImageError, or HostUnsupportedError for one that cannot be used here."""
        if request.setup is None and (there := _there_already(plan_image(request, policy))):
            return there
        key = (request, policy)
        if key not in self._tasks:
            # A task of its own, which several may wait for: none of them must take it along when cancelled.
            self._tasks[key] = asyncio.ensure_future(self._make(request, policy))
        try:
            return await asyncio.shield(self._tasks[key])
        except TrialError as error:
            if error.retryable:
                self._tasks.pop(key, None)
            raise

    async def close(self) -> None:
        """End what nobody waits for any more."""
        for task in self._tasks.values():
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks.values())

    async def _make(self, request: ImageRequest, policy: ImagePolicy) -> ResolvedImage:
        made = await self._find(request, policy, plan_image(request, policy))
        if request.setup is None:
            return made
        if self._source is None:
            raise HostUnsupportedError(
                "this backend makes no images, so an agent cannot be set up in one, nor brought by a layer; use the "
                "embedded, docker or podman backend"
            )
        return ResolvedImage(await self._source.extend(made.image, request.setup, self._observe), made.how)

    async def _find(self, request: ImageRequest, policy: ImagePolicy, plan: ImagePlan) -> ResolvedImage:
        if there := _there_already(plan):
            return there
        if self._source is None:
            return self._without_images(plan)
        if plan.kind == "build":
            async with self._builds:
                return ResolvedImage(await self._source.build(request, policy, self._observe), "build")
        return await self._fetch(self._source, plan.name, policy)

    async def _fetch(self, source: ImageSource, name: str, policy: ImagePolicy) -> ResolvedImage:
        try:
            return ResolvedImage(await source.fetch(name, self._observe), "fetch")
        except ImageFetchError as error:
            if not source.has_host or not policy.may_fall_back(name):
                raise
            self._observe(Notice(str(error)))
        self._observe(
            Notice(f"Tasks that ask for {name} run on this machine's own system instead, which is not reproducible")
        )
        return ResolvedImage(HOST_IMAGE, "host")

    def _without_images(self, plan: ImagePlan) -> ResolvedImage:
        if plan.kind == "build":
            raise HostUnsupportedError(
                f"{plan.name}: this backend builds no images; use the embedded, docker or podman backend, or run on "
                "this machine's own system with --image host"
            )
        return ResolvedImage(HOST_IMAGE, "host")


def _there_already(plan: ImagePlan) -> ResolvedImage | None:
    if plan.kind == "directory":
        return ResolvedImage(Image(plan.name, layers=(Path(plan.name),)), "directory")
    return ResolvedImage(HOST_IMAGE, "host") if plan.kind == "host" else None


HOST_ONLY = ImageResolver(None, unobserved)
"""For runs that nobody gave any images."""


@asynccontextmanager
async def open_resolver(
    source: ImageSource | None, observe: Observer[Notice] = unobserved
) -> AsyncIterator[ImageResolver]:
    resolver = ImageResolver(source, observe)
    try:
        yield resolver
    finally:
        await resolver.close()
