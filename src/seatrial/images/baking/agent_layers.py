"""The layers that bring agents, each in the store once: baked from a recipe, or a tree of the user's own."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from seatrial.errors import BakeError
from seatrial.images.baking.bake import BakeMeans, bake
from seatrial.images.baking.host_settings import settings_here
from seatrial.images.baking.layout import image_name, title_of
from seatrial.images.baking.own_layer import pack_layer
from seatrial.images.baking.tidy import rewound
from seatrial.images.platforms import host_platform
from seatrial.images.pull import OFFLINE
from seatrial.images.resolver import Say
from seatrial.images.store import Store, open_store
from seatrial.images.stored import StoredImage, StoredLayer
from seatrial.model.job import AgentLayer, LayerRecipe
from seatrial.sandbox.api import SandboxBackend
from seatrial.sandbox.way_out import WayOut


def find_baked(store: Store, recipe: LayerRecipe) -> StoredImage | None:
    """The image with the tree of a recipe, None when it has not been baked here. Raises UsageError."""
    return store.find(image_name(recipe), host_platform())


async def baked_layer(means: BakeMeans, recipe: LayerRecipe, say: Say) -> StoredLayer:
    """The tree of a recipe, baked first if it is not there. Raises BakeError, UsageError and SandboxError."""
    async with means.store.working_on(f"bake-{image_name(recipe)}"):
        image = find_baked(means.store, recipe)
        layer = _layer_of(means.store, image) if image else None
        if layer is None:
            _check_reach(recipe)
            say(f"baking {title_of(recipe)}, once for this machine")
            layer = _layer_of(means.store, await bake(means, recipe))
        assert layer is not None  # noqa: S101 - it was put there, and is claimed until the store is closed
        return layer


def _check_reach(recipe: LayerRecipe) -> None:
    if os.environ.get(OFFLINE) and (recipe.npm or recipe.pip):
        raise BakeError(
            f"{title_of(recipe)} has not been baked here, and no registry is asked, because {OFFLINE} is set; "
            "`seatrial agents load` a file that was baked elsewhere"
        )


def _layer_of(store: Store, image: StoredImage) -> StoredLayer | None:
    store.image(image)  # which is in use now
    return store.layer(image.layers[0])


async def own_layer(store: Store, layer: AgentLayer) -> StoredLayer:
    """A tree of the user's own. Raises AgentSetupError for one that is not what it was when the job began."""
    digest = f"sha256:{layer.digest}"
    async with store.working_on(digest):
        if found := store.layer(digest):
            return found
        with tempfile.TemporaryFile(dir=store.root) as archive:
            await asyncio.to_thread(pack_layer, layer, archive)
            return await store.add_layer(rewound(archive), digest)


async def agent_layer(means: BakeMeans, wanted: LayerRecipe | AgentLayer, say: Say) -> StoredLayer:
    """The layer that brings an agent."""
    if isinstance(wanted, AgentLayer):
        return await own_layer(means.store, wanted)
    return await baked_layer(means, wanted, say)


@asynccontextmanager
async def embedded_backend() -> AsyncIterator[SandboxBackend]:
    """A backend to bake on, whatever the trials run on."""
    from seatrial.sandbox.embedded.backend import EmbeddedBackend  # noqa: PLC0415 - only if something is to be baked

    async with EmbeddedBackend() as backend:
        yield backend


@asynccontextmanager
async def open_bakery(way_out: WayOut, *, host_settings: bool | None = None) -> AsyncIterator[BakeMeans]:
    """What to bake with on this machine, for the length of a block."""
    async with open_store() as store:
        yield BakeMeans(store, embedded_backend, way_out, settings_here(allowed=host_settings))
