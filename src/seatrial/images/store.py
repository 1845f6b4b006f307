"""The store of images: layers unpacked once, by digest, and shared by all trials and processes of a user.

    layers/DIGEST/root       a layer as overlayfs takes it; `about.json` beside it
    images/DIGEST.json       a configuration; its time is that of its last use
    references/HASH.json     which image a name means here
    sessions/run-…/          what a process is working on; removed with it, or by the next one

Whatever is there is complete: everything is made in a session's directory and renamed into its place.
"""

import fcntl
import hashlib
import os
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeVar

from pydantic import ValidationError

from seatrial.errors import ImageError, SandboxError
from seatrial.images.cache import cache_root, usable
from seatrial.images.config import ImageDocument, Platform, digest_of, read_document, write_document
from seatrial.images.layers import LayerBounds, Owners
from seatrial.images.locks import WorkLocks, manner_here, remove_trees, run_worker
from seatrial.images.reference import Reference, is_digest, parse_reference
from seatrial.model.base import StrictModel, to_json
from seatrial.sandbox.api import Image
from seatrial.sandbox.runs import RunDirectory

# What is known about the contents of the store.

T = TypeVar("T", bound=StrictModel)


class About(StrictModel):
    """What is known about a layer: how large it is, what could not be kept, whether it hides all layers below."""

    size: int
    entries: int
    devices: int = 0
    squashed: int = 0
    hides_below: bool = False


class NamedImage(StrictModel):
    """What a name means: an image, and the digest under which the registry has it."""

    reference: str
    image: str
    manifest: str | None = None


@dataclass(frozen=True, slots=True)
class StoredLayer:
    """A layer that is there."""

    digest: str
    path: Path
    about: About


@dataclass(frozen=True, slots=True)
class StoredImage:
    """An image that is there; `names` are all it has in a list, else the one it was found by."""

    digest: str
    document: ImageDocument
    names: tuple[NamedImage, ...]
    used_at: float

    @property
    def layers(self) -> tuple[str, ...]:
        return self.document.rootfs.diff_ids


def paths_of(layers: Iterable[StoredLayer]) -> tuple[Path, ...]:
    """The directories of layers, lowest first, without those that a later one hides."""
    paths: list[Path] = []
    for layer in layers:
        paths = [layer.path] if layer.about.hides_below else [*paths, layer.path]
    return tuple(paths)


def read_stored(kind: type[T], path: Path) -> T | None:
    """What a file of the store says, None when it is not there or was not written to its end."""
    try:
        return kind.model_validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


# Sessions: each process that has the store open keeps a directory locked. Nobody prunes what a living session has
# claimed; the next process removes the directory of a dead one.

_CLAIMS = "claims"


class StoreSession:
    """One process's use of a store."""

    def __init__(self, root: Path) -> None:
        self._gate = root / "lock"
        self._folder = root / "sessions"
        self._folder.mkdir(exist_ok=True)
        self._run = RunDirectory(self._folder)
        self._claimed: set[str] = set()

    def new_folder(self) -> Path:
        """A new directory that goes with this session, unless it is moved elsewhere before."""
        folder = self._run.path / secrets.token_hex(8)
        folder.mkdir(mode=0o755)
        return folder

    @property
    def path(self) -> Path:
        return self._run.path

    @contextmanager
    def claiming(self, *names: str) -> Iterator[None]:
        """Claim some things until the end of the session; nobody prunes while the block decides whether they exist."""
        with self._gate_lock(fcntl.LOCK_SH):
            if new := set(names) - self._claimed:
                with (self._run.path / _CLAIMS).open("a") as file:
                    file.write("".join(f"{name}\n" for name in sorted(new)))
                self._claimed |= new
            yield

    @contextmanager
    def pruning(self) -> Iterator[frozenset[str]]:
        """What living sessions have claimed, this one included; nobody claims anything meanwhile."""
        with self._gate_lock(fcntl.LOCK_EX):
            claimed: set[str] = set()
            dead = set(self.abandoned())
            for path in self._folder.glob(f"*/{_CLAIMS}"):
                if path.parent not in dead:
                    claimed.update(path.read_text().split())
            yield frozenset(claimed)

    def abandoned(self) -> Iterator[Path]:
        """The directories that processes left which are no more; each is locked while the caller has it."""
        yield from self._run.abandoned()

    def end(self) -> bool:
        """Give up the claims and be gone, if nothing is left in the directory; else it is the caller's to remove."""
        with suppress(OSError):
            (self._run.path / _CLAIMS).unlink(missing_ok=True)
            self._run.path.rmdir()
            self.release()
            return True
        return False

    def release(self) -> None:
        """Give up the claims; the directory is the caller's to remove."""
        self._run.release()

    @contextmanager
    def _gate_lock(self, kind: int) -> Iterator[None]:
        gate = os.open(self._gate, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(gate, kind)
            yield
        finally:
            os.close(gate)


# The store itself.

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
        self.session = StoreSession(self.root)
        """This process's use of the store."""
        self._locks = WorkLocks(self.root / "locks")

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
        if not self.session.end():
            await remove_trees(self.session.path)
            self.session.release()

    async def sweep(self) -> int:
        count = 0
        for path in self.session.abandoned():
            with suppress(ImageError, SandboxError):  # what cannot be removed now must not stop this process
                await remove_trees(path)
                count += 1
        return count

    # Layers

    def layer(self, digest: str) -> StoredLayer | None:
        with self.session.claiming(digest):
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
        folder = self.session.new_folder()
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
        return self.session.new_folder() / "root"

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
        with self.session.claiming(digest):
            found = self._read_layer(digest)
            if found is None:
                if target.exists():  # what nobody can read, after a power cut perhaps
                    os.rename(target, self.session.new_folder() / "broken")  # noqa: PTH104 - nothing to wait for
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
        with self.session.claiming(image.digest, *image.layers):
            complete = all(self._read_layer(layer) for layer in image.layers)
        return image if complete else None

    def put_image(
        self, document: ImageDocument | bytes, *references: str | Reference, manifest: str | None = None
    ) -> StoredImage:
        """Keep a configuration whose layers are all here, and have some names mean it. Raises ImageError."""
        raw = document if isinstance(document, bytes) else write_document(document)
        digest = digest_of(raw)
        parsed = read_document(raw, digest)
        with self.session.claiming(digest, *parsed.rootfs.diff_ids):
            missing = [layer for layer in parsed.rootfs.diff_ids if self._read_layer(layer) is None]
            if missing:
                raise ImageError(f"image {digest}: its layer {missing[0]} is not in the store")
            self.write(self._image_file(digest), raw)
            names = [self.name_image(digest, reference, manifest) for reference in references]
        return StoredImage(digest, parsed, tuple(names), time.time())

    def name_image(self, digest: str, reference: str | Reference, manifest: str | None = None) -> NamedImage:
        """Have a name mean an image, whatever it meant before."""
        named = NamedImage(reference=str(_parsed(reference)), image=digest, manifest=manifest)
        self.write(self._name_file(named.reference), to_json(named))
        return named

    def forget(self, image: StoredImage) -> None:
        """Remove an image and its names; its layers stay."""
        for named in image.names:
            self._name_file(named.reference).unlink(missing_ok=True)
        self._image_file(image.digest).unlink(missing_ok=True)

    def image(self, image: StoredImage, reference: str | None = None) -> Image:
        """What a sandbox is made from; it stays here at least until `close`. Raises ImageError if a layer is gone."""
        with self.session.claiming(image.digest, *image.layers):
            layers = [self._read_layer(digest) for digest in image.layers]
            if None in layers or not self._image_file(image.digest).exists():
                raise ImageError(f"image {image.digest} has been removed from the store meanwhile; fetch it again")
            os.utime(self._image_file(image.digest))
        paths = paths_of(filter(None, layers))
        name = reference or next((named.reference for named in image.names), image.digest)
        return Image(name, paths, digest=image.digest, config=image.document.run_config)

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

    def write(self, path: Path, content: bytes) -> None:
        """Write a file of the store, which is there as a whole or not at all."""
        draft = self.session.new_folder() / path.name
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
