"""What the tests of baked trees share: a tree in a store that nobody had to bake."""

import io
import tempfile

from seatrial.images.baking.layout import RECIPE_LABEL, image_name, tree_of
from seatrial.images.baking.tidy import LayerEntry, rewound, write_layer
from seatrial.images.config import ImageDocument, Layers, Settings, host_platform
from seatrial.images.store import Store, StoredImage
from seatrial.model.job import LayerRecipe

NOTE = b"#!/bin/sh\necho pi at work\n"


def program(path: str, content: bytes) -> LayerEntry:
    return LayerEntry(path, "file", executable=True, size=len(content), open=lambda: io.BytesIO(content))


async def put_tree(store: Store, recipe: LayerRecipe, content: bytes = NOTE, beside: str | None = None) -> StoredImage:
    """The tree of a recipe, with one program in it, and perhaps something where no tree has any."""
    entries = [program(f"{tree_of(recipe)[1:]}/bin/pi", content)]
    entries += [program(beside, content)] if beside else []
    with tempfile.TemporaryFile() as archive:
        write_layer(entries, archive)
        layer = await store.add_layer(rewound(archive))
    here = host_platform()
    document = ImageDocument(
        architecture=here.architecture,
        os=here.os,
        config=Settings(labels={RECIPE_LABEL: recipe.model_dump_json()}),
        rootfs=Layers(diff_ids=(layer.digest,)),
    )
    return store.put_image(document, image_name(recipe))
