"""Baked trees as files, for machines without a registry: an image archive with one layer, checked on its way in."""

import asyncio
import io
import json
import tarfile
import tempfile
from pathlib import Path
from typing import IO

import zstandard

from seatrial.errors import ImageError, UsageError
from seatrial.images.baking.layout import RECIPE_LABEL, image_name, title_of, tree_of
from seatrial.images.baking.tidy import entries_of_folder, rewound, write_layer
from seatrial.images.config import ImageDocument, host_platform, read_document
from seatrial.images.layers import BROKEN, LayerBounds
from seatrial.images.store import Store, StoredImage, StoredLayer
from seatrial.model.job import LayerRecipe
from seatrial.sandbox.archives import add_file, safe_parts
from seatrial.sandbox.layers import WHITEOUT

_MANIFEST, _CONFIG, _LAYER = "manifest.json", "config.json", "layer.tar.zst"
_MAX_DOCUMENT = 2**20
_LEVEL = 3
_CHUNK = 2**20
_PLAIN = (*tarfile.REGULAR_TYPES, tarfile.DIRTYPE, tarfile.SYMTYPE)
_UNREADABLE = (tarfile.TarError, KeyError, ValueError, ArithmeticError, *BROKEN)


def write_tree(layer: StoredLayer, archive: IO[bytes]) -> None:
    """The layer of a tree as an archive, the same bytes as when it was baked."""
    write_layer(entries_of_folder(layer.path), archive)


async def save_tree(store: Store, image: StoredImage, target: Path) -> None:
    """Write a baked tree to a file, which is there as a whole or not at all. Raises ImageError and OSError."""
    layer = store.layer(image.layers[0])
    if layer is None:
        raise ImageError(f"image {image.digest} has been removed from the store meanwhile; bake it again")
    draft = target.with_name(f".{target.name}.part")
    try:
        await asyncio.to_thread(_save, layer, store.config_of(image.digest), image, draft)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def _save(layer: StoredLayer, config: bytes, image: StoredImage, target: Path) -> None:
    names = [named.reference for named in image.names]
    manifest = [{"Config": _CONFIG, "RepoTags": names, "Layers": [_LAYER]}]
    with tempfile.TemporaryFile(dir=target.parent) as packed:
        with zstandard.ZstdCompressor(level=_LEVEL, threads=-1).stream_writer(packed, closefd=False) as writer:
            write_tree(layer, writer)
        with target.open("wb") as file, tarfile.open(fileobj=file, mode="w") as tar:
            add_file(tar, _MANIFEST, json.dumps(manifest).encode())
            add_file(tar, _CONFIG, config)
            member = tarfile.TarInfo(_LAYER)
            member.size = packed.seek(0, io.SEEK_END)
            packed.seek(0)
            tar.addfile(member, packed)


async def load_tree(store: Store, path: Path) -> StoredImage:
    """Take a baked tree from a file. Raises UsageError for one that is none, or not for this machine; ImageError."""
    with tempfile.TemporaryFile(dir=store.root) as layer:
        config, document, recipe = await asyncio.to_thread(_read, path, layer)
        (digest,) = document.rootfs.diff_ids
        async with store.working_on(digest):
            if store.layer(digest) is None:
                await store.add_layer(rewound(layer), digest)
    return store.put_image(config, image_name(recipe))


def _read(path: Path, layer: IO[bytes]) -> tuple[bytes, ImageDocument, LayerRecipe]:
    """The configuration in a file and its recipe; the layer is written aside."""
    try:
        with path.open("rb") as file, tarfile.open(fileobj=file, mode="r:") as tar:
            config = _document(tar, _CONFIG)
            document = read_document(config, str(path))
            recipe = recipe_in(document)
            _check(path, document, recipe)
            _unpack(tar, layer)
        layer.seek(0)
        _check_names(path, layer, recipe)
    except _UNREADABLE as error:
        raise UsageError(
            f"{path} holds no agent ({error}); expected what `seatrial agents bake -o` or `save` wrote"
        ) from error
    return config, document, recipe


def recipe_in(document: ImageDocument) -> LayerRecipe:
    """The recipe by which an image was baked. Raises KeyError or ValueError for one that was not."""
    return LayerRecipe.model_validate_json(document.config.labels[RECIPE_LABEL])


def _document(tar: tarfile.TarFile, name: str) -> bytes:
    content = tar.extractfile(tar.getmember(name))
    if content is None:
        raise ValueError(f"{name} is no file")
    return content.read(_MAX_DOCUMENT)


def _unpack(tar: tarfile.TarFile, layer: IO[bytes]) -> None:
    packed = tar.extractfile(tar.getmember(_LAYER))
    if packed is None:
        raise ValueError(f"{_LAYER} is no file")
    left = LayerBounds().max_bytes
    with zstandard.ZstdDecompressor().stream_reader(packed) as stream:
        while chunk := stream.read(_CHUNK):
            left -= len(chunk)
            if left < 0:
                raise ValueError(f"it unpacks to more than {LayerBounds().max_bytes} bytes")
            layer.write(chunk)
    layer.flush()


def _check(path: Path, document: ImageDocument, recipe: LayerRecipe) -> None:
    here = host_platform()
    if document.platform.usual != here.usual:
        raise UsageError(
            f"{path} holds {title_of(recipe)} for {document.platform}, and this machine is {here}; bake it on one like "
            "this"
        )
    if len(document.rootfs.diff_ids) != 1:
        raise ValueError(f"it has {len(document.rootfs.diff_ids)} layers, expected 1")


def _check_names(path: Path, layer: IO[bytes], recipe: LayerRecipe) -> None:
    """Nothing in it may lie anywhere but in its tree, nor be other than what `write_layer` writes."""
    wanted = safe_parts(tree_of(recipe), absolute="below")
    ends: set[tuple[str, ...]] = set()  # what nothing can be below: through a link, it would lie elsewhere
    with tarfile.open(fileobj=layer, mode="r:") as tar:
        for member in tar:
            found = safe_parts(member.name, absolute="below") if ".." not in member.name.split("/") else ()
            outside = found[: len(wanted)] != wanted[: len(found)] or (len(found) <= len(wanted) and not member.isdir())
            if not found or outside or any(found[:end] in ends for end in range(len(found))):
                raise UsageError(f"{path}: it has {member.name!r}, which is not in the tree of {title_of(recipe)}")
            if not _is_plain(member):
                raise UsageError(f"{path}: {member.name!r} in it is nothing that a baked tree has; bake it anew")
            if not member.isdir():
                ends.add(found)
    if not ends:
        raise UsageError(f"{path}: the tree of {title_of(recipe)} in it is empty; bake it anew")


def _is_plain(member: tarfile.TarInfo) -> bool:
    """Whether something is as trees have it: owned by root, for all to read, with no rights of its own."""
    usual = member.mode in (0o755, 0o644) or (member.issym() and member.mode == 0o777)
    hides = any(part.startswith(WHITEOUT) for part in member.name.split("/"))
    return usual and not hides and not member.uid and not member.gid and member.type in _PLAIN
