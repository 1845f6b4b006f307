"""Images from files: what `docker save` wrote, OCI layouts as directories or archives, and plain root file systems."""

import asyncio
import posixpath
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from seatrial.errors import ImageError
from seatrial.images.compression import BROKEN, open_compressed
from seatrial.images.config import ImageDocument, Layers, Settings, read_document
from seatrial.images.layers import LayerBounds
from seatrial.images.layouts import Archive, Folder, FoundImage, Part, Source, images_in
from seatrial.images.platforms import host_platform
from seatrial.images.progress import LayerProgress, LayerState, OnProgress, say_nothing
from seatrial.images.reference import parse_reference
from seatrial.images.store import Store
from seatrial.images.stored import StoredImage
from seatrial.sandbox.api import DEFAULT_PATH

_CHUNK = 2**20
_MAX_ARCHIVE = 2 * LayerBounds().max_bytes
# The names at the top of an archive of images: whoever has others is a root file system.
_OF_IMAGES = re.compile(
    r"(?:manifest|index|repositories|version)(?:\.json)?|oci-layout|VERSION|blobs|[0-9a-f]{64}(?:\.json|\.tar)?"
)
_TELLING = ("manifest.json", "index.json")
_UNREADABLE = (tarfile.TarError, OSError, ValueError, ArithmeticError, *BROKEN)


async def load_images(
    store: Store, path: Path, tag: str | None = None, on_progress: OnProgress = say_nothing
) -> list[StoredImage]:
    """Every image of a file or directory, in the store; a plain root file system becomes one with no settings.

    `tag` is a name for the only image there is. Raises ImageError for what is none, UsageError for a bad name.
    """
    if tag is not None:
        parse_reference(tag)
    try:
        return await _Loading(store, path, on_progress).run(tag)
    except ImageError as error:
        raise ImageError(f"{path} cannot be loaded: {error}") from error


class _Loading:
    """One file on its way into the store."""

    def __init__(self, store: Store, path: Path, on_progress: OnProgress) -> None:
        self._store = store
        self._path = path
        self._on_progress = on_progress

    async def run(self, tag: str | None) -> list[StoredImage]:
        if self._path.is_dir():
            return await self._load_all(Folder(self._path), tag)
        plain = await asyncio.to_thread(_plain_archive, self._path, self._store.session.new_folder() / "plain.tar")
        try:
            members = await asyncio.to_thread(_members_of_images, plain)
            if members is None:
                return [await self._load_root(tag)]
            return await self._load_all(Archive(plain, members), tag)
        finally:
            if plain != self._path:
                plain.unlink()

    async def _load_root(self, tag: str | None) -> StoredImage:
        part = Part(self._path, 0, self._path.stat().st_size)
        digest = await self._add(part, None)
        here = host_platform()
        document = ImageDocument(
            architecture=here.architecture,
            os=here.os,
            config=Settings(env=(f"PATH={DEFAULT_PATH}",)),
            rootfs=Layers(diff_ids=(digest,)),
        )
        return self._store.put_image(document, *filter(None, (tag,)))

    async def _load_all(self, source: Source, tag: str | None) -> list[StoredImage]:
        wanted = await asyncio.to_thread(images_in, source, host_platform())
        if tag is not None and len(wanted) > 1:
            raise ImageError(f"it has {len(wanted)} images, so that --tag could mean any; leave it out")
        return [await self._load(image, tag) for image in wanted]

    async def _load(self, image: FoundImage, tag: str | None) -> StoredImage:
        document = read_document(image.raw_config, str(self._path))
        digests = document.rootfs.diff_ids
        if len(digests) != len(image.layers):
            raise ImageError(f"its configuration has {len(digests)} layers, the file {len(image.layers)}")
        for digest, part in zip(digests, image.layers, strict=True):
            async with self._store.working_on(digest):
                if self._store.layer(digest) is None:
                    await self._add(part, digest)
        names = [*image.names, *filter(None, (tag,))]
        return self._store.put_image(image.raw_config, *names)

    async def _add(self, part: Part, digest: str | None) -> str:
        def tell(done: int) -> None:
            state: LayerState = "unpacking" if done < part.size else "ready"
            self._on_progress(LayerProgress(str(self._path), digest or str(self._path), state, done, part.size))

        tell(0)
        with part.path.open("rb", buffering=0) as file:
            file.seek(part.offset)
            layer = await self._store.add_layer(file, digest, size=part.size, on_read=tell)
        tell(part.size)
        return layer.digest


def _plain_archive(path: Path, target: Path) -> Path:
    """The file itself if it is not compressed, else its content at `target`, only if it is an archive of images."""
    with path.open("rb") as file:
        stream = open_compressed(file)
        if stream is file:
            return path
        try:
            if not _is_of_images(stream):
                return path
            file.seek(0)
            _copy(open_compressed(file), target)
        except _UNREADABLE as error:
            target.unlink(missing_ok=True)
            raise ImageError(f"it cannot be read: {error}") from error
    return target


def _copy(stream: IO[bytes], target: Path) -> None:
    left = _MAX_ARCHIVE
    with target.open("wb") as plain:
        while chunk := stream.read(_CHUNK):
            plain.write(chunk)
            left -= len(chunk)
            if left < 0:
                raise ImageError(f"it unpacks to more than {_MAX_ARCHIVE} bytes, which no images have")


def _is_of_images(stream: IO[bytes]) -> bool:
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        names = [_top_name(member) for member in _until_foreign(tar)]
    return all(map(_OF_IMAGES.fullmatch, names)) and any(name in _TELLING for name in names)


def _members_of_images(path: Path) -> dict[str, tarfile.TarInfo] | None:
    """What is where in an archive of images; None for any other archive."""
    try:
        with path.open("rb") as file:
            if open_compressed(file) is not file:
                return None
            with tarfile.open(fileobj=file, mode="r:") as tar:
                members = {posixpath.normpath(member.name): member for member in _until_foreign(tar)}
    except _UNREADABLE as error:
        raise ImageError(f"it is not readable as a tar archive: {error}") from error
    names = {_top_name(member) for member in members.values()}
    return members if all(map(_OF_IMAGES.fullmatch, names)) and names & set(_TELLING) else None


def _until_foreign(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The members of an archive up to the first one that no archive of images has."""
    for member in tar:
        if member.size < 0:  # it would lead the tarfile module backwards, for ever
            raise ImageError(f"the size of {member.name!r} in it is negative")
        if not _top_name(member):
            continue
        yield member
        if not _OF_IMAGES.fullmatch(_top_name(member)):
            return


def _top_name(member: tarfile.TarInfo) -> str:
    return posixpath.normpath(member.name).lstrip("/").partition("/")[0].removeprefix(".")
