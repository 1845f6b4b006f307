"""The store of images: layers unpacked once, by digest, and shared by all trials and processes of a user.

    layers/DIGEST/root       a layer as overlayfs takes it; `about.json` beside it
    images/DIGEST.json       a configuration; its time is that of its last use
    references/HASH.json     which image a name means here
    sessions/run-…/          what a process is working on; removed with it, or by the next one

Whatever is there is complete: everything is made in a session's directory and renamed into its place.
"""

import hashlib
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from seatrial.errors import ImageError, SandboxError
from seatrial.images.cache import cache_root, usable
from seatrial.images.config import ImageDocument, digest_of, read_document, write_document
from seatrial.images.layers import LayerBounds, Owners
from seatrial.images.locks import WorkLocks
from seatrial.images.platforms import Platform
from seatrial.images.reference import Reference, is_digest, parse_reference
from seatrial.images.sessions import RegistrySession
from seatrial.images.stored import About, NamedImage, StoredImage, StoredLayer, read_stored
from seatrial.images.workers import manner_here, remove_trees, run_worker
from seatrial.model.base import to_json
from seatrial.sandbox.api import Image

LAYER_FOLDERS: dict[Owners, str] = {"kept": "layers", "squashed": "layers-of-one-owner"}
_BOUNDS = LayerBounds()
_IMAGE_ID = re.compile(r"[0-9a-f]{12,64}")


class Store:
    """The store, open for this process. What has been found or added is not pruned before `close`."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = usable(root or cache_root())
        self._manner = manner_here()
        # With one user id, all files belong to one: such layers are no good for whoever gets more ids later.
        self.layers = self.root / LAYER_FOLDERS[self._manner.owners]
        for folder in (self.layers, *map(self.root.joinpath, ("images", "references", "blobs", "locks"))):
            folder.mkdir(exist_ok=True)
        self._session = RegistrySession(self.root)
        self._locks = WorkLocks(self.root / "locks")

    @property
    def session(self) -> RegistrySession:
        """This process's use of the store."""
        return self._session

    @property
    def owners(self) -> Owners:
        """Whether files in its layers belong to whom their images say."""
        return self._manner.owners

    @property
    def blobs(self) -> Path:
        """Where downloads are kept until they are complete and unpacked."""
        return self.root / "blobs"

    @asynccontextmanager
    async def working_on(self, what: str) -> AsyncIterator[None]:
        """Be the only one on this machine to work on something, by any name; look first whether it is done by now."""
        async with self._locks.hold(what):
            yield

    async def close(self) -> None:
        """Give up what was claimed, and remove what was never finished here or by processes that are no more."""
        await self.sweep()
        if not self._session.end():
            await remove_trees(self._session.path)
            self._session.release()

    async def sweep(self) -> int:
        """Remove what dead processes left; returns of how many."""
        count = 0
        for path in self._session.abandoned():
            with suppress(ImageError, SandboxError):  # what cannot be removed now must not stop this process
                await remove_trees(path)
                count += 1
        return count

    # Layers

    def layer(self, digest: str) -> StoredLayer | None:
        """A layer by its digest, None when it is not here."""
        with self._session.claiming(digest):
            found = self._read_layer(digest)
            if found:
                os.utime(found.path.parent)  # in use now, for whoever prunes what has not been for long
            return found

    def _read_layer(self, digest: str) -> StoredLayer | None:
        folder = self._layer_folder(digest)
        about = read_stored(About, folder / "about.json")
        return StoredLayer(digest, folder / "root", about) if about else None

    def _layer_folder(self, digest: str) -> Path:
        if not is_digest(digest):
            raise ImageError(f"{digest!r} is not the digest of a layer; expected sha256: and 64 hexadecimal digits")
        return self.layers / digest.partition(":")[2]

    async def add_layer(
        self,
        archive: BinaryIO,
        digest: str | None = None,
        *,
        size: int | None = None,
        bounds: LayerBounds = _BOUNDS,
        on_read: Callable[[int], None] | None = None,
    ) -> StoredLayer:
        """Unpack a layer from an archive, a real file or a pipe, compressed or not: `size` bytes from where it stands.

        Raises ImageError when it is broken, hostile or too large, or when its content has another `digest` (that of
        the uncompressed archive) than expected; then nothing of it is kept.
        """
        folder, found, about = await self._unpack(archive, digest, size=size, bounds=bounds, on_read=on_read)
        return await self._install(folder, found, about)

    async def add_copy(self, archive: BinaryIO, packed: str, digest: str) -> StoredLayer:
        """Unpack a layer that another store has packed from its own, and knows by a `digest`.

        Raises ImageError when the archive is broken, or has another digest itself than `packed`.
        """
        folder, _, about = await self._unpack(archive, packed)
        return await self._install(folder, digest, about)

    async def _unpack(
        self,
        archive: BinaryIO,
        digest: str | None,
        *,
        size: int | None = None,
        bounds: LayerBounds = _BOUNDS,
        on_read: Callable[[int], None] | None = None,
    ) -> tuple[Path, str, About]:
        """A layer in a directory of this session, the digest of its archive, and what is known about it."""
        folder = self._session.new_folder()
        (folder / "root").mkdir(mode=0o755)
        target = os.open(folder / "root", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            order = {"op": "unpack", "manner": self._manner, "bounds": bounds, "size": size}
            answer = await run_worker(order, [archive.fileno(), target], on_read)
        except BaseException:
            await remove_trees(folder)
            raise
        finally:
            os.close(target)
        found = answer.pop("diff_id")
        if digest is not None and found != digest:
            await remove_trees(folder)
            raise ImageError(f"a layer is not what its image says: expected {digest}, found {found}")
        return folder, found, About(**answer)

    def new_tree(self) -> Path:
        """Where to make a directory for `add_tree`, as `Sandbox.snapshot` does; it goes with this process otherwise."""
        return self._session.new_folder() / "root"

    async def add_tree(self, tree: Path, digest: str) -> StoredLayer:
        """Take over a directory from `new_tree`, filled with files and whiteouts as overlayfs has them.

        `digest` is whatever the maker knows it by, in the form of a digest: it is not checked against the content.
        """
        descriptor = os.open(tree, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            answer = await run_worker({"op": "measure"}, [descriptor])
        finally:
            os.close(descriptor)
        return await self._install(tree.parent, digest, About(**answer))

    async def _install(self, folder: Path, digest: str, about: About) -> StoredLayer:
        (folder / "about.json").write_bytes(to_json(about))
        target = self._layer_folder(digest)
        with self._session.claiming(digest):
            found = self._read_layer(digest)
            if found is None:
                if target.exists():  # what nobody can read, after a power cut perhaps
                    os.rename(target, self._session.new_folder() / "broken")  # noqa: PTH104 - nothing to wait for
                os.rename(folder, target)  # noqa: PTH104 - as above
                return StoredLayer(digest, target / "root", about)
        await remove_trees(folder)
        return found

    # Images

    def find(self, name: str | Reference, platform: Platform | None = None) -> StoredImage | None:
        """An image by reference, digest or the beginning of its digest; None when it is not here as a whole.

        With `platform`, an image for another one does not count.
        """
        digest, names = self._resolve(name)
        image = self._read_image(digest, names) if digest else None
        if image is None or (platform and image.document.platform.usual != platform.usual):
            return None
        with self._session.claiming(image.digest, *image.layers):
            complete = all(self._read_layer(layer) for layer in image.layers)
        return image if complete else None

    def put_image(
        self, document: ImageDocument | bytes, *references: str | Reference, manifest: str | None = None
    ) -> StoredImage:
        """Keep a configuration whose layers are all here, and have some names mean it. Raises ImageError."""
        raw = document if isinstance(document, bytes) else write_document(document)
        digest = digest_of(raw)
        parsed = read_document(raw, digest)
        with self._session.claiming(digest, *parsed.rootfs.diff_ids):
            missing = [layer for layer in parsed.rootfs.diff_ids if self._read_layer(layer) is None]
            if missing:
                raise ImageError(f"image {digest}: its layer {missing[0]} is not in the store")
            self._write(self._image_file(digest), raw)
            names = [self.name_image(digest, reference, manifest) for reference in references]
        return StoredImage(digest, parsed, tuple(names), time.time())

    def name_image(self, digest: str, reference: str | Reference, manifest: str | None = None) -> NamedImage:
        """Have a name mean an image, whatever it meant before."""
        named = NamedImage(reference=str(_parsed(reference)), image=digest, manifest=manifest)
        self._write(self._name_file(named.reference), to_json(named))
        return named

    def forget(self, image: StoredImage) -> None:
        """Remove an image and its names; its layers stay."""
        for named in image.names:
            self._name_file(named.reference).unlink(missing_ok=True)
        self._image_file(image.digest).unlink(missing_ok=True)

    def image(self, image: StoredImage, reference: str | None = None) -> Image:
        """What a sandbox is made from; it stays here at least until `close`. Raises ImageError if a layer is gone."""
        with self._session.claiming(image.digest, *image.layers):
            layers = [self._read_layer(digest) for digest in image.layers]
            if None in layers or not self._image_file(image.digest).exists():
                raise ImageError(f"image {image.digest} has been removed from the store meanwhile; fetch it again")
            os.utime(self._image_file(image.digest))
        paths: list[Path] = []
        for layer in layers:
            assert layer is not None  # noqa: S101 - as just seen
            paths = [layer.path] if layer.about.hides_below else [*paths, layer.path]
        name = reference or next((named.reference for named in image.names), image.digest)
        return Image(name, tuple(paths), digest=image.digest, config=image.document.run_config)

    def config_of(self, digest: str) -> bytes:
        """The configuration of an image as it was written. Raises ImageError if it is gone."""
        try:
            return self._image_file(digest).read_bytes()
        except FileNotFoundError:
            raise ImageError(f"image {digest} has been removed from the store meanwhile") from None

    def images(self) -> list[StoredImage]:
        """All images, the latest used first."""
        names: dict[str, list[NamedImage]] = {}
        for path in sorted((self.root / "references").glob("*.json")):
            if named := read_stored(NamedImage, path):
                names.setdefault(named.image, []).append(named)
        digests = [f"sha256:{path.stem}" for path in (self.root / "images").glob("*.json")]
        found = [self._read_image(digest, names.get(digest, ())) for digest in digests]
        return sorted(filter(None, found), key=lambda image: image.used_at, reverse=True)

    def size_of(self, image: StoredImage) -> int:
        """How many bytes its layers have, whoever else has them too."""
        layers = [self._read_layer(digest) for digest in set(image.layers)]
        return sum(layer.about.size for layer in layers if layer)

    def _read_image(self, digest: str, names: Sequence[NamedImage]) -> StoredImage | None:
        path = self._image_file(digest)
        try:
            document, used_at = read_document(path.read_bytes(), digest), path.stat().st_mtime
        except (FileNotFoundError, ImageError):
            return None
        return StoredImage(digest, document, tuple(sorted(names, key=lambda named: named.reference)), used_at)

    def _resolve(self, name: str | Reference) -> tuple[str | None, list[NamedImage]]:
        """The digest of the image a name means, and that name unless it is the digest."""
        if isinstance(name, str) and is_digest(name):
            return name, []
        if isinstance(name, str) and _IMAGE_ID.fullmatch(name):
            matches = list((self.root / "images").glob(f"{name}*.json"))
            if len(matches) == 1:
                return f"sha256:{matches[0].stem}", []
        named = read_stored(NamedImage, self._name_file(str(_parsed(name))))
        return (named.image, [named]) if named else (None, [])

    def _image_file(self, digest: str) -> Path:
        return self.root / "images" / f"{digest.partition(':')[2]}.json"

    def _name_file(self, name: str) -> Path:
        return self.root / "references" / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.json"

    def _write(self, path: Path, content: bytes) -> None:
        draft = self._session.new_folder() / path.name
        draft.write_bytes(content)
        draft.rename(path)
        draft.parent.rmdir()


@asynccontextmanager
async def open_store(root: Path | None = None) -> AsyncIterator[Store]:
    """The store of this user, or one at a place of its own. Raises HostUnsupportedError for an unusable place."""
    store = Store(root)
    try:
        yield store
    finally:
        await store.close()


def _parsed(name: str | Reference) -> Reference:
    return parse_reference(name) if isinstance(name, str) else name
