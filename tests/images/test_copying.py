"""What one store offers another, and what the other lacks of it; a layer that comes along is the same layer there."""

import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from seatrial.errors import ImageError
from seatrial.images.choice import ImagePolicy, ImageRequest
from seatrial.images.config import ImageDocument, Layers, host_platform
from seatrial.images.copying import (
    ImageOffer,
    LayerCopy,
    OwnersHere,
    lacking,
    offer_image,
    pack_layer,
    references_for,
    take_image,
    take_layer,
)
from seatrial.images.store import Store, StoredLayer, open_store
from seatrial.sandbox.layers import is_whiteout
from tests.images.support import add, archive, entry, folder, link, needs_root, run

pytestmark = needs_root


async def put(store: Store, *texts: str, name: str = "app", architecture: str | None = None) -> tuple[str, ...]:
    """An image with a layer for each text; returns their digests."""
    layers = [await add(store, archive([entry("file", content=text.encode())])) for text in texts]
    digests = tuple(layer.digest for layer in layers)
    here = host_platform()
    document = ImageDocument(
        architecture=architecture or here.architecture, os=here.os, rootfs=Layers(diff_ids=digests)
    )
    store.put_image(document, name)
    return digests


def offered(root, *texts: str) -> ImageOffer:
    async def scene(store: Store) -> ImageOffer | None:
        await put(store, *texts)
        return offer_image(store, "app")

    offer = run(scene, root)
    assert offer is not None
    return offer


def test_a_store_lacks_the_layers_that_it_has_not_and_the_configuration(tmp_path):
    offer = offered(tmp_path / "one", "base", "top", "base")
    assert offer.reference == "docker.io/library/app:latest"
    base, top, _ = offer.layers

    async def scene(store: Store) -> list[list[str]]:
        before = lacking(store, offer)
        await put(store, "base", name="other")
        after = lacking(store, offer)
        await put(store, "base", "top", "base")
        return [before, after, lacking(store, offer)]

    assert run(scene, tmp_path / "two") == [[base, top, offer.digest], [top, offer.digest], []]


@pytest.mark.parametrize("change", [{"platform": "linux/s390x"}, {"owners": "squashed"}])
def test_a_store_lacks_nothing_of_what_it_cannot_use(tmp_path, change):
    offer = ImageOffer(
        reference="docker.io/library/app:latest",
        digest="sha256:" + "1" * 64,
        layers=("sha256:" + "2" * 64,),
        platform=str(host_platform().usual),
        owners="kept",
    )

    async def scene(store: Store) -> list[list[str]]:
        return [lacking(store, each) for each in (offer, offer.model_copy(update=change))]

    assert run(scene, tmp_path) == [[*offer.layers, offer.digest], []]


def test_only_what_is_here_for_this_machine_is_offered(tmp_path):
    async def scene(store: Store) -> list[ImageOffer | None]:
        await put(store, "text", name="foreign", architecture="s390x")
        return [offer_image(store, name) for name in ("none", "foreign")]

    assert run(scene, tmp_path) == [None, None]


def test_another_layer_than_was_packed_is_refused(tmp_path):
    digest = offered(tmp_path / "one", "text").layers[0]

    async def scene(store: Store) -> list[object]:
        path = tmp_path / "layer.tar"
        path.write_bytes(archive([entry("file", content=b"another text")]))
        with pytest.raises(ImageError, match=r"expected sha256:0+, found sha256:"):
            await take_layer(store, LayerCopy(digest=digest, packed="sha256:" + "0" * 64), path)
        return [store.layer(digest), *store.session.path.glob("*/root")]

    assert run(scene, tmp_path / "two") == [None]


def test_another_configuration_than_was_offered_is_refused(tmp_path):
    offer = offered(tmp_path, "text")

    async def scene(store: Store) -> None:
        config = store.config_of(offer.digest)
        take_image(store, offer, config)
        take_image(store, offer, config + b" ")

    with pytest.raises(ImageError, match=r"the configuration of .*app:latest is not what its image says"):
        run(scene, tmp_path)


CAPABILITY = b"\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"


def facts(top: Path) -> dict[str, Any]:
    """All that matters of what is below a directory; files with several names share a number."""
    found: dict[str, Any] = {}
    numbers: dict[int, int] = {}
    for path in [top, *sorted(top.rglob("*"))]:
        status = path.lstat()
        attributes = {name: os.getxattr(path, name, follow_symlinks=False) for name in _attributes(path)}
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else None
        target = str(path.readlink()) if path.is_symlink() else None
        number = numbers.setdefault(status.st_ino, len(numbers))
        moment = 0 if is_whiteout(status) else status.st_mtime_ns
        kept = (status.st_mode, status.st_uid, status.st_gid, moment, status.st_rdev)
        found[str(path.relative_to(top))] = (*kept, number, attributes, content, target)
    return found


def _attributes(path: Path) -> list[str]:
    return sorted(os.listxattr(path, follow_symlinks=False))


async def copied(store: Store, layer: StoredLayer, root: Path) -> StoredLayer:
    """The layer in another store."""
    path = root / "layer.tar.zst"
    root.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240 - one directory
    with path.open("wb") as file:
        copy = await pack_layer(store, layer.digest, file)
    async with open_store(root / "store") as other:
        await take_layer(other, copy, path)
        found = other.layer(layer.digest)
    assert found is not None
    return found


def test_everything_is_the_same_in_another_store(tmp_path):
    members = [
        folder(".", mode=0o751, mtime=5),
        *(folder(name) for name in ("home", "var", "d", "d/" + "x" * 150)),
        folder("home/al", mode=0o2750, uid=1000, gid=1001, mtime=1_000_000_000),
        entry("home/al/run", content=b"x" * 3_000_000, mode=0o4711, uid=1000, gid=1001, mtime=1.5),
        link("home/al/again", "home/al/run", tarfile.LNKTYPE),
        link("home/al/soft", "../../etc/passwd"),
        entry("home/al/closed", content=b"secret", mode=0),
        entry("caf\udce9", content=b"no utf-8"),
        entry("d/" + "x" * 150 + "/" + "y" * 150, content=b"long"),
        entry("ping", mode=0o755, pax_headers={"SCHILY.xattr.security.capability": CAPABILITY.decode("latin-1")}),
        entry("noted", pax_headers={"SCHILY.xattr.user.note": "\udcff\udcfe"}),
        entry("pipe", tarfile.FIFOTYPE),
        entry(".wh.gone"),
        entry("home/.wh.bob"),
        folder("var/cache"),
        entry("var/cache/.wh..wh..opq"),
        entry("var/cache/new", content=b"new"),
    ]

    async def scene(store):
        layer = await add(store, archive(members, encoding="utf-8", errors="surrogateescape"))
        there = await copied(store, layer, tmp_path / "there")
        return layer, there

    layer, there = run(scene, tmp_path / "here")
    assert facts(there.path) == facts(layer.path)
    assert there.digest == layer.digest
    assert there.path.is_relative_to(tmp_path / "there")
    assert not there.about.hides_below


def test_a_layer_that_hides_all_below_still_does(tmp_path):
    async def scene(store):
        layer = await add(store, archive([entry(".wh..wh..opq"), entry("only", content=b"this")]))
        return await copied(store, layer, tmp_path / "there")

    there = run(scene, tmp_path / "here")
    assert there.about.hides_below
    assert [path.name for path in there.path.iterdir()] == ["only"]


def test_a_layer_that_commands_have_made_keeps_the_digest_it_is_known_by(tmp_path):
    known_as = "sha256:" + "5" * 64

    async def scene(store):
        tree = store.new_tree()
        tree.mkdir()
        (tree / "installed").write_text("program")
        return await copied(store, await store.add_tree(tree, known_as), tmp_path / "there")

    there = run(scene, tmp_path / "here")
    assert (there.digest, (there.path / "installed").read_text()) == (known_as, "program")


def test_a_name_that_would_remove_another_file_is_refused(tmp_path):
    async def scene(store):
        tree = store.new_tree()
        tree.mkdir()
        (tree / ".wh.passwd").write_text("a file of that name")
        return await copied(store, await store.add_tree(tree, "sha256:" + "5" * 64), tmp_path / "there")

    with pytest.raises(ImageError, match=r"'/\.wh\.passwd' cannot be packed"):
        run(scene, tmp_path / "here")


DOCKERFILE = """\
ARG VERSION=3.11
FROM python:${VERSION} AS tools
RUN pip install tool
FROM debian:12
COPY --from=tools /usr/local /usr/local
COPY --from=ghcr.io/team/data:1 /data /data
"""


@pytest.fixture
def built(tmp_path: Path) -> ImageRequest:
    (tmp_path / "Dockerfile").write_text(DOCKERFILE)
    return ImageRequest(dockerfile=tmp_path / "Dockerfile")


def test_an_image_that_a_task_names():
    assert references_for(ImageRequest("python:3.11"), ImagePolicy()) == ["python:3.11"]
    assert references_for(ImageRequest(), ImagePolicy()) == []


def test_all_that_a_dockerfile_names_but_its_own_stages(built):
    assert references_for(built, ImagePolicy()) == ["python:3.11", "debian:12", "ghcr.io/team/data:1"]


def test_what_the_run_has_instead(built):
    mapped = ImagePolicy(mapped={"python:*": "mirror/python:3", "debian:*": "host", "ghcr.io/*": "/some/root"})
    assert references_for(built, mapped) == ["mirror/python:3"]
    assert references_for(ImageRequest("python:3.11"), mapped) == ["mirror/python:3"]
    assert references_for(built, ImagePolicy(image="app:1")) == ["app:1"]
    assert references_for(built, ImagePolicy(image="/some/root")) == []
    assert references_for(built, ImagePolicy(image="host")) == []


def test_what_cannot_be_resolved_is_not_ours_to_refuse(tmp_path):
    assert references_for(ImageRequest("/etc"), ImagePolicy()) == []
    assert references_for(ImageRequest(dockerfile=tmp_path / "none"), ImagePolicy()) == []


def status(uid: int, gid: int) -> os.stat_result:
    return os.stat_result((0, 0, 0, 0, uid, gid, 0, 0, 0, 0))


def test_for_root_owners_are_who_they_are():
    everybody = OwnersHere((0, 0), ((1, 2**32 - 2), (1, 2**32 - 2)))
    assert [everybody.inside(status(uid, uid + 1)) for uid in (0, 1, 1000)] == [(0, 1), (1, 2), (1000, 1001)]


def test_for_a_user_own_files_are_roots():
    user = OwnersHere((1007, 1008), ((100_000, 65536), (200_000, 65536)))
    assert user.inside(status(1007, 1008)) == (0, 0)
    assert user.inside(status(100_000, 200_000)) == (1, 1)
    assert user.inside(status(100_999, 200_049)) == (1000, 50)
    assert user.inside(status(99_999, 5)) == (0, 0)
