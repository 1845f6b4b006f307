"""Layers that bring agents: packages baked into a tree, in a sandbox on this machine's own system.

The code that runs in that sandbox is in `inside/`. A tree of the user's own is taken as it is.
"""

import asyncio
import os
import tarfile
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import IO

from seatrial.errors import BakeError
from seatrial.images.baking.inside.install import BakeOrder
from seatrial.images.baking.layout import (
    NODE,
    PATCHER,
    RECIPE_LABEL,
    HostSettings,
    for_this_machine,
    image_name,
    settings_here,
    title_of,
    tree_of,
    where_settings_are,
)
from seatrial.images.baking.pythons import PythonHome, add_text, choose_python, pack_pip, pack_python
from seatrial.images.baking.tidy import entries_of_archive, pack_layer, rewound, write_layer
from seatrial.images.building.step_cache import StepCache, StepLog
from seatrial.images.config import ImageDocument, Layers, Settings, host_platform
from seatrial.images.pull import OFFLINE
from seatrial.images.store import Store, StoredImage, StoredLayer, open_store
from seatrial.model.events import Notice, Observer, unobserved
from seatrial.model.job import AgentLayer, LayerRecipe
from seatrial.sandbox.api import DEFAULT_PATH, HOST_IMAGE, ExecSpec, Sandbox, SandboxBackend, SandboxSpec, open_sandbox
from seatrial.sandbox.trust import STRAIGHT, WayOut, ca_variables, named_ca

_WORKSHOP = "/opt/seatrial/workshop"
_HOME, _CODE, _CA, _ORDER = (f"{_WORKSHOP}/{name}" for name in ("home", "code", "ca.pem", "order.json"))
_INSIDE = "seatrial.images.baking.inside"
_TIMEOUT_SEC = 3600.0
_MAX_TREE = 16 * 2**30
_MAX_LOG = 64 * 2**20
_TAIL_LINES = 30
_NOWHERE = Path("/dev/null")


@dataclass(frozen=True, slots=True)
class BakeMeans:
    """What to bake with: a store for the result, a backend for the sandbox, the way out of it, the user's settings.

    `open_backend` is used only if something has to be baked.
    """

    store: Store
    open_backend: Callable[[], AbstractAsyncContextManager[SandboxBackend]]
    way_out: WayOut = STRAIGHT
    settings: HostSettings = field(default_factory=HostSettings)

    @property
    def ca(self) -> bytes | None:
        """The certificates to trust: no secret, so those that this machine's variables name are taken unasked."""
        return self.way_out.ca or named_ca(os.environ)


async def bake(means: BakeMeans, recipe: LayerRecipe) -> StoredImage:
    """Bake a tree, whether or not there is one already. Raises BakeError, UsageError and SandboxError."""
    recipe = for_this_machine(recipe)
    home = await asyncio.to_thread(choose_python, recipe.python, title_of(recipe))
    room = means.store.root  # trees are large, and temporary folders may be in memory
    with tempfile.TemporaryFile(dir=room) as raw, tempfile.TemporaryFile(dir=room) as layer:
        place = SandboxSpec(image=HOST_IMAGE, workdir=_WORKSHOP)
        async with means.open_backend() as backend, open_sandbox(backend, place) as sandbox:
            await _prepare(sandbox, means, recipe, home)
            await _run(sandbox, means, recipe)
            await sandbox.get(tree_of(recipe), raw, limit=_MAX_TREE)
        await asyncio.to_thread(_tidy, raw, layer, tree_of(recipe))
        stored = await means.store.add_layer(rewound(layer))
    here = host_platform()
    document = ImageDocument(
        architecture=here.architecture,
        os=here.os,
        config=Settings(labels={RECIPE_LABEL: recipe.model_dump_json()}),
        rootfs=Layers(diff_ids=(stored.digest,)),
    )
    return means.store.put_image(document, image_name(recipe))


async def _prepare(sandbox: Sandbox, means: BakeMeans, recipe: LayerRecipe, home: PythonHome) -> None:
    """Have everything in the sandbox: a Python, in the tree if it stays, a pip, our own code, the order, settings."""
    with tempfile.TemporaryFile() as python:
        await asyncio.to_thread(pack_python, home, _python_root(recipe), python)
        python.seek(0)
        await sandbox.put("/", python)
    with tempfile.TemporaryFile() as rest:
        await asyncio.to_thread(_pack_rest, means, recipe, home, rest)
        rest.seek(0)
        await sandbox.put("/", rest)


def _python_root(recipe: LayerRecipe) -> str:
    return tree_of(recipe) if recipe.pip else _WORKSHOP


def _pack_rest(means: BakeMeans, recipe: LayerRecipe, home: PythonHome, archive: IO[bytes]) -> None:
    with tarfile.open(fileobj=archive, mode="w") as tar:
        order = BakeOrder(
            tree=tree_of(recipe),
            workshop=_WORKSHOP,
            title=title_of(recipe),
            pip_program=pack_pip(home, _WORKSHOP, tar),
            npm=recipe.npm,
            pip=recipe.pip,
            programs=recipe.programs,
            musl_programs=recipe.musl_programs,
            node=NODE,
            patcher=PATCHER,
        )
        add_text(tar, _ORDER, order.to_text())
        folder = _CODE
        for part in _INSIDE.split("."):
            folder = f"{folder}/{part}"
            add_text(tar, f"{folder}/__init__.py", "")
        for file in files(_INSIDE).iterdir():
            if file.name.endswith(".py") and file.name != "__init__.py":
                add_text(tar, f"{folder}/{file.name}", file.read_text())
        for name, text in means.settings.files.items():
            add_text(tar, f"{_HOME}/{name}", text)
        if ca := means.ca:
            add_text(tar, _CA, ca.decode("ascii", "replace"))


async def _run(sandbox: Sandbox, means: BakeMeans, recipe: LayerRecipe) -> None:
    root = _python_root(recipe)
    trusted = {**ca_variables(_CA), "NPM_CONFIG_CAFILE": _CA} if means.ca else {}
    own = {
        "PATH": DEFAULT_PATH,
        "PYTHONPATH": _CODE,
        "PYTHONDONTWRITEBYTECODE": "1",
        "LD_LIBRARY_PATH": f"{root}/lib",  # until its programs are pointed there
        "LC_ALL": "C.UTF-8",
    }
    path = StepCache(means.store).log_of(f"bake-{recipe.name}-{recipe.version}")
    log = StepLog(path, unobserved)
    try:
        result = await sandbox.exec(
            ExecSpec(
                (f"{root}/env/bin/python", "-m", _INSIDE, _ORDER),
                env={**means.settings.variables, **where_settings_are(_HOME, means.settings), **trusted, **own},
                cwd=_WORKSHOP,
                user="0",
                timeout_sec=_TIMEOUT_SEC,
                network=means.way_out.network,
                stdout_path=_NOWHERE,
                stderr_path=_NOWHERE,
                max_output=_MAX_LOG,
                on_output=log.write,
            )
        )
    finally:
        log.close()
    if result.exit_code != 0:
        shown = "".join(f"\n    {line}" for line in log.tail.splitlines()[-_TAIL_LINES:])
        raise BakeError(
            f"{title_of(recipe)} could not be baked; the end of what was said (all of it is in {path}):{shown}\n"
            "If certificates are the trouble, name a file of those to trust (--ca-file). If packages come from a "
            "registry of your own, allow your settings of npm and pip (--host-settings, or SEATRIAL_HOST_SETTINGS=1). "
            "Without any registry, `seatrial agents load` a file that was baked elsewhere"
        )


def _tidy(raw: IO[bytes], layer: IO[bytes], tree: str) -> None:
    raw.seek(0)
    with tarfile.open(fileobj=raw, mode="r:") as tar:
        write_layer(entries_of_archive(tar, tree.strip("/")), layer)


# Layers by recipe or by a tree of the user's own, each in the store once.


def find_baked(store: Store, recipe: LayerRecipe) -> StoredImage | None:
    """The image with the tree of a recipe, None when it has not been baked here. Raises UsageError."""
    return store.find(image_name(recipe), host_platform())


async def baked_layer(means: BakeMeans, recipe: LayerRecipe, observe: Observer[Notice]) -> StoredLayer:
    """The tree of a recipe, baked first if it is not there. Raises BakeError, UsageError and SandboxError."""
    async with means.store.working_on(f"bake-{image_name(recipe)}"):
        image = find_baked(means.store, recipe)
        layer = _layer_of(means.store, image) if image else None
        if layer is None:
            _check_reach(recipe)
            observe(Notice(f"baking {title_of(recipe)}, once for this machine"))
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


async def agent_layer(means: BakeMeans, wanted: LayerRecipe | AgentLayer, observe: Observer[Notice]) -> StoredLayer:
    if isinstance(wanted, AgentLayer):
        return await own_layer(means.store, wanted)
    return await baked_layer(means, wanted, observe)


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
