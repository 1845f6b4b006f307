"""Getting an image from a registry into the store: what is there already is not fetched again."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from seatrial.errors import ImageError, ImageFetchError
from seatrial.images.access import Access, new_session
from seatrial.images.blobs import fetch_blob
from seatrial.images.credentials import find_credentials
from seatrial.images.platforms import Platform, host_platform
from seatrial.images.progress import LayerProgress, LayerState, OnProgress, say_nothing
from seatrial.images.reference import Reference, parse_reference
from seatrial.images.registry import Descriptor, Resolved, resolve
from seatrial.images.registry_servers import RegistryOptions, RegistryServer, is_loopback, places_of, read_options
from seatrial.images.retrying import Wait
from seatrial.images.store import Store
from seatrial.images.stored import StoredImage

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
    store: Store, name: str, options: PullOptions | None = None, on_progress: OnProgress = say_nothing
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

    def __init__(self, store: Store, reference: Reference, options: PullOptions, on_progress: OnProgress) -> None:
        self._store = store
        self._reference = reference
        self._options = options
        self._on_progress = on_progress
        self._downloads = asyncio.Semaphore(_DOWNLOADS)
        self._unpackings = asyncio.Semaphore(os.cpu_count() or 1)

    async def run(self) -> StoredImage:
        """Try one place after the other."""
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
        return self._keep(resolved)

    def _keep(self, resolved: Resolved) -> StoredImage:
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
