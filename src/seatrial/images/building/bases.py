"""What stages are built on and copied from: images somebody else finds for us, nothing at all, or this machine."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

from seatrial.errors import HostUnsupportedError, UsageError
from seatrial.images.building.draft import ConfigDraft
from seatrial.images.building.sources import Origin
from seatrial.images.building.stage import Stage
from seatrial.images.building.step_cache import make_key
from seatrial.images.building.words import WordError
from seatrial.images.config import ImageDocument, Settings
from seatrial.images.platforms import Platform
from seatrial.images.store import Store
from seatrial.images.stored import StoredImage, StoredLayer
from seatrial.sandbox.api import Image, ImageConfig

ResolveBase = Callable[[str, Platform], Awaitable[StoredImage | Image]]
"""Finds the image of a FROM: one in the store, or `HOST_IMAGE` (also with layers of the store on top) to build on."""

_HOST_SIGNS = (Path("/usr/bin"), Path("/usr/lib"), Path("/var/lib/dpkg/status"), Path("/etc/os-release"))


@dataclass(frozen=True, slots=True)
class Bases:
    """Where images come from in one build."""

    store: Store
    resolve_base: ResolveBase
    escape: str

    async def begin(self, name: str, platform: Platform) -> Stage:
        """A new stage on an image. Raises WordError, and what finding it raises."""
        if name == "scratch":
            return self._new_stage(ImageDocument(), platform, make_key("scratch"))
        found = await self._resolve(name, platform)
        if isinstance(found, Image):
            return self._on_image(found, platform)
        stage = self._new_stage(found.document, platform, make_key("base", *found.layers))
        stage.layers += [self._layer(digest) for digest in found.layers]
        return stage

    def _on_image(self, image: Image, platform: Platform) -> Stage:
        digests = [f"sha256:{path.parent.name}" for path in image.layers]
        below = host_key() if image.base == "host" else "empty"
        stage = self._new_stage(_document_of(image.config), platform, make_key("image", below, *digests))
        stage.layers += [self._layer(digest) for digest in digests]
        return replace(stage, base=image.base)

    async def origin(self, name: str, platform: Platform) -> Origin:
        """An image to copy files from. Raises like `begin`."""
        stage = await self.begin(name, platform)
        return Origin(stage.view, stage.key)

    def _new_stage(self, document: ImageDocument, platform: Platform, key: str) -> Stage:
        return Stage(ConfigDraft(document, platform), "empty", key, self.escape)

    async def _resolve(self, name: str, platform: Platform) -> StoredImage | Image:
        try:
            found = await self.resolve_base(name, platform)
        except HostUnsupportedError:
            raise
        except UsageError as error:
            raise WordError(str(error)) from error
        if isinstance(found, Image) and not all(path.is_relative_to(self.store.root) for path in found.layers):
            raise WordError(f"{name} is an image that is not in the store; load or pull it first")
        return found

    def _layer(self, digest: str) -> StoredLayer:
        layer = self.store.layer(digest)
        if layer is None:
            raise WordError(f"layer {digest} of the base image is not in the store any more; pull it again")
        return layer


def _document_of(config: ImageConfig) -> ImageDocument:
    """The configuration of an image as far as a sandbox knows it."""
    settings = Settings(
        env=tuple(f"{name}={value}" for name, value in config.env.items()),
        working_dir=config.workdir,
        user=config.user,
        entrypoint=config.entrypoint,
        command=config.command,
    )
    return ImageDocument(config=settings)


def host_key() -> str:
    """What tells that this machine's own system has changed."""
    return make_key("host", *(sign.stat().st_mtime_ns for sign in _HOST_SIGNS if sign.exists()))
