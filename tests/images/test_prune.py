"""Making room: the oldest first, and nothing that is in use."""

import asyncio
import os

from seatrial.images.config import ImageDocument, Layers
from seatrial.images.prune import prune
from seatrial.images.store import Store, open_store
from tests.images.support import add, archive, entry, needs_root, run

pytestmark = needs_root


async def put(store: Store, name: str, *sizes: int) -> str:
    layers = [(await add(store, archive([entry(f"{size}", content=b"x" * size)]))).digest for size in sizes]
    image = store.put_image(ImageDocument(rootfs=Layers(diff_ids=tuple(layers))), name)
    return image.digest


async def fill(store: Store) -> None:
    for age, (name, sizes) in enumerate({"new": (1000, 10), "middle": (1000, 200), "old": (1000, 3000)}.items()):
        digest = await put(store, name, *sizes)
        os.utime(store.root / "images" / f"{digest[7:]}.json", (10**9 - age, 10**9 - age))


def names(store: Store) -> list[str]:
    return [image.names[0].reference.rpartition("/")[2].partition(":")[0] for image in store.images()]


def test_the_oldest_go_until_there_is_room_and_shared_layers_stay(tmp_path):
    run(fill, tmp_path)

    async def scene(store):
        return await prune(store, 1300), names(store)

    pruned, left = run(scene, tmp_path)
    assert left == ["new", "middle"]
    assert (len(pruned.images), pruned.layers, pruned.freed, pruned.left) == (1, 1, 3000, 1210)
    assert len(list((tmp_path / "layers").iterdir())) == 3


def test_with_room_for_all_nothing_goes_and_with_none_everything(tmp_path):
    run(fill, tmp_path)

    async def scene(store):
        return await prune(store, 10**6), await prune(store, 0), names(store)

    none, everything, left = run(scene, tmp_path)
    assert (none.images, none.layers, none.freed) == ((), 0, 0)
    assert (len(everything.images), everything.left, left) == (3, 0, [])
    assert not any(list((tmp_path / folder).iterdir()) for folder in ("layers", "images", "references", "sessions"))


def test_what_another_process_uses_stays(tmp_path):
    run(fill, tmp_path)

    async def play():
        async with open_store(tmp_path) as user, open_store(tmp_path) as pruner:
            found = user.find("old")
            assert found
            image = user.image(found)
            pruned = await prune(pruner, 0)
            assert names(pruner) == ["old"]
            assert (image.layers[1] / "3000").exists()
            return pruned.in_use

    assert asyncio.run(play()) == 4000


def test_a_layer_on_its_way_to_an_image_stays(tmp_path):
    async def play():
        async with open_store(tmp_path) as builder, open_store(tmp_path) as pruner:
            layer = await add(builder, archive([entry("file")]))
            await prune(pruner, 0)
            assert layer.path.exists()
            builder.put_image(ImageDocument(rootfs=Layers(diff_ids=(layer.digest,))), "app")
        async with open_store(tmp_path) as pruner:
            await prune(pruner, 0)
        assert not layer.path.exists()

    asyncio.run(play())


def test_downloads_that_nobody_goes_on_with_are_removed(tmp_path):
    async def scene(store):
        for name, age in (("old", 10**9), ("new", None)):
            path = store.blobs / f"{name}.part"
            path.write_text("half")
            if age:
                os.utime(path, (age, age))
        await prune(store, 10**6)
        return [path.name for path in store.blobs.iterdir()]

    assert run(scene, tmp_path) == ["new.part"]
