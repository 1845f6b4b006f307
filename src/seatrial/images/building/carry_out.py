"""Carrying out one step: RUN in a sandbox, COPY, ADD and WORKDIR as archives, everything else in the configuration."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import BinaryIO

from seatrial.concurrency import finish
from seatrial.errors import ImageError
from seatrial.images.building.context import digest_sources
from seatrial.images.building.copying import CopyPlan, write_copy_layer, write_folder_layer
from seatrial.images.building.events import How, Observer, StepLog
from seatrial.images.building.ignore import IgnoreRules
from seatrial.images.building.instructions import Copy, Run, Setting, refuse_remote
from seatrial.images.building.owners import find_owner
from seatrial.images.building.run_step import RunCommand, run_step, script_path
from seatrial.images.building.sources import Origin, find_sources
from seatrial.images.building.stage import Noted, Stage
from seatrial.images.building.step_cache import StepCache
from seatrial.images.building.trees import resolve
from seatrial.images.building.words import WordError, expand
from seatrial.images.store import Store
from seatrial.images.stored import StoredLayer
from seatrial.images.workers import remove_trees
from seatrial.sandbox.api import NO_NETWORK, Network, SandboxBackend


@dataclass(frozen=True, slots=True)
class Workshop:
    """What steps are carried out with. `backend` starts one the first time it is asked for."""

    store: Store
    cache: StepCache
    backend: Callable[[], Awaitable[SandboxBackend]]
    origin: Callable[[str | None], Awaitable[Origin]]
    network: Network
    run_timeout_sec: float | None
    observer: Observer
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
        raise WordError(f"--chmod takes a number such as 755, not {text!r}; or build with --builder docker")
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
