"""Baked trees as files: what comes out is what went in, and nothing else is taken for one."""

import asyncio
import io
import json
import tarfile

import pytest

from seatrial.errors import ImageError, UsageError
from seatrial.images.baking.agent_layers import find_baked
from seatrial.images.baking.carrying import load_tree, recipe_in, save_tree
from seatrial.images.baking.layout import tree_of
from seatrial.images.store import open_store
from seatrial.model.job import LayerRecipe
from tests.images.baking.support import NOTE, put_tree

RECIPE = LayerRecipe(name="pi", version="1.0", programs={"pi": "pi"})


def saved(tmp_path, recipe: LayerRecipe = RECIPE, **more):
    async def work():
        async with open_store(tmp_path / "first") as store:
            await save_tree(store, await put_tree(store, recipe, **more), tmp_path / "pi.tar")

    asyncio.run(work())
    return tmp_path / "pi.tar"


def loaded(tmp_path, file):
    async def work():
        async with open_store(tmp_path / "second") as store:
            image = await load_tree(store, file)
            again = find_baked(store, RECIPE)
            layer = store.layer(image.layers[0])
            assert layer is not None
            return image, again, (layer.path / f"{tree_of(RECIPE)[1:]}/bin/pi").read_bytes()

    return asyncio.run(work())


def rewritten(file, change):
    """The same archive with another configuration."""
    with tarfile.open(file) as tar:
        content = {name: (tar.extractfile(name) or io.BytesIO()).read() for name in tar.getnames()}
    config = json.loads(content["config.json"])
    change(config)
    content["config.json"] = json.dumps(config).encode()
    with tarfile.open(file, "w") as tar:
        for name, raw in content.items():
            member = tarfile.TarInfo(name)
            member.size = len(raw)
            tar.addfile(member, io.BytesIO(raw))


def test_a_tree_is_the_same_on_another_machine(tmp_path):
    image, found, content = loaded(tmp_path, saved(tmp_path))
    assert found is not None
    assert found.digest == image.digest
    assert recipe_in(image.document) == RECIPE
    assert content == NOTE
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".part")] == []


def test_one_for_another_machine_is_refused(tmp_path):
    file = saved(tmp_path)
    rewritten(file, lambda config: config.update(architecture="s390x"))
    with pytest.raises(UsageError, match=r"holds pi 1\.0 for linux/s390x, and this machine is linux/.*like this"):
        loaded(tmp_path, file)


def test_what_is_no_agent_is_refused(tmp_path):
    (tmp_path / "text").write_text("words")
    with pytest.raises(UsageError, match="text holds no agent"):
        loaded(tmp_path, tmp_path / "text")
    file = saved(tmp_path)
    rewritten(file, lambda config: config["config"].pop("Labels"))
    with pytest.raises(UsageError, match="holds no agent"):
        loaded(tmp_path, file)


def test_content_that_was_changed_on_the_way_is_noticed(tmp_path):
    file = saved(tmp_path)
    rewritten(file, lambda config: config["rootfs"].update(diff_ids=["sha256:" + "0" * 64]))
    with pytest.raises(ImageError, match="a layer is not what its image says"):
        loaded(tmp_path, file)


def test_nothing_of_it_may_lie_elsewhere(tmp_path):
    with pytest.raises(UsageError, match="'usr', which is not in the tree of pi"):
        loaded(tmp_path, saved(tmp_path, beside="usr/local/bin/git"))
