"""Images from files: what `docker save` wrote, OCI layouts as directories or archives, and plain root file systems."""

import asyncio
import posixpath
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

from seatrial.errors import ImageError
from seatrial.images.cache import LayerProgress, LayerState
from seatrial.images.config import ImageDocument, Layers, Platform, Settings, host_platform, read_document
from seatrial.images.layers import BROKEN, LayerBounds, open_compressed
from seatrial.images.reference import parse_reference
from seatrial.images.registry import (
    Descriptor,
    check_digest,
    check_layers,
    choose_entry,
    is_index,
    parse_table,
    read_descriptor,
    read_manifest,
)
from seatrial.images.store import Store, StoredImage
from seatrial.model.events import Observer, unobserved
from seatrial.sandbox.api import DEFAULT_PATH

# The contents of a file of images: the lists of `docker save` and of OCI layouts, and the parts that they name.

_MAX_DOCUMENT = 8 * 2**20
_NAMES = ("io.containerd.image.name", "org.opencontainers.image.ref.name")


class Part(NamedTuple):
    """Some bytes of a file."""

    path: Path
    offset: int
    size: int


class Source(Protocol):
    """Where the parts of images are, by name."""

    def find(self, name: str) -> Part | None:
        """A regular file by its name, None when there is none."""
        ...


class Folder:
    """An OCI layout as a directory."""

    def __init__(self, path: Path) -> None:
        self._path = path.resolve()

    def find(self, name: str) -> Part | None:
        """A file below the directory."""
        path = (self._path / name).resolve()
        if not path.is_relative_to(self._path) or not path.is_file():
            return None
        return Part(path, 0, path.stat().st_size)


class Archive:
    """An uncompressed archive of images."""

    def __init__(self, path: Path, members: dict[str, tarfile.TarInfo]) -> None:
        self._path = path
        self._members = members

    def find(self, name: str) -> Part | None:
        """A member, or the one that a link leads to."""
        name = posixpath.normpath(name)
        for _ in range(10):  # old archives have links for layers they have twice
            member = self._members.get(name)
            if member is None or member.isreg():
                break
            base = "" if member.islnk() else posixpath.dirname(name)
            name = posixpath.normpath(posixpath.join(base, member.linkname))
        return Part(self._path, member.offset_data, member.size) if member and member.isreg() else None


class FoundImage(NamedTuple):
    """One image of a file: its configuration as written, its layers, and what it is called."""

    raw_config: bytes
    layers: tuple[Part, ...]
    names: tuple[str, ...]


def images_in(source: Source, platform: Platform) -> list[FoundImage]:
    """The images there are for a platform, as Docker lists them, else as OCI layouts do. Raises ImageError if none."""
    found = _docker_images(source) or list(_oci_images(source, platform))
    if not found:
        raise ImageError("it has no image in a manifest.json (docker save) or an index.json (OCI layout)")
    return found


def _docker_images(source: Source) -> list[FoundImage]:
    """The images in the manner of `docker save`."""
    part = source.find("manifest.json")
    if part is None:
        return []
    entries = parse_table(b'{"images":' + _read(part) + b"}")["images"]
    return [_docker_image(source, entry) for entry in entries] if isinstance(entries, list) else []


def _docker_image(source: Source, entry: Any) -> FoundImage:
    match entry:
        case {"Config": str(config), "Layers": list(layers)}:
            tags = entry.get("RepoTags") or []
            parts = tuple(_need(source, str(layer)) for layer in layers)
            return FoundImage(_read(_need(source, config)), parts, tuple(map(str, tags)))
        case _:
            raise ImageError("its manifest.json is not that of a `docker save`")


def _oci_images(source: Source, platform: Platform) -> Iterator[FoundImage]:
    """The images of an OCI layout."""
    part = source.find("index.json")
    if part is None:
        return
    index = parse_table(_read(part))
    for entry in index.get("manifests") or []:
        notes = entry.get("annotations") if isinstance(entry, dict) else None
        table = _checked(source, read_descriptor(entry))
        if is_index(table):
            table = _checked(source, choose_entry(table, platform))
        manifest = read_manifest(table)
        raw = _read(_need(source, _blob_name(manifest.config)))
        check_digest(raw, manifest.config.digest)
        check_layers(read_document(raw, manifest.config.digest), manifest)
        layers = tuple(_need(source, _blob_name(layer)) for layer in manifest.layers)
        yield FoundImage(raw, layers, _oci_names(notes if isinstance(notes, dict) else {}))


def _oci_names(notes: dict[str, Any]) -> tuple[str, ...]:
    """What an entry is called; a bare tag is no name."""
    for key in _NAMES:
        name = notes.get(key)
        if isinstance(name, str) and any(sign in name for sign in "/:"):
            return (name,)
    return ()


def _checked(source: Source, descriptor: Descriptor) -> dict[str, Any]:
    raw = _read(_need(source, _blob_name(descriptor)))
    check_digest(raw, descriptor.digest)
    return parse_table(raw)


def _blob_name(descriptor: Descriptor) -> str:
    return f"blobs/{descriptor.digest.replace(':', '/')}"


def _need(source: Source, name: str) -> Part:
    part = source.find(name)
    if part is None:
        raise ImageError(f"{name} is missing in it")
    return part


def _read(part: Part) -> bytes:
    if part.size > _MAX_DOCUMENT:
        raise ImageError(f"a document in it has {part.size} bytes; expected {_MAX_DOCUMENT} at most")
    with part.path.open("rb") as file:
        file.seek(part.offset)
        return file.read(part.size)


# Loading into the store.

_CHUNK = 2**20
_MAX_ARCHIVE = 2 * LayerBounds().max_bytes
# The names at the top of an archive of images: whoever has others is a root file system.
_OF_IMAGES = re.compile(
    r"(?:manifest|index|repositories|version)(?:\.json)?|oci-layout|VERSION|blobs|[0-9a-f]{64}(?:\.json|\.tar)?"
)
_TELLING = ("manifest.json", "index.json")
_UNREADABLE = (tarfile.TarError, OSError, ValueError, ArithmeticError, *BROKEN)


async def load_images(
    store: Store, path: Path, tag: str | None = None, on_progress: Observer[LayerProgress] = unobserved
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

    def __init__(self, store: Store, path: Path, on_progress: Observer[LayerProgress]) -> None:
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
