"""The images of a container engine: its daemon pulls and builds them, with its own credentials, mirrors and cache."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from seatrial.errors import BuildError, HostUnsupportedError, ImageFetchError, SandboxError
from seatrial.images.building.named import images_named_in
from seatrial.images.choice import ImagePolicy, ImageRequest, Setup, why_refused
from seatrial.images.resolver import Say
from seatrial.model.job import AgentLayer, LayerRecipe
from seatrial.sandbox.api import Image, ImageConfig
from seatrial.sandbox.engine.client import EngineClient
from seatrial.sandbox.engine.images import DaemonBuildSpec, build, inspect, pull
from seatrial.sandbox.scratch import Scratch
from seatrial.sandbox.way_out import STRAIGHT, WayOut
from seatrial.tasks.digest import digest_folder
from seatrial.tasks.layout import TASK_BOUNDS, walk

_BUILT, _SET_UP, _LAID = "seatrial-build", "seatrial-setup", "seatrial-agent"
_SHORT = 24
_FILES, _LAYER = "agent-files.tar", "agent-layer.tar"  # which ADD unpacks


class EngineSource:
    """Images of the daemon at the other end of a client."""

    has_host = False

    def __init__(self, client: EngineClient, way_out: WayOut = STRAIGHT) -> None:
        self._client = client
        self._way_out = way_out
        self._engine = client.endpoint.engine

    async def fetch(self, reference: str, say: Say) -> Image:
        """An image that the daemon has, pulled by it first if need be."""
        found = await inspect(self._client, reference)
        if found is None:
            say(f"{self._engine} pulls {reference}")
            try:
                await pull(self._client, reference)
            except SandboxError as error:
                raise ImageFetchError(
                    f"{reference} cannot be pulled: {error}. Bring it from elsewhere with `{self._engine} load`, use "
                    f"another one instead (--image-map '{reference}=IMAGE'), or run on this machine's own system "
                    "(-e embedded --image host)"
                ) from error
            found = await inspect(self._client, reference)
        return _image(reference, found or {})

    async def build(self, request: ImageRequest, policy: ImagePolicy, say: Say) -> Image:
        """An image that the daemon builds; the folder of the Dockerfile is the context.

        Raises OversizeError for a context that is too large, before it is read.
        """
        assert request.dockerfile is not None  # noqa: S101 - nothing else is asked to be built
        self._check_names(request.dockerfile, policy)
        context = request.dockerfile.parent
        await asyncio.to_thread(walk, str(context), TASK_BOUNDS, ())
        name = f"{_BUILT}:{digest_folder(context)[:_SHORT]}"
        return await self._built(
            DaemonBuildSpec(context, name, request.dockerfile.name), f"builds {request.dockerfile}", say
        )

    async def extend(self, image: Image, setup: Setup, say: Say) -> Image:
        """An image with an agent's layer, and with what a command leaves behind on top of it, run as root.

        What the image says about itself stays the same.
        """
        if image.layers:
            raise HostUnsupportedError(f"no agent can be set up in {image.reference}: {self._engine} does not have it")
        if setup.layer is not None:
            image = await self._with_layer(image, setup.layer, say)
        return image if setup.command is None else await self._with_command(image, setup, setup.command, say)

    async def _with_layer(self, image: Image, wanted: LayerRecipe | AgentLayer, say: Say) -> Image:
        from seatrial.images.baking.agent_layers import agent_layer, open_bakery  # noqa: PLC0415 - most bring none
        from seatrial.images.baking.carrying import write_tree  # noqa: PLC0415 - as above

        async with open_bakery(self._way_out) as means:
            layer = await agent_layer(means, wanted, say)
            name = f"{_LAID}:{_key(image.digest, image.reference, layer.digest)}"
            if await inspect(self._client, name) is None:
                with Scratch() as folder:
                    with (folder / _LAYER).open("wb") as archive:
                        await asyncio.to_thread(write_tree, layer, archive)
                    (folder / "Dockerfile").write_text(f"FROM {image.reference}\nADD {_LAYER} /\n")
                    await self._built(DaemonBuildSpec(folder, name), f"lays the agent over {image.reference}", say)
        laid = _image(name, await inspect(self._client, name) or {})
        return replace(laid, config=image.config, agent_layer=layer.digest)

    async def _with_command(self, image: Image, setup: Setup, command: str, say: Say) -> Image:
        key = _key(image.digest, image.reference, command, *setup.files)
        with Scratch() as folder:
            steps = [f"FROM {image.reference}", "USER 0", f"RUN {json.dumps(['/bin/sh', '-c', command])}"]
            if files := setup.pack():
                (folder / _FILES).write_bytes(files)
                steps.insert(2, f"ADD {_FILES} /")
            (folder / "Dockerfile").write_text("\n".join(steps))
            built = await self._built(DaemonBuildSpec(folder, f"{_SET_UP}:{key}"), f"sets up: {command}", say)
        return replace(built, config=image.config, agent_layer=image.agent_layer)

    async def _built(self, spec: DaemonBuildSpec, title: str, say: Say) -> Image:
        found = await inspect(self._client, spec.name)
        if found is None:
            say(f"{self._engine} {title}")
            try:
                await build(self._client, spec)
            except SandboxError as error:
                raise BuildError(f"{spec.context / spec.dockerfile}: {error}") from error
            found = await inspect(self._client, spec.name)
        return _image(spec.name, found or {})

    def _check_names(self, dockerfile: Path, policy: ImagePolicy) -> None:
        """A daemon builds a Dockerfile as it stands; to leave out what the run says about its bases would be a lie."""
        for place, name in images_named_in(dockerfile):
            if policy.instead_of(name):
                raise HostUnsupportedError(
                    f"{dockerfile}: {self._engine} builds it on {name}, whatever --image-map says; map it with the "
                    "embedded backend (-e embedded), or leave it out of the map"
                )
            if reason := why_refused(name):
                raise BuildError(f"{place}: {reason}")


def _key(*about: str | None) -> str:
    return hashlib.sha256(json.dumps(about).encode()).hexdigest()[:_SHORT]


def _image(reference: str, found: dict[str, Any]) -> Image:
    """What the daemon says of an image. Its environment is in every container of it already."""
    config = found.get("Config") or {}
    said = ImageConfig(
        workdir=config.get("WorkingDir") or None,
        user=config.get("User") or None,
        entrypoint=tuple(config.get("Entrypoint") or ()),
    )
    return Image(reference, digest=found.get("Id"), config=said)


@asynccontextmanager
async def open_engine_source(client: EngineClient, way_out: WayOut = STRAIGHT) -> AsyncIterator[EngineSource]:
    """An engine as a source of images for the length of a block; the client is the backend's, and stays open.

    `way_out` is for baking agents, which the daemon has no part in.
    """
    yield EngineSource(client, way_out)
