"""Carrying out one step: RUN in a sandbox, COPY, ADD and WORKDIR as archives, everything else in the configuration."""

import asyncio
import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from seatrial.concurrency import finish
from seatrial.errors import ImageError
from seatrial.images.building.copying import (
    CopyPlan,
    find_owner,
    write_copy_layer,
    write_folder_layer,
)
from seatrial.images.building.instructions import Copy, Run, Setting, refuse_remote
from seatrial.images.building.stage import Noted, Stage
from seatrial.images.building.step_cache import BuildEvent, How, StepCache, StepLog
from seatrial.images.building.trees import LayerView, digest_sources
from seatrial.images.locks import remove_trees
from seatrial.images.store import Store, StoredLayer
from seatrial.model.events import Observer
from seatrial.sandbox.api import NO_NETWORK, ExecSpec, Image, Network, SandboxBackend, SandboxSpec, open_sandbox
from seatrial.sandbox.archives import add_file, closing, folder_member, open_folder
from seatrial.sandbox.trust import ca_variables
from seatrial.tasks.build_context import IgnoreRules, Origin, find_sources, resolve
from seatrial.tasks.dockerfile import OR_DOCKER, WordError, expand

# RUN: a command in a sandbox on the layers so far. What it changed is a new layer.

_SCRIPTS = ".seatrial-scripts"
_CA = f"/{_SCRIPTS}/ca.pem"
_NOWHERE = Path(os.devnull)
_MAX_LOG = 64 * 2**20
_TAIL_LINES = 30
# Every sandbox has its own, and images leave them to whoever runs them.
_OF_THE_MACHINE = ("etc/hostname", "etc/hosts", "etc/resolv.conf")


@dataclass(frozen=True, slots=True)
class RunCommand:
    """What to run, and how."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    workdir: str
    user: str | None
    network: Network
    timeout_sec: float | None
    script: tuple[str, str] | None = None
    caches: tuple[str, ...] = ()
    ca: bytes | None = None
    """Certificates to trust meanwhile; they do not get into the layer."""
    files: bytes = b""
    """An archive of what is to be there before, and stays."""


async def run_step(backend: SandboxBackend, store: Store, image: Image, command: RunCommand, log: StepLog) -> Path:
    """Run a command; returns a tree for the store with what it changed. Raises WordError when it fails."""
    async with open_sandbox(backend, SandboxSpec(image=image, workdir=command.workdir)) as sandbox:
        result = await sandbox.exec(
            ExecSpec(
                command.argv,
                env={**ca_variables(_CA), **command.env} if command.ca else command.env,
                cwd=command.workdir,
                user=command.user,
                timeout_sec=command.timeout_sec,
                network=command.network,
                stdout_path=_NOWHERE,
                stderr_path=_NOWHERE,
                max_output=_MAX_LOG,
                on_output=log.write,
                files=_pack(command),
            )
        )
        if result.exit_code != 0:
            raise WordError(_failure(result.exit_code, command, log))
        tree = store.new_tree()
        try:
            await sandbox.snapshot(tree)
            _tidy(tree, LayerView(image.layers, image.base), command.caches)
        except BaseException:
            await finish(remove_trees(tree.parent))
            raise
    return tree


def script_path(name: str) -> str:
    """Where a script of a Dockerfile lies while it runs."""
    return f"/{_SCRIPTS}/{name.replace('/', '_')}"


def _pack(command: RunCommand) -> tuple[str, bytes] | None:
    """What the command needs to be there: its script, and the directories that are mounted elsewhere."""
    if not (command.script or command.caches or command.ca or command.files):
        return None
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for cache in command.caches:
            tar.addfile(folder_member(cache.strip("/")))
        if command.script:
            name, text = command.script
            add_file(tar, script_path(name).lstrip("/"), text.encode("utf-8", "surrogateescape"), 0o755)
        if command.ca:
            add_file(tar, _CA.lstrip("/"), command.ca, 0o755)
        if command.files:
            with tarfile.open(fileobj=io.BytesIO(command.files), mode="r:") as given:
                for member in given:
                    tar.addfile(member, given.extractfile(member) if member.isreg() else None)
    return "/", buffer.getvalue()


def _failure(exit_code: int | None, command: RunCommand, log: StepLog) -> str:
    if exit_code is None:
        ending = f"it was ended after {command.timeout_sec:g} seconds"
    elif exit_code < 0:
        ending = f"it was ended by signal {-exit_code}"
    else:
        ending = f"it ended with exit code {exit_code}"
    shown = "".join(f"\n    {line}" for line in log.tail.splitlines()[-_TAIL_LINES:])
    return f"{ending}; the end of its output (all of it is in {log.path}):{shown}" if shown else f"{ending}, silently"


def _tidy(tree: Path, below: LayerView, caches: Sequence[str]) -> None:
    """Take out what belongs to the sandbox and not to the image. Whatever ran there decided what its links say."""
    with closing(os.open(tree, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as top:
        for path in (*_OF_THE_MACHINE, _SCRIPTS, *caches):
            _remove(top, [part for part in path.split("/") if part not in ("", ".")])
        etc = below.look("/etc")
        with suppress(OSError):  # it holds something, or is not there
            if etc and _looks_like(etc.status, os.lstat("etc", dir_fd=top)):
                os.rmdir("etc", dir_fd=top)


def _remove(top: int, parts: Sequence[str]) -> None:
    if not parts:  # whoever mounts something over the whole root keeps what is there
        return
    with suppress(FileNotFoundError), closing(open_folder(top, parts[:-1])) as folder:
        try:
            os.unlink(parts[-1], dir_fd=folder)
        except IsADirectoryError:
            shutil.rmtree(parts[-1], dir_fd=folder)


def _looks_like(one: os.stat_result, other: os.stat_result) -> bool:
    return (one.st_mode, one.st_uid, one.st_gid) == (other.st_mode, other.st_uid, other.st_gid)


# All instructions.


@dataclass(frozen=True, slots=True)
class Workshop:
    """What steps are carried out with. `backend` starts one the first time it is asked for."""

    store: Store
    cache: StepCache
    backend: Callable[[], Awaitable[SandboxBackend]]
    origin: Callable[[str | None], Awaitable[Origin]]
    network: Network
    run_timeout_sec: float | None
    observer: Observer[BuildEvent]
    ca: bytes | None = None


async def carry_out(what: Run | Copy | Noted, stage: Stage, shop: Workshop) -> How:
    """Do what an instruction says to a stage. Raises WordError, OSError, and what the sandbox raises."""
    if isinstance(what, Run):
        return await _run(what, stage, shop)
    if isinstance(what, Copy):
        return await _copy(what, stage, shop)
    stage.note(what)
    if isinstance(what, Setting) and what.kind == "WORKDIR":
        return await _make_workdir(stage, shop)
    return "noted"


async def _run(run: Run, stage: Stage, shop: Workshop) -> How:
    command = RunCommand(
        argv=(*stage.draft.shell, script_path(run.script.name))
        if run.script
        else run.command.with_shell(stage.draft.shell),
        env=stage.variables,
        workdir=stage.draft.workdir,
        user=stage.draft.user,
        network=NO_NETWORK if run.network == "none" else shop.network,
        timeout_sec=shop.run_timeout_sec,
        script=(run.script.name, run.script.text) if run.script else None,
        caches=tuple(resolve(stage.view, _from(stage.draft.workdir, stage.expand(path))) for path in run.caches),
        ca=shop.ca,
    )
    if not command.argv:
        raise WordError("the list is empty: there is nothing to run")
    about = (command.argv, dict(command.env), command.workdir, command.user, command.script, command.caches)
    key = stage.next_key("RUN", *about, command.network.mode)

    async def make() -> StoredLayer | None:
        log = StepLog(shop.cache.log_of(key), shop.observer)
        try:
            tree = await run_step(await shop.backend(), shop.store, stage.image, command, log)
        finally:
            log.close()
        try:
            return await shop.store.add_tree(tree, f"sha256:{key}")
        except BaseException:
            await finish(remove_trees(tree.parent))
            raise

    return await _add(stage, shop, key, make)


async def _copy(copy: Copy, stage: Stage, shop: Workshop) -> How:
    origin, view = await shop.origin(copy.origin), stage.view
    plan, key = await asyncio.to_thread(_plan_with_key, copy, stage, origin)
    return await _add(stage, shop, key, lambda: _archive(shop, lambda file: write_copy_layer(file, view, plan)))


def _plan_with_key(copy: Copy, stage: Stage, origin: Origin) -> tuple[CopyPlan, str]:
    plan = _plan(copy, stage, origin)
    content = origin.key or digest_sources(origin.tree, [source.path for source in plan.sources])
    sources = [(source.path, source.name) for source in plan.sources]
    documents = [(name, data.decode("utf-8", "backslashreplace")) for name, data in plan.documents]
    about = (plan.destination, plan.owner, plan.owners, plan.mode, plan.archives, copy.exclude)
    return plan, stage.next_key("COPY", content, sources, documents, *about)


def _plan(copy: Copy, stage: Stage, origin: Origin) -> CopyPlan:
    words = [stage.expand(word) for word in copy.sources]
    if copy.kind == "ADD":
        refuse_remote(words)
    destination = stage.expand(copy.destination)
    is_folder = destination.endswith("/") or destination.rpartition("/")[2] in (".", "..")
    absolute = _from(stage.draft.workdir, destination)
    return CopyPlan(
        destination=absolute.rstrip("/") + ("/" if is_folder or not absolute.rstrip("/") else ""),
        sources=find_sources(origin, words),
        documents=[(document.name, _content(document.text, stage, document.quoted)) for document in copy.documents],
        owner=find_owner(stage.view, stage.expand(copy.owner)) if copy.owner else None,
        owners="root" if origin.context else "keep",
        mode=_mode(stage.expand(copy.mode)) if copy.mode else None,
        archives="unpack" if copy.kind == "ADD" else "copy",
        exclude=IgnoreRules(stage.expand(word) for word in copy.exclude),
    )


def _from(workdir: str, path: str) -> str:
    return path if path.startswith("/") else f"{workdir}/{path}"


def _content(text: str, stage: Stage, quoted: bool) -> bytes:  # noqa: FBT001 - a fact about the text
    if not quoted:
        text = expand(text, stage.variables, quotes="keep")
    return text.encode("utf-8", "surrogateescape")


def _mode(text: str) -> int:
    try:
        mode = int(text, 8)
    except ValueError:
        mode = -1
    if not 0 <= mode <= 0o7777:
        raise WordError(f"--chmod takes a number such as 755, not {text!r}; {OR_DOCKER}")
    return mode


async def _make_workdir(stage: Stage, shop: Workshop) -> How:
    view, path = stage.view, stage.draft.workdir
    found = view.look(resolve(view, path))
    if found is not None and found.is_folder:
        return "noted"
    owner = find_owner(view, stage.draft.user) if stage.draft.user else (0, 0)
    key = stage.next_key("WORKDIR", path, owner)
    return await _add(
        stage, shop, key, lambda: _archive(shop, lambda file: write_folder_layer(file, view, path, owner))
    )


async def _add(stage: Stage, shop: Workshop, key: str, make: Callable[[], Awaitable[StoredLayer | None]]) -> How:
    outcome = await shop.cache.layer(key, make)
    stage.add(key, outcome.layer)
    return "cached" if outcome.cached else "built"


async def _archive(shop: Workshop, write: Callable[[BinaryIO], None]) -> StoredLayer:
    with tempfile.TemporaryFile(dir=shop.store.session.path, buffering=0) as file:
        await finish(asyncio.to_thread(_write_whole, file, write))
        try:
            return await shop.store.add_layer(file)
        except ImageError as error:
            raise WordError(f"its files cannot be a layer: {error}") from error


def _write_whole(file: BinaryIO, write: Callable[[BinaryIO], None]) -> None:
    write(file)
    file.seek(0)
