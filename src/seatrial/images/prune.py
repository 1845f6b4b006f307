"""Making room: what has not been used for longest goes first, and nothing that anybody is using."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from seatrial.images.building.step_cache import StepCache
from seatrial.images.locks import remove_trees
from seatrial.images.store import LAYER_FOLDERS, About, Store, StoredImage, read_stored

_FORGOTTEN_SEC = 3600.0


@dataclass(frozen=True, slots=True)
class Pruned:
    """What went, and what is left: `in_use` bytes of the rest could not have gone."""

    images: tuple[StoredImage, ...]
    layers: int
    freed: int
    left: int
    in_use: int


@dataclass(frozen=True, slots=True)
class _Item:
    """Something to keep or remove as a whole: an image, or a layer that no image has."""

    used_at: float
    layers: frozenset[str]
    image: StoredImage | None = None


async def prune(store: Store, keep: int) -> Pruned:
    """Remove what was used longest ago until `keep` bytes are left, and what dead processes left behind."""
    await store.sweep()
    _drop_forgotten_downloads(store)
    trash = store.session.new_folder()
    with store.session.pruning() as claimed:
        folders, sizes = _layers(store)
        staying, going = _choose(list(_items(store, sizes)), sizes, claimed, keep)
        kept = {layer for item in staying for layer in item.layers} | {name for name in sizes if name in claimed}
        removed = set(sizes) - kept
        for item in going:
            if item.image:
                store.forget(item.image)
        for digest in removed:
            for folder in folders[digest]:
                folder.rename(trash / f"{folder.parent.name}-{folder.name}")
    await remove_trees(trash)
    StepCache(store).forget_lost()
    return Pruned(
        images=tuple(item.image for item in going if item.image),
        layers=len(removed),
        freed=sum(sizes[digest] for digest in removed),
        left=sum(sizes[digest] for digest in kept & set(sizes)),
        in_use=sum(size for digest, size in sizes.items() if digest in claimed),
    )


def _choose(
    items: list[_Item], sizes: dict[str, int], claimed: frozenset[str], keep: int
) -> tuple[list[_Item], list[_Item]]:
    """Which items stay and which go: what is in use stays, then as many of the latest as there is room for."""
    staying = [item for item in items if _in_use(item, claimed)]
    held = {layer for item in staying for layer in item.layers}
    total = sum(sizes.get(layer, 0) for layer in held)
    going: list[_Item] = []
    for item in sorted(items, key=lambda item: item.used_at, reverse=True):
        if _in_use(item, claimed):
            continue
        more = sum(sizes.get(layer, 0) for layer in item.layers - held)
        if total + more > keep or going:  # once one has gone, nothing older stays
            going.append(item)
            continue
        staying.append(item)
        held |= item.layers
        total += more
    return staying, going


def _in_use(item: _Item, claimed: frozenset[str]) -> bool:
    return item.image.digest in claimed if item.image else bool(item.layers & claimed)


def _items(store: Store, sizes: dict[str, int]) -> Iterator[_Item]:
    images = store.images()
    for image in images:
        yield _Item(image.used_at, frozenset(image.layers), image)
    for digest in set(sizes) - {layer for image in images for layer in image.layers}:
        yield _Item(_used_at(store, digest), frozenset({digest}))


def _used_at(store: Store, digest: str) -> float:
    return max(_time(store.root / name / digest.partition(":")[2]) for name in LAYER_FOLDERS.values())


def _time(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _layers(store: Store) -> tuple[dict[str, list[Path]], dict[str, int]]:
    """Every layer there is, wherever it is, with its size."""
    folders: dict[str, list[Path]] = {}
    sizes: dict[str, int] = {}
    for name in LAYER_FOLDERS.values():
        for path in (store.root / name).glob("*"):
            digest = f"{'sha512' if len(path.name) == 128 else 'sha256'}:{path.name}"
            folders.setdefault(digest, []).append(path)
            about = read_stored(About, path / "about.json")
            sizes[digest] = sizes.get(digest, 0) + max(about.size if about else 0, 1)  # room for none: all go
    return folders, sizes


def _drop_forgotten_downloads(store: Store) -> None:
    """Remove what was downloaded in part and not gone on with."""
    for path in store.blobs.glob("*.part"):
        if time.time() - _time(path) > _FORGOTTEN_SEC:
            os.unlink(path)  # noqa: PTH108 - nobody waits for it
