"""Getting an image from a registry into the store: what is there already is not fetched again."""

import asyncio
import hashlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Literal

import aiohttp

from seatrial.errors import ImageError, ImageFetchError
from seatrial.images.cache import LayerProgress, LayerState
from seatrial.images.config import Platform, host_platform
from seatrial.images.reference import Reference, parse_reference
from seatrial.images.registry import (
    Access,
    Descriptor,
    PassingError,
    RegistryOptions,
    RegistryServer,
    Wait,
    find_credentials,
    is_loopback,
    new_session,
    pause,
    places_of,
    read_options,
    resolve,
)
from seatrial.images.store import Store, StoredImage
from seatrial.model.events import Observer, unobserved

# Downloads: checked while they come, resumed after a cut, also by another process on another day.

_CHUNK = 2**18
_RANGE = re.compile(r"bytes (\d+)-\d+/(?:\d+|\*)")


async def fetch_blob(
    access: Access, blob: Descriptor, path: Path, on_bytes: Callable[[int], None] = lambda _: None
) -> None:
    """Download a blob to a file, going on from what is there of it; `on_bytes` hears how much there is.

    Raises ImageError when its content is not what its digest says, and then keeps nothing; ImageFetchError when it
    cannot be had now, and then keeps what came.
    """
    with path.open("a+b") as file:
        download = _Download(access, blob, file, on_bytes)
        resumed = await asyncio.to_thread(download.look_at_file)
        await download.fetch()
        if not download.is_right() and resumed:
            download.start_over()  # what was there may have been anything
            await download.fetch()
        if download.is_right():
            return
        found = download.found
        download.start_over()
    raise ImageError(
        f"{access} sent something else for {blob.digest}: {found}; nothing of it was kept. "
        "If it happens again, the registry or something on the way to it changes its content"
    )


def _new_hash(blob: Descriptor) -> "hashlib._Hash":
    return hashlib.new(blob.digest.partition(":")[0])


class _Download:
    """One blob on its way into a file."""

    def __init__(self, access: Access, blob: Descriptor, file: BinaryIO, on_bytes: Callable[[int], None]) -> None:
        self._access = access
        self._blob = blob
        self._file = file
        self._on_bytes = on_bytes
        self._hash = _new_hash(blob)
        self._size = 0

    def start_over(self) -> None:
        self._file.truncate(0)
        self._hash = _new_hash(self._blob)
        self._size = 0

    def look_at_file(self) -> bool:
        """Take in what an earlier try left; whether there was something."""
        self._file.seek(0)
        while chunk := self._file.read(_CHUNK):
            self._hash.update(chunk)
            self._size += len(chunk)
        if self._size > self._blob.size:
            self.start_over()
        return self._size > 0

    @property
    def found(self) -> str:
        return f"{self._hash.name}:{self._hash.hexdigest()}"

    def is_right(self) -> bool:
        """Whether it is all there and what it should be."""
        return self._size == self._blob.size and self.found == self._blob.digest

    async def fetch(self) -> None:
        """Get what is missing. Each try that brings something starts counting anew."""
        failures = 0
        while self._size < self._blob.size:
            before = self._size
            try:
                await self._fetch_some()
            except PassingError as error:
                failures = 1 if self._size > before else failures + 1
                if failures >= error.tries:
                    raise ImageFetchError(
                        f"{error}; tried {failures} times; {self._size} of {self._blob.size} bytes are kept"
                    ) from error
                await self._access.wait(pause(failures, error))
        self._file.flush()

    async def _fetch_some(self) -> None:
        headers = {"Range": f"bytes={self._size}-"} if self._size else {}
        async with self._access.stream(f"blobs/{self._blob.digest}", headers) as response:
            self._meet(response)
            async for chunk in response.content.iter_chunked(_CHUNK):
                self._take(chunk)
        if self._size < self._blob.size:
            raise PassingError(f"{self._access} ended after {self._size} of {self._blob.size} bytes")

    def _meet(self, response: aiohttp.ClientResponse) -> None:
        """See where an answer begins: not every registry knows ranges."""
        begins = _RANGE.fullmatch(response.headers.get("Content-Range", "")) if response.status == 206 else None
        start = int(begins[1]) if begins else 0
        if start != self._size:
            self.start_over()
        if start != self._size or response.status == 416:
            raise PassingError(f"{self._access} answered with another range than was asked for")

    def _take(self, chunk: bytes) -> None:
        if self._size + len(chunk) > self._blob.size:
            self.start_over()
            raise ImageError(f"{self._access} sends more than the {self._blob.size} bytes of {self._blob.digest}")
        self._file.write(chunk)
        self._hash.update(chunk)
        self._size += len(chunk)
        self._on_bytes(self._size)


# Pulling an image.

OFFLINE = "SEATRIAL_OFFLINE"
_DOWNLOADS = 4
_ADVICE = (
    "Bring it from elsewhere with `seatrial images load FILE`, name a mirror in SEATRIAL_MIRRORS, use another one "
    "instead (--image-map '{name}=IMAGE'), or run on this machine's own system (--image host)"
)


@dataclass(frozen=True, slots=True)
class PullOptions:
    """How to get an image. With `missing`, one that is in the store is taken as it is; `always` asks the registry."""

    policy: Literal["missing", "always"] = "missing"
    platform: Platform = field(default_factory=host_platform)
    registries: RegistryOptions = field(default_factory=lambda: read_options(os.environ))
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    wait: Wait = asyncio.sleep
    ca_file: str | None = None


async def pull_image(
    store: Store, name: str, options: PullOptions | None = None, on_progress: Observer[LayerProgress] = unobserved
) -> StoredImage:
    """The image a name means, in the store.

    Raises UsageError for what is no name, ImageFetchError when it cannot be had now, ImageError when it cannot be had
    or used at all; the message names the image, what was tried, and what to do.
    """
    options = options or PullOptions()
    reference = parse_reference(name)
    async with store.working_on(f"pull-{reference}"):
        found = store.find(reference, options.platform)
        if found and (options.policy == "missing" or reference.digest):
            return found
        try:
            return await _Pull(store, reference, options, on_progress).run()
        except OSError as error:
            raise ImageFetchError(f"{reference.familiar} cannot be stored in {store.root}: {error}") from error


class _Pull:
    """One image on its way."""

    def __init__(
        self, store: Store, reference: Reference, options: PullOptions, on_progress: Observer[LayerProgress]
    ) -> None:
        self._store = store
        self._reference = reference
        self._options = options
        self._on_progress = on_progress
        self._downloads = asyncio.Semaphore(_DOWNLOADS)
        self._unpackings = asyncio.Semaphore(os.cpu_count() or 1)

    async def run(self) -> StoredImage:
        failures: list[ImageError] = []
        async with new_session(self._options.ca_file) as session:
            for place in places_of(self._reference, self._options.registries):
                try:
                    self._check_reach(place)
                    credentials = await find_credentials(place.domain, self._options.environ)
                    access = Access(session, place, self._reference.path, credentials, self._options.wait)
                    return await self._pull_from(access)
                except ImageError as error:
                    failures.append(error)
        kind = ImageFetchError if all(error.retryable for error in failures) else ImageError
        tried, advice = "; ".join(map(str, failures)), _ADVICE.format(name=self._reference.familiar)
        raise kind(f"{self._reference.familiar} cannot be pulled: {tried}. {advice}") from failures[-1]

    def _check_reach(self, place: RegistryServer) -> None:
        if self._options.environ.get(OFFLINE) and not is_loopback(place.base.host or ""):
            raise ImageFetchError(f"{place.domain} is not asked, because {OFFLINE} is set")

    async def _pull_from(self, access: Access) -> StoredImage:
        resolved = await resolve(access, self._reference.wanted, self._options.platform)
        blobs = dict(zip(resolved.document.rootfs.diff_ids, resolved.layers, strict=True))
        try:
            async with asyncio.TaskGroup() as group:
                for digest, blob in blobs.items():
                    group.create_task(self._ensure_layer(access, digest, blob))
        except ExceptionGroup as errors:
            raise _first_cause(errors) from errors
        return self._store.put_image(resolved.raw_config, self._reference, manifest=resolved.manifest_digest)

    async def _ensure_layer(self, access: Access, digest: str, blob: Descriptor) -> None:
        def tell(state: LayerState, done: int = 0) -> None:
            self._on_progress(LayerProgress(str(self._reference), digest, state, done, blob.size))

        if self._store.layer(digest):
            tell("present", blob.size)
            return
        tell("waiting")
        async with self._store.working_on(digest):
            if self._store.layer(digest):
                tell("ready", blob.size)
                return
            path = self._store.blobs / f"{digest.partition(':')[2]}.part"
            async with self._downloads:
                await fetch_blob(access, blob, path, lambda done: tell("fetching", done))
            async with self._unpackings:
                with path.open("rb") as archive:
                    tell("unpacking")
                    await self._store.add_layer(archive, digest, on_read=lambda done: tell("unpacking", done))
            path.unlink()
            tell("ready", blob.size)


def _first_cause(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """One error to show: whatever is not ours, else the first."""
    first = errors.exceptions[0]
    return _first_cause(first) if isinstance(first, BaseExceptionGroup) else first
