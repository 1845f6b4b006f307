"""Baking: packages become a tree, in a sandbox on this machine's own system, and the tree an image of the store."""

import asyncio
import os
import tarfile
import tempfile
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import IO

from seatrial.errors import BakeError
from seatrial.images.baking.host_settings import HostSettings, where_settings_are
from seatrial.images.baking.inside.orders import BakeOrder
from seatrial.images.baking.layout import (
    NODE,
    PATCHER,
    RECIPE_LABEL,
    for_this_machine,
    image_name,
    title_of,
    tree_of,
)
from seatrial.images.baking.python_copy import add_text, pack_pip, pack_python
from seatrial.images.baking.pythons import PythonHome, choose_python
from seatrial.images.baking.tidy import entries_of_archive, rewound, write_layer
from seatrial.images.building.events import StepLog, ignore_events
from seatrial.images.building.step_cache import StepCache
from seatrial.images.config import ImageDocument, Layers, Settings
from seatrial.images.platforms import host_platform
from seatrial.images.store import Store
from seatrial.images.stored import StoredImage
from seatrial.model.job import LayerRecipe
from seatrial.sandbox.api import DEFAULT_PATH, HOST_IMAGE, ExecSpec, Sandbox, SandboxBackend, SandboxSpec
from seatrial.sandbox.ca_file import ca_variables, named_ca
from seatrial.sandbox.session import open_sandbox
from seatrial.sandbox.way_out import STRAIGHT, WayOut

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
    log = StepLog(path, ignore_events)
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
