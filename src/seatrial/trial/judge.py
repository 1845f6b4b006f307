"""The verifier's turn: shield it from what the agent left, run it, read its verdict, and ask again where need be."""

import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from seatrial.model.record import Appeal, FileChanges, IsolationLevel
from seatrial.sandbox.api import ExecResult, Sandbox
from seatrial.sandbox.opens import Watched
from seatrial.trial.judgement import NAMED, Judgement, VerifierOutcome, evaluate, read_judgement, visible_files
from seatrial.trial.machinery import Machinery
from seatrial.trial.reference import Reference, expected_of, reference_of
from seatrial.trial.shield import Shield, lower_shield, planted_meanwhile, raise_shield
from seatrial.trial.verification import Verification
from seatrial.trial.verifier_files import lay_out_files, make_way, must_be_alone
from seatrial.trial.verifier_place import choose_isolation, open_verifier_sandbox, plan_verifier
from seatrial.verify.guard import lay_out, remove
from seatrial.verify.originals import open_originals
from seatrial.verify.reads import Tools, all_names, folders_above, may_be_code, steering
from seatrial.verify.run import fetch_files, run_tests
from seatrial.verify.system.curate import gather_facts
from seatrial.verify.system.surroundings import Reason
from seatrial.verify.system.verifier_needs import RUNNER

_TRIES = 2


async def judge(verification: Verification, sandbox: Sandbox, machinery: Machinery) -> Judgement:
    """Run the verifier of a round after its agent, as isolated as was asked for.

    One that is not content where something was put back is asked again where what the task's own solution changes is
    as the agent left it, and if it still is not, where everything is. One that is content and has read files of the
    agent that may steer it is asked again without these.
    """
    isolation = await _isolate(verification, sandbox, machinery)
    shield = await raise_shield(verification, sandbox, machinery, isolation)
    shield, judgement = await _run_shielded(verification, sandbox, machinery, shield)
    if _may_be_wronged(verification, judgement):
        wider = await _widen(verification, sandbox, machinery, shield)
        shield = wider or shield
        if wider and wider.curated.expected:
            shield, judgement = await _run_shielded(verification, sandbox, machinery, wider)
    judgement = await _without_steering(verification, sandbox, machinery, shield, judgement)
    if judgement.disputed is not None:
        return judgement
    if _may_be_wronged(verification, judgement):
        lowered = await lower_shield(sandbox, verification.work, shield)
        if lowered is not None:
            second = await _run_once(verification, sandbox, machinery, lowered, "verifier/as-left")
            return _weigh(verification, judgement, second)
    return judgement


async def _isolate(verification: Verification, sandbox: Sandbox, machinery: Machinery) -> IsolationLevel:
    isolation = choose_isolation(verification)
    if isolation == "guarded" and must_be_alone(verification, by_hook=machinery.staging is not None):
        isolation = "kill"
    if isolation == "exposed" and verification.options.isolation == "kill":
        await sandbox.kill_all()
    if isolation != "separate":
        await make_way(verification, sandbox)
    return isolation


def _may_be_wronged(verification: Verification, judgement: Judgement) -> bool:
    """Whether a verdict below a pass rests on a system in which something was put back."""
    return judgement.curated.matters and _reward(verification, judgement) < verification.options.pass_threshold


async def _widen(verification: Verification, sandbox: Sandbox, machinery: Machinery, shield: Shield) -> Shield | None:
    """A shield that leaves alone what the task's own solution changes, too; None where that is nothing."""
    if verification.is_authors_own or shield.curated.only_image or not (shield.owned or shield.saved):
        return None
    reference = await _reference(verification, machinery)
    if reference is None or not reference.concerns(shield.curated):
        return None
    if shield.saved is not None:
        await lay_out(sandbox, shield.saved)
    expected = await expected_of(reference, sandbox, verification, shield)
    return await raise_shield(verification, sandbox, machinery, shield.isolation, expected)


async def _run_shielded(
    verification: Verification, sandbox: Sandbox, machinery: Machinery, shield: Shield
) -> tuple[Shield, Judgement]:
    """Run the verifier, and once more without the agent's processes if it says nothing or they planted something."""
    judgement = await _run_once(verification, sandbox, machinery, shield)
    if shield.isolation == "guarded" and verification.work.survivors:
        planted = await planted_meanwhile(verification, sandbox, shield)
        if planted.to_hide or judgement.verdict.silent:
            shield = await raise_shield(verification, sandbox, machinery, "kill", shield.expected)
            judgement = await _run_once(verification, sandbox, machinery, shield)
        judgement = replace(judgement, planted=planted.paths)
    return shield, judgement


async def _run_once(
    verification: Verification, sandbox: Sandbox, machinery: Machinery, shield: Shield, logs: str = "verifier"
) -> Judgement:
    folder = verification.folder / logs
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    async with open_verifier_sandbox(verification, sandbox, machinery, shield.isolation) as room:
        if shield.isolation not in ("guarded", "kill"):
            await room.sandbox.renew_verifier()
        if shield.isolation == "separate":
            await remove(room.sandbox, tuple(shield.curated.hidden))
        staged, digest = await lay_out_files(verification, room, machinery.staging)
        plan = replace(plan_verifier(verification), watched=_watched(verification, shield))
        ended = await run_tests(room.sandbox, staged, plan, folder)
        files = await fetch_files(room.sandbox, staged, verification.round.judged.verifier, folder / "files")
    agents = await _with_late_files(verification, machinery, shield, ended)
    return read_judgement(verification, VerifierOutcome(ended, files, digest, agents), shield, logs)


def _is_beside_agent(verification: Verification, shield: Shield) -> bool:
    return bool(verification.work.survivors) and shield.isolation in ("guarded", "exposed")


def _watched(verification: Verification, shield: Shield) -> Watched:
    """The agent's files; beside its processes, and for what Python compiles, the folders that they are in as well."""
    files = visible_files(verification, shield)
    folders = {f"{path.rpartition('/')[0]}/__pycache__" for path in files if path.endswith(".py")}
    if _is_beside_agent(verification, shield):
        folders |= {path.rpartition("/")[0] or "/" for path in files} | verification.module_folders
    return Watched(files, tuple(sorted(folders)))


async def _with_late_files(
    verification: Verification, machinery: Machinery, shield: Shield, ended: ExecResult
) -> tuple[str, ...]:
    """The agent's files, and what else was opened beside its processes that the image does not have."""
    files = visible_files(verification, shield)
    if ended.opened is None or not _is_beside_agent(verification, shield):
        return files
    late = ended.opened.files.difference(files)
    async with open_originals(machinery.backend, verification.place.sandbox.image) as originals:
        known = await originals.kinds(sorted(late))
    return (*files, *(late - known.keys()))


async def _without_steering(
    verification: Verification, sandbox: Sandbox, machinery: Machinery, shield: Shield, first: Judgement
) -> Judgement:
    """The first verdict, or a lower one by a verifier that did not meet files of the agent which may have steered it.

    Whether they did shows when they are not there. A tool that does not find one file may find the next: so the last
    try is without any such file. The author's own solution forges nothing.
    """
    latest, withheld = first, dict[str, Reason]()
    if verification.trusts_agent or verification.is_authors_own or shield.isolation == "exposed":
        return first
    for attempt in range(_TRIES if _reward(verification, first) else 0):
        found = await _steering(verification, machinery, latest.used or {})
        if found and attempt:
            others = {path: frozenset([path]) for path in visible_files(verification, shield)}
            found |= await _steering(verification, machinery, others)
        if not found:
            break
        withheld |= found
        with _aside(verification.folder / "verifier") as keep_second:
            shield, latest = await _run_without(verification, sandbox, machinery, shield, withheld)
            if _reward(verification, latest) < _reward(verification, first):
                keep_second()
                return _disputed(verification, first, latest, withheld)
    if latest is first:
        return first
    appeal = _appeal(verification, latest).model_copy(update={"on": "withheld"})
    return replace(first, run=first.run.model_copy(update={"appeal": appeal}))


async def _run_without(
    verification: Verification, sandbox: Sandbox, machinery: Machinery, shield: Shield, withheld: Mapping[str, Reason]
) -> tuple[Shield, Judgement]:
    """Run the verifier without some files, which are there again afterwards if they were taken away in place."""
    if shield.saved is not None:
        await lay_out(sandbox, shield.saved)
    shield = await raise_shield(verification, sandbox, machinery, shield.isolation, shield.expected, withheld)
    judgement = await _run_once(verification, sandbox, machinery, shield)
    if shield.saved is not None:
        await lower_shield(sandbox, verification.work, shield)
    return shield, judgement


async def _steering(
    verification: Verification, machinery: Machinery, used: Mapping[str, frozenset[str]]
) -> dict[str, Reason]:
    """Those of some files that may have steered the verifier. Where the names leave it open, the image is looked at."""
    names = all_names(used)
    if names <= verification.asked_for:
        return {}
    alone, expected = not verification.work.survivors, verification.expectations
    tools = await _tools_of_image(verification, machinery, names) if may_be_code(names) else Tools()
    found = steering(used, expected, tools, alone=alone)
    reference = await _reference(verification, machinery) if found else None
    if reference is None:
        return found
    changes = reference.changes
    usual = expected.files.union(reference.reads, changes.added, changes.modified)
    return steering(used, replace(expected, files=usual), tools, alone=alone)


async def _reference(verification: Verification, machinery: Machinery) -> Reference | None:
    """What the task's own solution does, and which of its files the verifier opens on its end state."""

    async def read(solved: Verification, fresh: Sandbox) -> frozenset[str]:
        shield = await raise_shield(solved, fresh, machinery, choose_isolation(solved))
        return frozenset((await _run_once(solved, fresh, machinery, shield)).used or ())

    return await reference_of(verification, machinery, read)


async def _tools_of_image(verification: Verification, machinery: Machinery, names: Set[str]) -> Tools:
    image, needs = verification.place.sandbox.image, verification.needs
    marks = {f"{folder}/__init__.py" for name in names for folder in folders_above(name)}
    async with open_originals(machinery.backend, image) as originals:
        facts = await gather_facts(originals, image, FileChanges())
        known = await originals.kinds(sorted(marks))
    added = marks.intersection(verification.work.found.added)
    return Tools(
        modules=facts.python_modules | sys.stdlib_module_names | RUNNER | needs.installs,
        programs=facts.programs | needs.installs,
        packages=frozenset(path.rpartition("/")[0] for path in {*known, *added}),
    )


@contextmanager
def _aside(folder: Path) -> Iterator[Callable[[], None]]:
    """Put a folder aside for the length of a block, unless that wants to have it inside of what is there then."""
    first = folder.with_name(f".{folder.name}")
    folder.rename(first)

    def keep_second() -> None:
        first.rename(folder / "as-left")

    try:
        yield keep_second
    finally:
        if first.is_dir():
            shutil.rmtree(folder, ignore_errors=True)
            first.rename(folder)


def _disputed(
    verification: Verification, first: Judgement, second: Judgement, withheld: Mapping[str, Reason]
) -> Judgement:
    """The second verdict, which counts, with the first one beside it."""
    appeal = _appeal(verification, first)
    used = sorted({*first.run.agent_files_used, *second.run.agent_files_used, *withheld})
    counts = {"agent_files_used": tuple(used[:NAMED]), "agent_files_used_count": len(used)}
    run = second.run.model_copy(update={"appeal": appeal, **counts})
    return replace(second, run=run, planted=first.planted, disputed=_reward(verification, first))


def _reward(verification: Verification, judgement: Judgement) -> float:
    return evaluate(verification.round, judgement, verification.options).reward


def _appeal(verification: Verification, judgement: Judgement) -> Appeal:
    reward = None if judgement.verdict.silent else _reward(verification, judgement)
    run = judgement.run
    return Appeal(reward=reward, exit_code=run.exit_code, duration_sec=run.duration_sec)


def _weigh(verification: Verification, first: Judgement, second: Judgement) -> Judgement:
    """The first verdict, with that on the system as the agent left it beside it. The lower one counts.

    The author's own solution forges nothing: if only its own system will do for it, that is the task's business.
    """
    reward = _reward(verification, second)
    run = first.run.model_copy(update={"appeal": _appeal(verification, second)})
    if reward <= _reward(verification, first):
        return replace(first, run=run)
    if verification.is_authors_own:
        believed = run.model_copy(update={"exit_code": second.run.exit_code, "trust": "as_left"})
        return replace(first, run=believed, provenance=second.provenance, raw=second.raw, verdict=second.verdict)
    return replace(first, run=run, disputed=reward)
