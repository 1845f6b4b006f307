"""What one store offers another, and what the other lacks of it; layers on their way are in test_repacking.py."""

import pytest

from seatrial.errors import ImageError
from seatrial.images.config import ImageDocument, Layers
from seatrial.images.copying import ImageOffer, LayerCopy, lacking, offer_image, take_image, take_layer
from seatrial.images.platforms import host_platform
from seatrial.images.store import Store
from tests.images.support import add, archive, entry, needs_root, run

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
