"""Baked trees as files: what comes out is what went in, and nothing else is taken for one."""

import asyncio
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping

import pytest
import zstandard

from seatrial.errors import ImageError, UsageError
from seatrial.images.baking.bake import find_baked
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


def rewritten(file, change, others: Mapping[str, bytes] | None = None):
    """The same archive with another configuration, and perhaps other content."""
    with tarfile.open(file) as tar:
        content = {name: (tar.extractfile(name) or io.BytesIO()).read() for name in tar.getnames()}
    config = json.loads(content["config.json"])
    change(config)
    content = {**content, **(others or {}), "config.json": json.dumps(config).encode()}
    with tarfile.open(file, "w") as tar:
        for name, raw in content.items():
            info = tarfile.TarInfo(name)
            info.size = len(raw)
            tar.addfile(info, io.BytesIO(raw))


def forged(tmp_path, *members: tarfile.TarInfo):
    """The file of a tree whose layer somebody packed by hand, with a digest that fits."""
    file, layer = saved(tmp_path), io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for each in members:
            tar.addfile(each, io.BytesIO(bytes(each.size)))
    rewritten(
        file,
        lambda config: config["rootfs"].update(diff_ids=[f"sha256:{hashlib.sha256(layer.getvalue()).hexdigest()}"]),
        {"layer.tar.zst": zstandard.compress(layer.getvalue())},
    )
    return file


def member(name: str, kind: bytes = tarfile.REGTYPE, **more: object) -> tarfile.TarInfo:
    made = tarfile.TarInfo(f"{tree_of(RECIPE)[1:]}/{name}".rstrip("/"))
    made.type = kind
    for key, value in {"mode": 0o755, **more}.items():
        setattr(made, key, value)
    return made


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


def test_nothing_of_it_may_get_elsewhere_through_a_link(tmp_path):
    through = [member("a", tarfile.SYMTYPE, linkname="/usr/bin", mode=0o777), member("a/python3", size=1)]
    with pytest.raises(UsageError, match="a/python3', which is not in the tree of pi"):
        loaded(tmp_path, forged(tmp_path, *through))


@pytest.mark.parametrize(
    "odd",
    [
        member("su", mode=0o4755),
        member("own", uid=1000),
        member("", tarfile.DIRTYPE, mode=0o777),
        member("null", tarfile.CHRTYPE),
        member("pipe", tarfile.FIFOTYPE),
        member("hard", tarfile.LNKTYPE, linkname="/etc/shadow"),
        member(".wh.bin"),
    ],
    ids=lambda odd: odd.name.rpartition("/")[2],
)
def test_only_what_is_baked_is_taken(tmp_path, odd):
    with pytest.raises(UsageError, match="nothing that a baked tree has"):
        loaded(tmp_path, forged(tmp_path, odd))


def test_an_empty_one_is_refused(tmp_path):
    with pytest.raises(UsageError, match="is empty"):
        loaded(tmp_path, forged(tmp_path))


def test_names_that_lead_upwards_are_refused_with_the_file(tmp_path):
    with pytest.raises(UsageError, match=r"pi\.tar: it has .*\.\./x', which is not in the tree"):
        loaded(tmp_path, forged(tmp_path, member("../x")))
