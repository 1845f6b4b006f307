"""The images of the embedded backend: pulled into the store, or built there, without any daemon."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from seatrial.errors import BuildError, ImageError, ImageFetchError
from seatrial.images.build import BuildMeans, BuildSpec, Built, build_image
from seatrial.images.building.bases import ResolveBase, host_key
from seatrial.images.building.events import BuildEvent, StepBegan, StepLog, ignore_events
from seatrial.images.building.run_step import RunCommand, run_step
from seatrial.images.building.step_cache import StepCache, make_key
from seatrial.images.building.words import WordError
from seatrial.images.choice import ImagePolicy, ImageRequest, Setup, plan_asked, plan_named
from seatrial.images.platforms import Platform, host_platform
from seatrial.images.progress import LayerProgress
from seatrial.images.pull import PullOptions, pull_image
from seatrial.images.resolver import Say
from seatrial.images.store import Store, open_store
from seatrial.images.stored import StoredImage
from seatrial.model.job import AgentLayer, LayerRecipe
from seatrial.sandbox.api import DEFAULT_PATH, HOST_IMAGE, Image, SandboxBackend
from seatrial.sandbox.way_out import STRAIGHT, WayOut
from seatrial.tasks.layout import TASK_BOUNDS, walk

SETUP_TIMEOUT_SEC = 1800.0


class StoreSource:
    """Images from the store; Dockerfiles are built on the backend that the images are for."""

    has_host = True

    def __init__(self, store: Store, backend: SandboxBackend, way_out: WayOut = STRAIGHT) -> None:
        self._store = store
        self._backend = backend
        self._way_out = way_out

    async def fetch(self, reference: str, say: Say) -> Image:
        """An image of the store, pulled first if it is not there."""
        return self._store.image(await self._pull(reference, None, say), reference)

    async def _pull(self, reference: str, platform: Platform | None, say: Say) -> StoredImage:
        told: set[str] = set()

        def tell(progress: LayerProgress) -> None:
            if progress.state == "fetching" and progress.image not in told:
                told.add(progress.image)
                say(f"pulling {reference}")

        options = PullOptions(platform=platform or host_platform(), ca_file=self._way_out.ca_file)
        return await pull_image(self._store, reference, options, tell)

    async def build(self, request: ImageRequest, policy: ImagePolicy, say: Say) -> Image:
        """An image from the Dockerfile of a task, its folder the context. Map and fallback count for its bases too.

        Raises OversizeError for a context that is too large, before it is read.
        """
        assert request.dockerfile is not None  # noqa: S101 - nothing else is asked to be built

        async def resolve(name: str, platform: Platform) -> StoredImage | Image:
            instead = policy.instead_of(name)
            try:
                plan = plan_named(instead) if instead else plan_asked(name)
            except ImageError as error:
                raise BuildError(f"{request.dockerfile}: {error}") from error
            if plan.kind == "host":
                return HOST_IMAGE
            if plan.kind == "directory":
                raise ImageError(f"{plan.name}: a directory cannot be built upon; `seatrial images load` a tar of it")
            try:
                return await self._pull(plan.name, platform, say)
            except ImageFetchError as error:
                if not policy.may_fall_back(plan.name):
                    raise
                say(str(error))
            say(f"{request.dockerfile} is built on this machine's own system instead, which is not reproducible")
            return HOST_IMAGE

        await asyncio.to_thread(walk, str(request.dockerfile.parent), TASK_BOUNDS, ())
        folder, network = request.dockerfile.parent, self._way_out.network
        spec = BuildSpec(folder, request.dockerfile, timeout_sec=request.build_timeout_sec, network=network)
        built = await self._build(spec, resolve, f"building {request.dockerfile}", say)
        return built.image

    async def extend(self, image: Image, setup: Setup, say: Say) -> Image:
        """An image with the layer of an agent on top, and one that a command has made there, as root.

        What the image says about itself stays the same.
        """
        if setup.layer is not None:
            image = await self._with_layer(image, setup.layer, say)
        return image if setup.command is None else await self._with_command(image, setup, setup.command, say)

    async def _with_layer(self, image: Image, wanted: LayerRecipe | AgentLayer, say: Say) -> Image:
        from seatrial.images.baking.agent_layers import agent_layer  # noqa: PLC0415 - most agents bring none
        from seatrial.images.baking.bake import BakeMeans  # noqa: PLC0415 - as above
        from seatrial.images.baking.host_settings import settings_here  # noqa: PLC0415 - as above

        @asynccontextmanager
        async def backend() -> AsyncIterator[SandboxBackend]:
            yield self._backend

        means = BakeMeans(self._store, backend, self._way_out, settings_here())
        layer = await agent_layer(means, wanted, say)
        below = [str(path) for path in image.layers]
        digest = f"sha256:{make_key('layer', image.digest or host_key(), below, layer.digest)}"
        return replace(image, layers=(*image.layers, layer.path), digest=digest, agent_layer=layer.digest)

    async def _with_command(self, image: Image, setup: Setup, command: str, say: Say) -> Image:
        key = make_key("setup", image.digest or host_key(), [str(layer) for layer in image.layers], *_what(setup))
        digest = f"sha256:{key}"
        async with self._store.working_on(f"setup-{key}"):
            layer = self._store.layer(digest)
            if layer is None:
                say(f"setting up: {command}")
                layer = await self._store.add_tree(await self._set_up(image, setup, command, key), digest)
        return replace(image, layers=(*image.layers, layer.path), digest=digest)

    async def _set_up(self, image: Image, setup: Setup, line: str, key: str) -> Path:
        env = {"PATH": DEFAULT_PATH, **image.config.env}
        network, ca = self._way_out.network, self._way_out.ca
        argv, files = ("/bin/sh", "-c", line), setup.pack()
        command = RunCommand(argv, env, "/", "0", network, SETUP_TIMEOUT_SEC, ca=ca, files=files)
        log = StepLog(StepCache(self._store).log_of(key), ignore_events)
        try:
            return await run_step(self._backend, self._store, image, command, log)
        except WordError as error:
            raise BuildError(f"the agent's setup failed on {image.reference}: {error}") from error
        finally:
            log.close()

    async def _build(self, spec: BuildSpec, resolve: ResolveBase, title: str, say: Say) -> Built:
        started = False

        def observe(event: BuildEvent) -> None:
            nonlocal started
            if isinstance(event, StepBegan) and not started:
                started = True
                say(title)

        @asynccontextmanager
        async def backend() -> AsyncIterator[SandboxBackend]:
            yield self._backend

        return await build_image(spec, BuildMeans(self._store, resolve, backend, observe, self._way_out.ca))


def _what(setup: Setup) -> list[object]:
    """What a set-up depends on; one without files is known as it always was."""
    return [setup.command, list(setup.files)] if setup.files else [setup.command]


@asynccontextmanager
async def open_store_source(backend: SandboxBackend, way_out: WayOut = STRAIGHT) -> AsyncIterator[StoreSource]:
    """The store as a source of images for the length of a block."""
    async with open_store() as store:
        yield StoreSource(store, backend, way_out)
