"""Before the verifier's turn: what it will see of the system, and what the agent's processes can still do to it.

A verifier brings its own system. Where the agent changed nothing of it and nothing of the agent runs on, that is what
is there. Otherwise it gets a copy from which everything is taken that its tools would load; where a sandbox cannot do
that, the agent's processes are ended and the files are put back in place.
"""

import io
import logging
import posixpath
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import NamedTuple

from seatrial.concurrency import finish
from seatrial.errors import ContentError, HostUnsupportedError, SandboxError
from seatrial.model.record import FileChanges, IsolationLevel
from seatrial.sandbox.api import AS_COPIED, Copyable, Curation, ExecSpec, Sandbox, SandboxBackend, SystemCopy
from seatrial.sandbox.sonames import is_searched, read_soname
from seatrial.sandbox.transfer import get_file
from seatrial.trial.spec import Machinery
from seatrial.trial.verification import Verification
from seatrial.trial.verifier import plan_verifier, separate_place
from seatrial.trial.work import Work, merge_changes
from seatrial.verify.artifacts import link_target
from seatrial.verify.curate import (
    NOTHING,
    NOTHING_EXPECTED,
    Curated,
    Expected,
    decide,
    each,
    gather_facts,
    modules_of,
    with_accounts,
    with_neighbours,
    with_replaced,
)
from seatrial.verify.facts import ACCOUNTS, Change, Reason, Surroundings, path_folders
from seatrial.verify.originals import Saved, lay_out, open_originals, restore, save
from seatrial.verify.rules import hidden_in, may_announce_plugins, may_be_links, may_be_of_home, why_not_at_home

_log = logging.getLogger(__name__)

_LOADER_CACHE = "/etc/ld.so.cache"
_LDCONFIG = ("/sbin/ldconfig",)
_LDCONFIG_SEC = 60.0
_MAX_TEXT_BYTES = 2**16
_MAX_TEXTS = 20
_MAX_LIBRARIES = 200
_MAX_LIBRARY_BYTES = 64 * 2**20
_TELLING = (".pth", "_finder.py", "/entry_points.txt", "/.gitconfig", ACCOUNTS)


@dataclass(frozen=True, slots=True)
class Shield:
    """What was done so that the agent does not judge itself.

    `owned`: the verifier has a system of its own. `copied`: it has a copy of all files, beside services that run on.
    """

    isolation: IsolationLevel
    owned: bool = False
    copied: bool = False
    curated: Curated = NOTHING
    saved: Saved | None = None
    """What was put back in place, as it was."""
    expected: Expected = NOTHING_EXPECTED


async def raise_shield(
    verification: Verification,
    sandbox: Sandbox,
    machinery: Machinery,
    isolation: IsolationLevel,
    expected: Expected = NOTHING_EXPECTED,
    withheld: Mapping[str, Reason] = MappingProxyType({}),
) -> Shield:
    """Make a sandbox ready for its verifier, whose first command finds it so. What is `expected` stays as it is.

    Files of the agent that are `withheld` are not there, or as the image has them.
    """
    if isolation == "separate":
        curated = await _curate_artifacts(verification, sandbox, machinery)
        return Shield(isolation, curated=replace(curated, hidden={**curated.hidden, **withheld}))
    if isolation == "exposed":
        return Shield(isolation)
    work = verification.work
    if isolation == "kill":
        await sandbox.kill_all()
        work = replace(work, found=await sandbox.changes()) if work.survivors else work
    found = merge_changes([verification.earlier, work.found])
    ground = _Ground(verification, sandbox, machinery.backend, expected, withheld)
    is_shared = work.survivors and isolation == "guarded"
    if not (is_shared or withheld or await _touches_system(ground, found)):
        await sandbox.renew_verifier()
        return Shield(isolation)
    if verification.place.capabilities.own_system:
        with suppress(SandboxError, HostUnsupportedError):
            return await _give_own_system(ground, found, isolation)
        _log.warning(
            "%s: the verifier cannot have a system of its own; the agent's processes end", verification.spec.trial_id
        )
    return await _put_back(ground, work)


def open_copy(
    verification: Verification, sandbox: Sandbox, isolation: IsolationLevel
) -> AbstractAsyncContextManager[Sandbox | None]:
    """A copy of the sandbox to verify in, so that services which the agent left can answer; it is gone afterwards.

    None where there are none, where they must end, or where there can be no copy: then they end.
    """
    wanted = isolation == "kill" and verification.options.isolation == "guarded" and verification.work.services
    return _copied(verification, sandbox) if wanted and isinstance(sandbox, Copyable) else nullcontext()


@asynccontextmanager
async def _copied(verification: Verification, sandbox: Copyable) -> AsyncIterator[Sandbox | None]:
    copy = None
    try:
        copy = await sandbox.copy_beside()
    except (SandboxError, HostUnsupportedError) as error:
        _log.warning("%s: services that the agent left running end: %s", verification.spec.trial_id, error)
    try:
        yield copy
    finally:
        if copy is not None:
            await finish(copy.destroy())


async def _curate_artifacts(verification: Verification, sandbox: Sandbox, machinery: Machinery) -> Curated:
    """What a separate verifier does not get of the artifacts: what it would not meet beside the agent either."""
    work, found = verification.work, merge_changes([verification.earlier, verification.work.found])
    changed = {*found.added, *found.modified}
    above = {str(folder) for artifact in work.kept for folder in PurePosixPath(artifact.source).parents}
    # Behind a link, files have other names than they were changed by.
    is_known = not found.truncated and changed.isdisjoint(above)
    handed_over = FileChanges(added=tuple(path for path in work.handed_over() if path in changed or not is_known))
    if verification.trusts_agent or not handed_over.added:
        return NOTHING
    own = await separate_place(verification, machinery)
    spec = replace(own.sandbox, workdir=plan_verifier(verification).workdir)
    there = replace(verification, place=replace(verification.place, sandbox=spec))
    ground = _Ground(there, sandbox, machinery.backend)
    if not await _touches_system(ground, handed_over):
        return NOTHING
    texts = {path: text for path in handed_over.added if path.endswith(_TELLING) and (text := work.read_kept(path))}
    system = _only(handed_over, there, system=True)
    decided = await _decide(ground, system, handed_over, texts)
    others: dict[str, Reason] = dict.fromkeys(decided.rewritten, "loaded by itself")
    return Curated(hidden={**others, **decided.put_back, **decided.hidden})


@dataclass(frozen=True, slots=True)
class _Ground:
    """What is decided about a system, in which sandbox, and who can show what the image has."""

    verification: Verification
    sandbox: Sandbox
    backend: SandboxBackend
    expected: Expected = NOTHING_EXPECTED
    withheld: Mapping[str, Reason] = field(default_factory=dict)


async def _touches_system(ground: _Ground, found: FileChanges) -> bool:
    """Whether the agent changed anything that a verifier's tools may load."""
    verification = ground.verification
    paths = [change.path for change in each(found)]
    at_root = any(path.count("/") == 1 for path in paths)
    if found.truncated or at_root or any(True for _ in verification.division.of_system(paths)):
        return True
    if any(may_be_of_home(change, verification.homes) for change in each(found)):
        return True
    return bool(await _hidden_beside_work(ground, list(each(found))))


class _EveryName:
    """Names of modules, before anybody has looked which there are."""

    def __contains__(self, name: object) -> bool:
        return True


async def _hidden_beside_work(ground: _Ground, changes: Sequence[Change]) -> Mapping[str, Reason]:
    """What is to be hidden of shared files, whose texts have not been read.

    The instruction is only read, and the image only asked for its modules, where it matters what they name.
    """
    verification, image = ground.verification, ground.verification.place.sandbox.image
    folders = verification.module_folders
    around = Surroundings(needs=verification.needs, importable=_EveryName())
    if not hidden_in(changes, folders, around):
        return {}
    around = replace(around, named=verification.named, plain_files=await _plain_files(ground, changes))
    if not hidden_in(changes, folders, around):
        return {}
    return hidden_in(changes, folders, replace(around, importable=await modules_of(ground.backend, image)))


async def _plain_files(ground: _Ground, changes: Sequence[Change]) -> frozenset[str]:
    """Files beside the work, without a suffix, that are no link to a folder: a program may be called as a module is."""
    known = {change.path for change in changes}
    found = set()
    for path in may_be_links(changes, ground.verification.module_folders)[:_MAX_TEXTS]:
        target = await link_target(ground.sandbox, path)
        end = posixpath.normpath(posixpath.join(posixpath.dirname(path), target)) if target else path
        if end in known and (end == path or await link_target(ground.sandbox, end) is None):
            found.add(path)
    return frozenset(found)


async def _give_own_system(ground: _Ground, found: FileChanges, isolation: IsolationLevel) -> Shield:
    decided: list[Curated] = []

    async def curate(copy: SystemCopy) -> Curation:
        texts = {**copy.texts, **await _shared_texts(ground, found, copy.texts)}
        decided.append(await _decide(ground, copy.changes, found, texts))
        return decided[-1].curation()

    await ground.sandbox.renew_verifier(curate)
    await _renew_loader_cache(ground.sandbox, decided[-1])
    return Shield(isolation, owned=True, curated=decided[-1], expected=ground.expected)


async def _decide(ground: _Ground, system: FileChanges, found: FileChanges, texts: dict[str, str]) -> Curated:
    verification = ground.verification
    if verification.trusts_agent:
        return Curated(kept=tuple(change.path for change in each(system)))
    image, shared = verification.place.sandbox.image, _only(found, verification, system=False)
    async with open_originals(ground.backend, image) as originals:
        facts = await gather_facts(originals, image, system)
        around = Surroundings(
            facts, verification.named, verification.needs, verification.place.workdir, texts, homes=verification.homes
        )
        plain, importable = await _plain_files(ground, list(each(found))), facts.importable
        around = replace(around, plain_files=plain, importable=importable)
        around = replace(around, added_files=frozenset((*found.added, *system.added)))
        around = await with_replaced(around, system, originals)
        around = await with_neighbours(around, system, originals)
        around = await with_accounts(around, verification.accounts, originals)
        at_home = {path for path in shared.modified if why_not_at_home(Change(path, "modified"), around)}
        withheld = ground.withheld.keys() & set(found.modified)
        around = replace(around, originals=await originals.texts(sorted(at_home | withheld)))
    curated = decide(system, shared, _folders(verification, texts), around, ground.expected)
    return _without(curated, ground.withheld, around.originals)


def _without(curated: Curated, withheld: Mapping[str, Reason], originals: Mapping[str, str]) -> Curated:
    """The decision with some more files that are not to be there, or as the image has them."""
    known = {path: originals[path] for path in withheld if path in originals}
    hidden = {path: reason for path, reason in withheld.items() if path not in known}
    return replace(
        curated,
        hidden={**curated.hidden, **hidden},
        put_back={**curated.put_back, **{path: withheld[path] for path in known}},
        originals={**curated.originals, **known},
    )


def _folders(verification: Verification, texts: Mapping[str, str]) -> frozenset[str]:
    """The folders in which Python looks for modules, those that the agent's files add to its path among them."""
    return verification.module_folders.union(
        *(path_folders(text) for path, text in texts.items() if path.endswith(".pth"))
    )


def _only(found: FileChanges, verification: Verification, *, system: bool) -> FileChanges:
    """The changes that concern the system, or those that do not; what lies in / itself does."""

    def chosen(paths: Iterable[str]) -> tuple[str, ...]:
        listed = list(paths)
        of_system = {*verification.division.of_system(listed), *(path for path in listed if path.count("/") == 1)}
        return tuple(path for path in listed if (path in of_system) == system)

    return FileChanges(
        added=chosen(found.added),
        modified=chosen(found.modified),
        removed=chosen(found.removed),
        truncated=found.truncated,
    )


async def _shared_texts(ground: _Ground, found: FileChanges, texts: Mapping[str, str]) -> dict[str, str]:
    """What those small files say that pytest would load plug-ins by, of those that are shared, and settings of git."""
    folders = _folders(ground.verification, texts)
    git = {f"{home}/.gitconfig" for home in ground.verification.homes}.difference(texts)
    paths = [path for path in (*found.added, *found.modified) if may_announce_plugins(path, folders) or path in git]
    return await _texts(ground.sandbox, paths[:_MAX_TEXTS])


async def _texts(sandbox: Sandbox, paths: Iterable[str]) -> dict[str, str]:
    found = {}
    for path in paths:
        with suppress(FileNotFoundError, SandboxError):
            found[path] = (await get_file(sandbox, path, limit=_MAX_TEXT_BYTES)).decode("utf-8", "replace")
    return found


async def _sonames(sandbox: Sandbox, system: FileChanges) -> dict[str, str]:
    """The sonames of libraries that the agent added where the loader looks."""
    found = {}
    for path in [path for path in system.added if is_searched(path)][:_MAX_LIBRARIES]:
        with suppress(FileNotFoundError, ContentError, SandboxError):
            found[path] = read_soname(io.BytesIO(await get_file(sandbox, path, limit=_MAX_LIBRARY_BYTES)))
    return found


async def _renew_loader_cache(sandbox: Sandbox, curated: Curated) -> None:
    """Have the image's own ldconfig find the libraries that the agent installed: its cache cannot be believed."""
    if _LOADER_CACHE in curated.put_back:
        await sandbox.exec(ExecSpec(_LDCONFIG, phase="verifier", cwd="/", user=0, timeout_sec=_LDCONFIG_SEC))


async def _put_back(ground: _Ground, work: Work) -> Shield:
    """End the agent's processes and put files back where they are. The lists are of when nobody was there any more."""
    verification, sandbox = ground.verification, ground.sandbox
    await sandbox.kill_all()
    found = merge_changes([verification.earlier, await sandbox.changes() if work.survivors else work.found])
    curated = await _curate_in_place(ground, found)
    paths = {*curated.put_back, *_files(curated.hidden, found)}
    saved = await save(sandbox, sorted({*paths, *curated.rewritten})) if curated.anything else None
    if paths or curated.rewritten:
        async with open_originals(ground.backend, verification.place.sandbox.image) as originals:
            await restore(sandbox, originals, paths, curated.rewritten)
    await sandbox.renew_verifier()
    await _renew_loader_cache(sandbox, curated)
    # Of more changes than can be listed, some may be in place still: the record says so by another tag.
    curated = replace(curated, only_image=False)
    return Shield("kill", curated=curated, saved=saved, expected=ground.expected)


async def curate_left(verification: Verification, sandbox: Sandbox, machinery: Machinery) -> Curated:
    """What a verifier would and would not meet of what was left in a sandbox, where nothing is done about it."""
    found = merge_changes([verification.earlier, verification.work.found])
    return await _curate_in_place(_Ground(verification, sandbox, machinery.backend), found)


async def _curate_in_place(ground: _Ground, found: FileChanges) -> Curated:
    system = _only(found, ground.verification, system=True)
    telling = [path for path in (*system.added, *system.modified) if path.endswith(_TELLING)]
    texts = await _texts(ground.sandbox, telling[:_MAX_TEXTS]) | await _sonames(ground.sandbox, system)
    return await _decide(ground, system, found, {**texts, **await _shared_texts(ground, found, texts)})


def _files(paths: Iterable[str], found: FileChanges) -> set[str]:
    """Files to hide, for a package those in its folder: only where something is known to be can a link be put."""
    changed = {change.path for change in each(found)}
    inside = {path: [other for other in changed if other.startswith(f"{path}/")] for path in paths}
    return {other for path, others in inside.items() for other in ([path] if path in changed else others)}


async def lower_shield(sandbox: Sandbox, work: Work, shield: Shield) -> Shield | None:
    """Make the sandbox as the agent left it, for a second verdict; None where that cannot be done any more."""

    async def as_it_is(_: SystemCopy) -> Curation:
        return AS_COPIED

    if shield.isolation == "separate":
        return Shield(shield.isolation)
    if not shield.owned and (shield.saved is None or not await lay_out(sandbox, shield.saved)):
        return None
    kept_apart = shield.owned and work.survivors and shield.isolation == "guarded"
    try:
        await sandbox.renew_verifier(as_it_is if kept_apart else None)
    except ContentError:
        return None
    return Shield(shield.isolation, owned=bool(kept_apart))


class Planted(NamedTuple):
    """What appeared while the verifier was at work. A system of its own has kept it from all but what is `to_hide`."""

    paths: tuple[str, ...]
    to_hide: bool


async def planted_meanwhile(
    verification: Verification, sandbox: Sandbox, machinery: Machinery, shield: Shield
) -> Planted:
    """What the agent's processes did to the system, or added to what is shared in place of a module, since it ended."""
    now, work = await sandbox.changes(), verification.work
    before = {*work.found.added, *work.found.modified, *work.found.removed}
    new = [change for change in each(now) if change.path not in before]
    hidden = await _hidden_beside_work(_Ground(verification, sandbox, machinery.backend), new)
    apart = shield.owned or shield.copied
    system = verification.division.of_system([change.path for change in new]) if apart else ()
    return Planted(tuple(sorted({*hidden, *system})), to_hide=bool(hidden))
