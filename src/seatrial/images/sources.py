"""Where the images of a backend come from: the store, for the embedded one, or the daemon of a container engine.

Both pull, build, and add an agent on top, as `ImageSource` in `resolver.py` says.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from seatrial.errors import BuildError, HostUnsupportedError, ImageError, ImageFetchError, SandboxError
from seatrial.images.build import BuildMeans, BuildSpec, Built, build_image
from seatrial.images.building.plan import images_named_in
from seatrial.images.building.stage import ResolveBase, host_key
from seatrial.images.building.step_cache import BuildEvent, StepBegan, StepCache, StepLog, make_key
from seatrial.images.building.steps import RunCommand, run_step
from seatrial.images.cache import LayerProgress
from seatrial.images.choice import ImagePolicy, ImageRequest, Setup, plan_base, why_refused
from seatrial.images.config import Platform, host_platform
from seatrial.images.pull import PullOptions, pull_image
from seatrial.images.store import Store, StoredImage, open_store
from seatrial.model.events import Notice, Observer, unobserved
from seatrial.model.job import AgentLayer, LayerRecipe
from seatrial.sandbox.api import DEFAULT_PATH, HOST_IMAGE, Image, ImageConfig, SandboxBackend
from seatrial.sandbox.engine.client import EngineClient
from seatrial.sandbox.engine.images import DaemonBuildSpec, build, inspect, pull
from seatrial.sandbox.runs import Scratch
from seatrial.sandbox.trust import STRAIGHT, WayOut
from seatrial.tasks.dockerfile import WordError
from seatrial.tasks.layout import TASK_BOUNDS, digest_folder, walk

SETUP_TIMEOUT_SEC = 1800.0


class StoreSource:
    """Images from the store; Dockerfiles are built on the backend that the images are for."""

    has_host = True

    def __init__(self, store: Store, backend: SandboxBackend, way_out: WayOut = STRAIGHT) -> None:
        self._store = store
        self._backend = backend
        self._way_out = way_out

    async def fetch(self, reference: str, observe: Observer[Notice]) -> Image:
        return self._store.image(await self._pull(reference, None, observe), reference)

    async def _pull(self, reference: str, platform: Platform | None, observe: Observer[Notice]) -> StoredImage:
        told: set[str] = set()

        def tell(progress: LayerProgress) -> None:
            if progress.state == "fetching" and progress.image not in told:
                told.add(progress.image)
                observe(Notice(f"pulling {reference}"))

        options = PullOptions(platform=platform or host_platform(), ca_file=self._way_out.ca_file)
        return await pull_image(self._store, reference, options, tell)

    async def build(self, request: ImageRequest, policy: ImagePolicy, observe: Observer[Notice]) -> Image:
        """An image from the Dockerfile of a task, its folder the context. Map and fallback count for its bases too.

        Raises OversizeError for a context that is too large, before it is read.
        """
        assert request.dockerfile is not None  # noqa: S101 - nothing else is asked to be built

        async def resolve(name: str, platform: Platform) -> StoredImage | Image:
            try:
                plan = plan_base(name, policy)
            except ImageError as error:
                raise BuildError(f"{request.dockerfile}: {error}") from error
            if plan.kind == "host":
                return HOST_IMAGE
            if plan.kind == "directory":
                raise ImageError(f"{plan.name}: a directory cannot be built upon; `seatrial images load` a tar of it")
            try:
                return await self._pull(plan.name, platform, observe)
            except ImageFetchError as error:
                if not policy.may_fall_back(plan.name):
                    raise
                observe(Notice(str(error)))
            observe(
                Notice(f"{request.dockerfile} is built on this machine's own system instead, which is not reproducible")
            )
            return HOST_IMAGE

        await asyncio.to_thread(walk, str(request.dockerfile.parent), TASK_BOUNDS, ())
        folder, network = request.dockerfile.parent, self._way_out.network
        spec = BuildSpec(folder, request.dockerfile, timeout_sec=request.build_timeout_sec, network=network)
        built = await self._build(spec, resolve, f"building {request.dockerfile}", observe)
        return built.image

    async def extend(self, image: Image, setup: Setup, observe: Observer[Notice]) -> Image:
        """An image with the layer of an agent on top, and one that a command has made there, as root.

        What the image says about itself stays the same.
        """
        if setup.layer is not None:
            image = await self._with_layer(image, setup.layer, observe)
        return image if setup.command is None else await self._with_command(image, setup, setup.command, observe)

    async def _with_layer(self, image: Image, wanted: LayerRecipe | AgentLayer, observe: Observer[Notice]) -> Image:
        from seatrial.images.baking.bake import BakeMeans, agent_layer  # noqa: PLC0415 - most agents bring none
        from seatrial.images.baking.layout import settings_here  # noqa: PLC0415 - as above

        means = BakeMeans(self._store, lambda: nullcontext(self._backend), self._way_out, settings_here())
        layer = await agent_layer(means, wanted, observe)
        below = [str(path) for path in image.layers]
        digest = f"sha256:{make_key('layer', image.digest or host_key(), below, layer.digest)}"
        return replace(image, layers=(*image.layers, layer.path), digest=digest, agent_layer=layer.digest)

    async def _with_command(self, image: Image, setup: Setup, command: str, observe: Observer[Notice]) -> Image:
        key = make_key("setup", image.digest or host_key(), [str(layer) for layer in image.layers], *_what(setup))
        digest = f"sha256:{key}"
        async with self._store.working_on(f"setup-{key}"):
            layer = self._store.layer(digest)
            if layer is None:
                observe(Notice(f"setting up: {command}"))
                layer = await self._store.add_tree(await self._set_up(image, setup, command, key), digest)
        return replace(image, layers=(*image.layers, layer.path), digest=digest)

    async def _set_up(self, image: Image, setup: Setup, line: str, key: str) -> Path:
        env = {"PATH": DEFAULT_PATH, **image.config.env}
        network, ca = self._way_out.network, self._way_out.ca
        argv, files = ("/bin/sh", "-c", line), setup.pack()
        command = RunCommand(argv, env, "/", "0", network, SETUP_TIMEOUT_SEC, ca=ca, files=files)
        log = StepLog(StepCache(self._store).log_of(key), unobserved)
        try:
            return await run_step(self._backend, self._store, image, command, log)
        except WordError as error:
            raise BuildError(f"the agent's setup failed on {image.reference}: {error}") from error
        finally:
            log.close()

    async def _build(self, spec: BuildSpec, resolve: ResolveBase, title: str, observe: Observer[Notice]) -> Built:
        started = False

        def tell_once(event: BuildEvent) -> None:
            nonlocal started
            if isinstance(event, StepBegan) and not started:
                started = True
                observe(Notice(title))

        means = BuildMeans(self._store, resolve, lambda: nullcontext(self._backend), tell_once, self._way_out.ca)
        return await build_image(spec, means)


def _what(setup: Setup) -> list[object]:
    """What a set-up depends on; one without files is known as it always was."""
    return [setup.command, list(setup.files)] if setup.files else [setup.command]


@asynccontextmanager
async def open_store_source(backend: SandboxBackend, way_out: WayOut = STRAIGHT) -> AsyncIterator[StoreSource]:
    """The store as a source of images for the length of a block."""
    async with open_store() as store:
        yield StoreSource(store, backend, way_out)


# Container engines: the daemon pulls and builds, with its own credentials, mirrors and cache.

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

    async def fetch(self, reference: str, observe: Observer[Notice]) -> Image:
        """An image that the daemon has, pulled by it first if need be."""
        found = await inspect(self._client, reference)
        if found is None:
            observe(Notice(f"{self._engine} pulls {reference}"))
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

    async def build(self, request: ImageRequest, policy: ImagePolicy, observe: Observer[Notice]) -> Image:
        """An image that the daemon builds; the folder of the Dockerfile is the context.

        Raises OversizeError for a context that is too large, before it is read.
        """
        assert request.dockerfile is not None  # noqa: S101 - nothing else is asked to be built
        self._check_names(request.dockerfile, policy)
        context = request.dockerfile.parent
        await asyncio.to_thread(walk, str(context), TASK_BOUNDS, ())
        name = f"{_BUILT}:{digest_folder(context)[:_SHORT]}"
        return await self._built(
            DaemonBuildSpec(context, name, request.dockerfile.name), f"builds {request.dockerfile}", observe
        )

    async def extend(self, image: Image, setup: Setup, observe: Observer[Notice]) -> Image:
        """An image with an agent's layer, and with what a command leaves behind on top of it, run as root.

        What the image says about itself stays the same.
        """
        if image.layers:
            raise HostUnsupportedError(f"no agent can be set up in {image.reference}: {self._engine} does not have it")
        if setup.layer is not None:
            image = await self._with_layer(image, setup.layer, observe)
        return image if setup.command is None else await self._with_command(image, setup, setup.command, observe)

    async def _with_layer(self, image: Image, wanted: LayerRecipe | AgentLayer, observe: Observer[Notice]) -> Image:
        from seatrial.images.baking.bake import agent_layer, open_bakery  # noqa: PLC0415 - most bring none
        from seatrial.images.baking.carrying import write_tree  # noqa: PLC0415 - as above

        async with open_bakery(self._way_out) as means:
            layer = await agent_layer(means, wanted, observe)
            name = f"{_LAID}:{_key(image.digest, image.reference, layer.digest)}"
            if await inspect(self._client, name) is None:
                with Scratch() as folder:
                    with (folder / _LAYER).open("wb") as archive:
                        await asyncio.to_thread(write_tree, layer, archive)
                    (folder / "Dockerfile").write_text(f"FROM {image.reference}\nADD {_LAYER} /\n")
                    await self._built(DaemonBuildSpec(folder, name), f"lays the agent over {image.reference}", observe)
        laid = _image(name, await inspect(self._client, name) or {})
        return replace(laid, config=image.config, agent_layer=layer.digest)

    async def _with_command(self, image: Image, setup: Setup, command: str, observe: Observer[Notice]) -> Image:
        key = _key(image.digest, image.reference, command, *setup.files)
        with Scratch() as folder:
            steps = [f"FROM {image.reference}", "USER 0", f"RUN {json.dumps(['/bin/sh', '-c', command])}"]
            if files := setup.pack():
                (folder / _FILES).write_bytes(files)
                steps.insert(2, f"ADD {_FILES} /")
            (folder / "Dockerfile").write_text("\n".join(steps))
            built = await self._built(DaemonBuildSpec(folder, f"{_SET_UP}:{key}"), f"sets up: {command}", observe)
        return replace(built, config=image.config, agent_layer=image.agent_layer)

    async def _built(self, spec: DaemonBuildSpec, title: str, observe: Observer[Notice]) -> Image:
        found = await inspect(self._client, spec.name)
        if found is None:
            observe(Notice(f"{self._engine} {title}"))
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
