"""The images of a daemon: handing ours over once, having it pull or build others, and reading the files of any."""

import asyncio
import hashlib
import itertools
import json
import os
import stat
import tarfile
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from seatrial.concurrency import finish
from seatrial.errors import HostUnsupportedError, SandboxError
from seatrial.model.events import Observer, unobserved
from seatrial.sandbox.api import Image
from seatrial.sandbox.archives import add_file, write_tar
from seatrial.sandbox.engine.changes import FileManifest, Kind, compare, read_manifest
from seatrial.sandbox.engine.client import EngineClient, EngineError
from seatrial.sandbox.engine.container import remove_container
from seatrial.sandbox.engine.files import Files
from seatrial.sandbox.layers import LayerWriter

_NAME = "seatrial-image"
_LONG_SEC = 3600.0
_UNTAGGED = "latest"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Progress:
    """One word of a daemon at work: about which part, and how far it is if that can be said."""

    status: str
    part: str = ""
    done: int | None = None
    total: int | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """An image the daemon has: how to call it, and as whom its commands run unless somebody says otherwise."""

    name: str
    user: str | None


class Images:
    """The images of one daemon, each looked for and handed over once."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client
        self._known: dict[Image, asyncio.Future[Known]] = {}

    async def ensure(self, image: Image) -> Known:
        """Have an image in the daemon. Raises HostUnsupportedError for one that it cannot have."""
        if image.base == "host":
            raise HostUnsupportedError(
                "containers cannot run this machine's own system (image 'host'); use the embedded backend "
                "(-e embedded), or an image that the daemon knows (--image REFERENCE)"
            )
        if image not in self._known:
            # A task of its own, which several wait for: none of them must take it along when cancelled.
            self._known[image] = asyncio.ensure_future(self._find(image))
        try:
            return await asyncio.shield(self._known[image])
        except (SandboxError, HostUnsupportedError):
            self._known.pop(image, None)  # the next one may try again
            raise

    async def _find(self, image: Image) -> Known:
        if not image.layers:
            found = await inspect(self._client, image.reference)
            if found is None:
                engine = self._client.endpoint.engine
                raise HostUnsupportedError(
                    f"the {engine} daemon at {self._client.endpoint} has no image {image.reference!r}; "
                    f"`{engine} pull {image.reference}` gets it, or choose another with --image"
                )
            return Known(image.reference, image.config.user or (found.get("Config") or {}).get("User") or None)
        if await self._has_the_same(image):
            return Known(str(image.digest), image.config.user)
        name = f"{_NAME}:{await asyncio.to_thread(identify, image)}"
        if await inspect(self._client, name) is None:
            await self._load(image, name)
        return Known(name, image.config.user)

    async def _has_the_same(self, image: Image) -> bool:
        """Whether the daemon has got the very same image by itself: engines name images by the same digest."""
        found = await inspect(self._client, image.digest) if image.digest else None
        return found is not None and len(found["RootFS"]["Layers"]) == len(image.layers)

    async def _load(self, image: Image, name: str) -> None:
        with tempfile.TemporaryFile() as archive:
            machine = str((await self._client.ask("GET", "/info"))["Architecture"])
            await asyncio.to_thread(pack_image, image, name, _ARCHITECTURES.get(machine, machine), archive)
            async for _ in _words(self._client, "/images/load", archive, {"quiet": "1"}):
                pass

    async def close(self) -> None:
        """Wait for what is still being handed over, and forget."""
        for task in self._known.values():
            task.cancel()
        if self._known:
            await asyncio.wait(self._known.values())
        for task in self._known.values():
            if not task.cancelled():
                task.exception()  # heard by whoever waited; nobody else wants to know


async def inspect(client: EngineClient, reference: str) -> dict[str, Any] | None:
    """What the daemon knows of an image; None when it does not have it."""
    try:
        found: dict[str, Any] = await client.ask("GET", f"/images/{reference}/json")
    except EngineError as error:
        if error.status == 404:
            return None
        raise
    return found


async def pull(client: EngineClient, reference: str, observe: Observer[Progress] = unobserved) -> None:
    """Have the daemon pull an image with its own credentials and mirrors. Raises SandboxError with its words."""
    name, tag = split_reference(reference)
    async for word in _words(client, "/images/create", None, {"fromImage": name, "tag": tag}):
        observe(word)


async def save(client: EngineClient, reference: str, archive: BinaryIO) -> None:
    """Have the daemon write one of its images into a file, as `docker save` does. Raises EngineError without one."""
    async with client.open("GET", f"/images/{reference}/get", timeout_sec=_LONG_SEC) as response:
        async for data in response.content.iter_any():
            await asyncio.to_thread(archive.write, data)
    archive.flush()


def split_reference(reference: str) -> tuple[str, str]:
    """A reference as an engine wants it: the name, and the tag or digest."""
    if "@" in reference:
        name, _, digest = reference.partition("@")
        return name, digest
    name, colon, tag = reference.rpartition(":")
    return (name, tag) if colon and "/" not in tag else (reference, _UNTAGGED)


@dataclass(frozen=True, slots=True)
class DaemonBuildSpec:
    """What to build: the context folder, the Dockerfile within it, and what the result is to be called."""

    context: Path
    name: str
    dockerfile: str = "Dockerfile"
    arguments: Mapping[str, str] | None = None
    platform: str | None = None


async def build(client: EngineClient, spec: DaemonBuildSpec, observe: Observer[Progress] = unobserved) -> None:
    """Have the daemon build an image. Raises SandboxError with the last words of the build when it fails."""
    query = {"t": spec.name, "dockerfile": spec.dockerfile, "rm": "1", "forcerm": "1"}
    if spec.arguments:
        query["buildargs"] = json.dumps(dict(spec.arguments))
    if spec.platform:
        query["platform"] = spec.platform
    with tempfile.TemporaryFile() as archive:
        await asyncio.to_thread(_pack_context, spec.context, archive)
        async for word in _words(client, "/build", archive, query):
            observe(word)


def _pack_context(context: Path, archive: BinaryIO) -> None:
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.add(context, arcname=".")
    archive.seek(0)


async def _words(
    client: EngineClient, path: str, body: BinaryIO | None, query: Mapping[str, str]
) -> AsyncIterator[Progress]:
    """What a daemon says while it works, line by line. Raises SandboxError for the line that says it failed."""
    async with client.open("POST", path, body, query, timeout_sec=_LONG_SEC) as response:
        async for line in response.content:
            word = json.loads(line) if line.strip().startswith(b"{") else {}
            if "error" in word:
                raise SandboxError(f"{client.endpoint.engine}: {str(word['error']).strip()}")
            detail = word.get("progressDetail") or {}
            if said := str(word.get("status") or word.get("stream") or "").rstrip():
                yield Progress(said, str(word.get("id") or ""), detail.get("current"), detail.get("total"))


def identify(image: Image) -> str:
    """A name for the content of an image, by what tells that a file is the same without reading it."""
    digest = hashlib.sha256(f"{image.digest} {sorted(image.config.env.items())}".encode())
    for layer in image.layers:
        digest.update(b"layer")
        for path, status in _walk(layer):
            name = os.fsencode(path.relative_to(layer))
            facts = (status.st_mode, status.st_uid, status.st_gid, status.st_size, status.st_mtime_ns)
            digest.update(name + repr(facts).encode())
            if stat.S_ISLNK(status.st_mode):
                digest.update(os.fsencode(path.readlink()))
    return digest.hexdigest()[:32]


def _walk(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Everything below a directory in order, following no link."""
    for entry in sorted(os.scandir(folder), key=lambda each: each.name):
        path, status = Path(entry.path), entry.stat(follow_symlinks=False)
        yield path, status
        if stat.S_ISDIR(status.st_mode):
            yield from _walk(path)


def pack_image(image: Image, name: str, machine: str, archive: BinaryIO) -> None:
    """An image of ours as `docker save` would write it, ready to be read."""
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        digests = [_add_layer(tar, layer, f"layer-{number}.tar") for number, layer in enumerate(image.layers)]
        config = {
            "architecture": machine,
            "os": "linux",
            "config": {"Env": [f"{key}={value}" for key, value in image.config.env.items()]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
        }
        layers = [f"layer-{number}.tar" for number in range(len(digests))]
        manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": layers}]
        for file, content in (("config.json", config), ("manifest.json", manifest)):
            add_file(tar, file, json.dumps(content).encode())
    archive.seek(0)


def pack_layer(layer: Path, archive: BinaryIO) -> None:
    """Pack a layer; what belongs to an ordinary user who does it belongs to root in there."""

    def owner(status: os.stat_result) -> tuple[int, int]:
        return (0, 0) if status.st_uid == os.getuid() else (status.st_uid, status.st_gid)

    with write_tar(archive) as tar:
        LayerWriter(tar, attributes=lambda _: False, owner=owner).add_below(str(layer))
    archive.seek(0)


def _add_layer(tar: tarfile.TarFile, layer: Path, name: str) -> str:
    with tempfile.TemporaryFile() as packed:
        pack_layer(layer, packed)
        digest = hashlib.file_digest(packed, "sha256").hexdigest()
        member = tarfile.TarInfo(name)
        member.size = os.fstat(packed.fileno()).st_size
        packed.seek(0)
        tar.addfile(member, packed)
    return digest


# Files of an image that only the daemon has, from a fresh container of it that never runs

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
