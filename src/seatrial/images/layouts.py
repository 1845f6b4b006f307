"""What is in a file of images: the lists of `docker save` and of OCI layouts, and where the parts they name are."""

import posixpath
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from seatrial.errors import ImageError
from seatrial.images.config import read_document
from seatrial.images.platforms import Platform
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
