"""The files of an image that only the daemon has: asked from a fresh container of it, which never runs."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from seatrial.concurrency import finish
from seatrial.sandbox.engine.client import EngineClient
from seatrial.sandbox.engine.files import Files
from seatrial.sandbox.engine.leftovers import remove_container
from seatrial.sandbox.engine.manifest import FileManifest, Kind, compare, read_manifest

_MAX_IMAGE_BYTES = 2**36
_ADDED_BYTES = 2**32
_AT_ONCE = 16
_numbers = itertools.count(1)

# What an engine puts into every container that runs, over what is in the image.
_OF_THE_ENGINE = frozenset({"/etc/hostname", "/etc/hosts", "/etc/mtab", "/etc/resolv.conf"})


class ImageFiles:
    """What one image has; what was asked once is kept."""

    def __init__(self, client: EngineClient, image: str, prefix: str, labels: Mapping[str, str]) -> None:
        self._client = client
        self._image = image
        self._prefix = prefix
        self._labels = dict(labels)
        self._manifests: dict[tuple[str, ...], FileManifest] = {}
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def _fresh(self) -> AsyncIterator[str]:
        """A container of the image that never runs."""
        name = f"{self._prefix}-fresh-{next(_numbers)}"
        host = {"NetworkMode": "none"}
        order = {"Image": self._image, "Entrypoint": ["/bin/sh"], "Labels": self._labels, "HostConfig": host}
        try:
            await self._client.ask("POST", "/containers/create", order, name=name)
            yield name
        finally:
            await finish(remove_container(self._client, name))

    async def manifest(self, folders: Sequence[str]) -> FileManifest:
        """Everything below folders, by content. Raises SandboxError."""
        key = tuple(folders)
        async with self._lock:
            if key not in self._manifests:
                async with self._fresh() as container:
                    self._manifests[key] = await read_manifest(self._client, container, folders, _MAX_IMAGE_BYTES)
        return self._manifests[key]

    async def below(self, paths: Sequence[str]) -> tuple[frozenset[str], frozenset[str]]:
        """Which of some paths are directories of the image, and every file in those. Raises SandboxError."""
        async with self._fresh() as container:
            files, asked = Files(self._client, container), asyncio.Semaphore(_AT_ONCE)

            async def is_folder(path: str) -> bool:
                async with asked:
                    status = await files.status(path)
                return status is not None and status.is_folder

            async with asyncio.TaskGroup() as group:
                tasks = {path: group.create_task(is_folder(path)) for path in paths}
            folders = [path for path, task in tasks.items() if task.result()]
            found = await read_manifest(self._client, container, folders, _MAX_IMAGE_BYTES)
        return frozenset(folders), frozenset(found.digests)


async def system_differences(
    client: EngineClient, container: str, image: ImageFiles, folders: Sequence[str]
) -> dict[str, Kind]:
    """Every file below some folders that differs from the image by its content, but for what an engine writes itself.

    Raises TooLargeError when a container has gigabytes more than its image there, SandboxError if it cannot be read.
    """
    before = await image.manifest(folders)
    now = await read_manifest(client, container, folders, before.size + _ADDED_BYTES)
    return {path: kind for path, kind in compare(before, now).items() if path not in _OF_THE_ENGINE}
