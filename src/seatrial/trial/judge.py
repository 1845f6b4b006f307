"""The verifier's turn: shield it from what the agent left, run it, read its verdict, and ask again where need be.

`judge` runs a verifier once more without what may have silenced or steered it; the lower reward counts. `score` makes
the evaluation of a judgement. What the shield does is in `shield.py`, where the verifier runs in `verifier.py`, whether
a verdict stands in `verdict.py`.
"""

import hashlib
import shutil
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from seatrial.errors import HostBusyError, ListenerError, VerifierModelError
from seatrial.model.evaluation import EvaluationResult
from seatrial.model.job import TrialOptions
from seatrial.model.outcome import has_passed
from seatrial.model.output import DETAILS_NAMES, RawArtifacts, RawFile
from seatrial.model.record import Appeal, FileChanges, IsolationLevel, Provenance, VerifierRun
from seatrial.sandbox.api import ExecResult, Sandbox, open_sandbox
from seatrial.sandbox.host.watch import Company
from seatrial.sandbox.opens import Watched
from seatrial.scoring.ingest import ingest
from seatrial.scoring.repeats import RepeatedVerdicts, with_repeats
from seatrial.scoring.reward import Verdict, read_verdict
from seatrial.trial.reference import TaskReference, expected_of, reference_of
from seatrial.trial.rounds import Round
from seatrial.trial.shield import Shield, lower_shield, open_copy, planted_meanwhile, raise_shield
from seatrial.trial.snapshot import lay_out_snapshot
from seatrial.trial.spec import Machinery
from seatrial.trial.verification import Verification
from seatrial.trial.verifier import (
    TEMPORARY,
    choose_isolation,
    find_rubric,
    lay_out_files,
    make_way,
    must_be_alone,
    open_verifier_sandbox,
    plan_verifier,
)
from seatrial.trial.verifier_session import open_session
from seatrial.trial.work import merge_changes
from seatrial.verify.artifacts import look_again
from seatrial.verify.curate import (
    NOTHING,
    NOTHING_EXPECTED,
    Curated,
    Expected,
    dispute_tag,
    gather_facts,
    system_tags,
    write_evidence,
)
from seatrial.verify.facts import RUNNER, Reason
from seatrial.verify.integrity import integrity_tags, led_astray, link_tags, output_tags, service_tags
from seatrial.verify.originals import lay_out, open_originals
from seatrial.verify.reads import Tools, all_names, folders_above, may_be_code, steering, unexpected, used_files
from seatrial.verify.stage import fetch_files, run_tests

# A judgement.

NAMED = 200  # files that a record names itself; system.json beside the verifier's files has all


@dataclass(frozen=True, slots=True)
class Judgement:
    """What verification gave: how it ran, what it rests on, the artifacts to score, and the verdict in them."""

    run: VerifierRun
    provenance: Provenance
    raw: RawArtifacts
    verdict: Verdict
    curated: Curated = NOTHING
    planted: tuple[str, ...] = ()
    disputed: float | None = None
    """The higher reward that the same verifier gave on the system as the agent left it, if it did."""
    repeated: RepeatedVerdicts | None = None
    """All verdicts where it was asked more than once."""
    used: Mapping[str, frozenset[str]] | None = None
    """The agent's files that were opened meanwhile, with all their names; None if not watched."""
    astray: tuple[str, ...] = ()
    """The agent's links to the verifier's files."""


# The verifier, run as often as its verdict takes.

_TRIES = 2


async def judge(
    verification: Verification, sandbox: Sandbox, machinery: Machinery, archive: Path | None = None
) -> Judgement:
    """Run the verifier of a round after its agent, as isolated as was asked for; `archive` has the end state, if kept.

    One that is not content where something was put back is asked again where what the task's own solution changes is
    as the agent left it, and if it still is not, where everything is. One that is content and has read files of the
    agent that may steer it is asked again without these.

    One that ran out of time because others used the processors is asked again while no other verifier runs. Raises
    HostBusyError when it had no time then either, or when the services that it may need have ended with it.
    """
    grading = _Grading(verification, sandbox, sandbox, machinery, archive=archive)
    if (rubric := find_rubric(verification.round)) is not None:
        return await _judge_by_rubric(grading, rubric)
    try:
        return await _judge(grading)
    except HostBusyError:
        if verification.work.survivors:
            raise
    return await _judge(replace(grading, company="none"))


async def _judge_by_rubric(grading: "_Grading", rubric: Path) -> Judgement:
    """A verdict without a script: nothing is run that an agent could steer, but nothing of it may run on either."""
    from seatrial.trial.rubric_verifier import judge_by_rubric  # noqa: PLC0415 - much, which most tasks do without

    verification, folder = grading.verification, _new_folder(grading.verification, "verifier")
    isolation: IsolationLevel = "separate" if choose_isolation(verification) == "separate" else "kill"
    if isolation == "kill":
        await grading.sandbox.kill_all()
    async with open_verifier_sandbox(verification, grading.sandbox, grading.machinery, isolation) as opened:
        found = await judge_by_rubric(verification, opened.sandbox, grading.machinery.verifier_model, rubric, folder)
    outcome = VerifierOutcome(found.ended, found.files, found.tests_digest, None, grading.company, (), found.models)
    judgement = read_judgement(verification, outcome, Shield(isolation), "verifier")
    return replace(judgement, run=judgement.run.model_copy(update={"reads": None}))  # no program was there to watch


def _new_folder(verification: Verification, logs: str) -> Path:
    folder = verification.folder / logs
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        shutil.rmtree(folder)
        folder.mkdir()
    return folder


@dataclass(frozen=True, slots=True)
class _Grading:
    """What is graded, by what, and beside which other verifiers.

    The verifier works in `room`: the `sandbox` that the agent left, or a copy of it beside services that run on.
    """

    verification: Verification
    sandbox: Sandbox
    room: Sandbox
    machinery: Machinery
    company: Company = "others"
    archive: Path | None = None

    async def shielded(
        self,
        isolation: IsolationLevel,
        expected: Expected = NOTHING_EXPECTED,
        withheld: Mapping[str, Reason] = MappingProxyType({}),
    ) -> Shield:
        """The room made ready for the verifier; nothing of the agent runs in a copy, whatever runs on beside it."""
        copied = self.room is not self.sandbox
        within: IsolationLevel = "kill" if copied else isolation
        shield = await raise_shield(self.verification, self.room, self.machinery, within, expected, withheld)
        return replace(shield, isolation="guarded", copied=True) if copied else shield

    def reward(self, judgement: Judgement) -> float:
        return evaluate(self.verification.round, judgement, self.verification.options).reward

    def may_be_wronged(self, judgement: Judgement) -> bool:
        """Whether a verdict below a pass rests on a system in which something was put back."""
        return judgement.curated.matters and not has_passed(
            self.reward(judgement), self.verification.options.pass_threshold
        )


async def _judge(grading: _Grading) -> Judgement:
    verification, sandbox = grading.verification, grading.sandbox
    isolation = await _isolate(grading)
    async with open_copy(verification, sandbox, isolation) as copy:
        if copy is not None:
            grading = replace(grading, room=copy)
        if isolation != "separate":
            await make_way(verification, grading.room)
        grading, shield, judgement = await _run_shielded(grading, await grading.shielded(isolation))
        if grading.may_be_wronged(judgement) and (wider := await _widen(grading, shield)):
            shield = wider
            if wider.curated.expected:
                grading, shield, judgement = await _run_shielded(grading, wider)
        shield, judgement = await _without_steering(grading, shield, judgement)
        if judgement.disputed is None and grading.may_be_wronged(judgement):
            lowered = await lower_shield(grading.room, verification.work, shield)
            if lowered is not None:
                # The agent's files are at work there, and may bring that about: then the first verdict stands.
                with suppress(VerifierModelError):
                    return _weigh(grading, judgement, await _run_once(grading, lowered, "verifier/as-left"))
    return judgement


async def _isolate(grading: _Grading) -> IsolationLevel:
    verification = grading.verification
    isolation = choose_isolation(verification)
    if isolation == "guarded" and must_be_alone(verification, by_hook=grading.machinery.staging is not None):
        isolation = "kill"
    if isolation == "exposed" and verification.options.isolation == "kill":
        await grading.sandbox.kill_all()
    return isolation


async def _widen(grading: _Grading, shield: Shield) -> Shield | None:
    """A shield that leaves alone what the task's own solution changes, too; None where that is nothing."""
    verification = grading.verification
    if verification.is_authors_own or shield.curated.only_image or not (shield.owned or shield.saved):
        return None
    reference = await _reference(grading)
    if reference is None or not reference.concerns(shield.curated):
        return None
    if shield.saved is not None and not await lay_out(grading.room, shield.saved):
        return None
    expected = await expected_of(reference, grading.room, verification, shield)
    return await grading.shielded(shield.isolation, expected)


async def _run_shielded(grading: _Grading, shield: Shield) -> tuple[_Grading, Shield, Judgement]:
    """Run the verifier, and once more without the agent's processes if it says nothing or they planted something."""
    verification = grading.verification
    try:
        judgement = await _run_once(grading, shield)
    except ListenerError:
        if shield.isolation != "guarded" or not verification.work.survivors:
            raise
        # They can connect to where the verifier asks its model, and must not keep it from that.
        grading = replace(grading, room=grading.sandbox)
        shield = await grading.shielded("kill", shield.expected)
        return grading, shield, await _run_once(grading, shield)
    if shield.isolation == "guarded" and verification.work.survivors:
        planted = await planted_meanwhile(verification, grading.sandbox, grading.machinery, shield)
        if planted.to_hide or judgement.verdict.silent:
            grading = replace(grading, room=grading.sandbox)
            shield = await grading.shielded("kill", shield.expected)
            judgement = await _run_once(grading, shield)
        judgement = replace(judgement, planted=planted.paths)
    return grading, shield, judgement


async def _run_once(grading: _Grading, shield: Shield, logs: str = "verifier") -> Judgement:
    verification, machinery = grading.verification, grading.machinery
    folder = _new_folder(verification, logs)
    async with open_verifier_sandbox(
        verification, grading.room, machinery, shield.isolation, shield.curated.hidden
    ) as opened:
        if shield.isolation not in ("guarded", "kill"):
            await opened.sandbox.renew_verifier()
        staged, digest = await lay_out_files(verification, opened, machinery.staging)
        async with open_session(verification, opened.sandbox, machinery.verifier_model, folder) as session:
            plan = plan_verifier(verification, session.variables, _watched(verification, shield))
            ended = await session.run(
                lambda begun: run_tests(opened.sandbox, staged, plan, folder, grading.company, begun), plan.timeout_sec
            )
        files = await fetch_files(opened.sandbox, staged, verification.round.judged.verifier, folder / "files")
        work = verification.work
        output = await look_again(opened.sandbox, work.output, work.found, alone=not work.survivors)
        if output is not work.output:
            verification = replace(verification, work=replace(work, output=output))
    agents = await _with_late_files(grading, shield, ended)
    outcome = VerifierOutcome(ended, files, digest, plan.timeout_sec, grading.company, agents, session.asked)
    judgement = read_judgement(verification, outcome, shield, logs)
    if judgement.run.starved:
        raise HostBusyError(_starved(judgement.run))
    return judgement


def _starved(run: VerifierRun) -> str:
    had = max(run.duration_sec - (run.cpu_wait_sec or 0.0), 0.0)
    return (
        f"this machine had no processor for the verifier, which has {run.timeout_sec:g} s and could run in {had:.1f} s "
        f"of {run.duration_sec:.1f} s; run fewer trials at once (-n), or end what else keeps this machine busy"
    )


def _is_beside_agent(verification: Verification, shield: Shield) -> bool:
    return bool(verification.work.survivors) and shield.isolation in ("guarded", "exposed") and not shield.copied


def _watched(verification: Verification, shield: Shield) -> Watched:
    """The agent's files; beside its processes, and for what Python compiles, the folders that they are in as well."""
    files = visible_files(verification, shield)
    folders = {f"{path.rpartition('/')[0]}/__pycache__" for path in files if path.endswith(".py")}
    if _is_beside_agent(verification, shield):
        folders |= {path.rpartition("/")[0] or "/" for path in files} | verification.module_folders | {TEMPORARY}
    return Watched(files, tuple(sorted(folders)))


async def _with_late_files(grading: _Grading, shield: Shield, ended: ExecResult) -> tuple[str, ...]:
    """The agent's files, and what else was opened beside its processes that the image does not have."""
    verification = grading.verification
    files = visible_files(verification, shield)
    if ended.opened is None or not _is_beside_agent(verification, shield):
        return files
    late = ended.opened.files.difference(files)
    async with open_originals(grading.machinery.backend, verification.place.sandbox.image) as originals:
        known = await originals.kinds(sorted(late))
    return (*files, *(late - known.keys()))


async def _without_steering(grading: _Grading, shield: Shield, first: Judgement) -> tuple[Shield, Judgement]:
    """The first verdict, or a lower one by a verifier that did not meet files of the agent which may have steered it.

    Whether they did shows when they are not there. A tool that does not find one file may find the next: so the last
    try is without any such file. The author's own solution forges nothing.
    """
    verification = grading.verification
    latest, withheld = first, dict[str, Reason]()
    if verification.trusts_agent or verification.is_authors_own or shield.isolation == "exposed":
        return shield, first
    for attempt in range(_TRIES if grading.reward(first) else 0):
        found = await _steering(grading, latest.used or {})
        if found and attempt:
            others = {path: frozenset([path]) for path in visible_files(verification, shield)}
            found |= await _steering(grading, others)
        if not found:
            break
        withheld |= found
        with _aside(verification.folder / "verifier") as keep_second:
            shield, latest = await _run_without(grading, shield, withheld)
            if grading.reward(latest) < grading.reward(first):
                keep_second()
                return shield, _disputed(grading, first, latest, withheld)
    if latest is first:
        return shield, first
    appeal = _appeal(grading, latest).model_copy(update={"on": "withheld"})
    return shield, replace(first, run=first.run.model_copy(update={"appeal": appeal}))


async def _run_without(grading: _Grading, shield: Shield, withheld: Mapping[str, Reason]) -> tuple[Shield, Judgement]:
    """Run the verifier without some files, on what the agent left: programs of it that a verifier ran may change it.

    Where that was not kept, the sandbox is asked again as it is, and files that were taken away in place are put back.
    """
    verification, archive = grading.verification, grading.archive
    alone = not verification.work.survivors and shield.isolation != "separate"
    if archive is not None and alone and archive.is_file():
        async with open_sandbox(grading.machinery.backend, verification.place.sandbox) as fresh:
            await lay_out_snapshot(fresh, archive)
            there = replace(grading, sandbox=fresh, room=fresh)
            again = await there.shielded(shield.isolation, shield.expected, withheld)
            return shield, await _run_once(there, again)
    if shield.saved is not None:
        await lay_out(grading.room, shield.saved)
    shield = await grading.shielded(shield.isolation, shield.expected, withheld)
    judgement = await _run_once(grading, shield)
    if shield.saved is not None:
        await lower_shield(grading.room, verification.work, shield)
    return shield, judgement


async def _steering(grading: _Grading, used: Mapping[str, frozenset[str]]) -> dict[str, Reason]:
    """Those of some files that may have steered the verifier. Where the names leave it open, the image is looked at."""
    verification = grading.verification
    alone, expected = not verification.work.survivors, verification.expectations
    names = {name for each in used.values() for name in each}
    tools = await _tools_of_image(verification, grading.machinery, names) if may_be_code(names) else Tools()
    found = steering(used, expected, tools, alone=alone)
    reference = await _reference(grading) if found else None
    if reference is None:
        return found
    changes = reference.changes
    usual = expected.files.union(reference.reads, changes.added, changes.modified)
    return steering(used, replace(expected, files=usual), tools, alone=alone)


async def _reference(grading: _Grading) -> TaskReference | None:
    async def read(solved: Verification, fresh: Sandbox) -> frozenset[str]:
        there = _Grading(solved, fresh, fresh, grading.machinery, grading.company)
        return frozenset((await _run_once(there, await there.shielded(choose_isolation(solved)))).used or ())

    return await reference_of(grading.verification, grading.machinery, read)


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


def _disputed(grading: _Grading, first: Judgement, second: Judgement, withheld: Mapping[str, Reason]) -> Judgement:
    """The second verdict, which counts, with the first one beside it."""
    appeal = _appeal(grading, first)
    used = sorted({*first.run.agent_files_used, *second.run.agent_files_used, *withheld})
    counts = {"agent_files_used": tuple(used[:NAMED]), "agent_files_used_count": len(used)}
    run = second.run.model_copy(update={"appeal": appeal, **counts})
    return replace(second, run=run, planted=first.planted, disputed=grading.reward(first))


def _appeal(grading: _Grading, judgement: Judgement) -> Appeal:
    run = judgement.run
    reward = None if judgement.verdict.silent else grading.reward(judgement)
    return Appeal(reward=reward, exit_code=run.exit_code, duration_sec=run.duration_sec)


def _weigh(grading: _Grading, first: Judgement, second: Judgement) -> Judgement:
    """The first verdict, with that on the system as the agent left it beside it. The lower one counts.

    The author's own solution forges nothing: if only its own system will do for it, that is the task's business.
    """
    reward = grading.reward(second)
    run = first.run.model_copy(update={"appeal": _appeal(grading, second)})
    if reward <= grading.reward(first):
        return replace(first, run=run)
    if grading.verification.is_authors_own:
        believed = run.model_copy(update={"exit_code": second.run.exit_code, "trust": "as_left"})
        return replace(first, run=believed, provenance=second.provenance, raw=second.raw, verdict=second.verdict)
    return replace(first, run=run, disputed=reward)


# What a run of the verifier says, and the evaluation it amounts to.


class VerifierOutcome(NamedTuple):
    """How a verifier ended, the files it wrote, the digest of the tests that it ran, and its time."""

    ended: ExecResult
    files: Mapping[str, RawFile]
    tests_digest: str
    timeout_sec: float | None
    company: Company
    """`none` where it was asked once more, and no other verifier ran beside it."""
    agents: Collection[str] = ()
    """The agent's files that it could meet."""
    models: Mapping[str, str] = field(default_factory=dict)
    """Those that it asked, by the names that it asked for."""


def read_judgement(verification: Verification, outcome: VerifierOutcome, shield: Shield, logs: str) -> Judgement:
    """What a verifier's run says, believing nothing. Evidence of what was kept from it goes beside its logs."""
    raw = RawArtifacts(outcome.files, verification.work.output, outcome.ended.exit_code, outcome.ended.timed_out)
    if shield.curated.anything or shield.curated.kept:
        write_evidence(verification.folder / logs / "system.json", shield.curated)
    round_, options = verification.round, verification.options
    verdict = read_verdict(raw, round_.judged.verifier, options.reward_policy, round_.verdict(options))
    opened = outcome.ended.opened
    used = None if opened is None else used_files(opened, frozenset(outcome.agents))
    listed = unexpected(used, verification.expectations) if used and all_names(used) - verification.asked_for else ()
    run = _describe_run(verification, outcome, shield, logs, listed)
    provenance = _provenance(verdict.file, raw, outcome.tests_digest)
    astray = led_astray(opened.links) if opened else ()
    return Judgement(run, provenance, raw, verdict, shield.curated, used=used, astray=astray)


def visible_files(verification: Verification, shield: Shield) -> tuple[str, ...]:
    """The files that the agent made or changed and the verifier meets so, without those of the system.

    Of these, the record names what was not put back by a tag.
    """
    if shield.isolation == "separate":
        return tuple(path for path in verification.work.handed_over() if path not in shield.curated.hidden)
    found = merge_changes([verification.earlier, verification.work.found])
    if not found.added and not found.modified:
        return ()
    hidden = tuple(f"{path}/" for path in shield.curated.hidden)
    gone = {*shield.curated.hidden, *shield.curated.put_back}
    changed = {*found.added, *found.modified}
    shared = changed.difference(verification.division.of_system(changed), gone)
    return tuple(sorted(path for path in shared if not path.startswith(hidden)))


def _describe_run(
    verification: Verification, outcome: VerifierOutcome, shield: Shield, logs: str, used: Sequence[str]
) -> VerifierRun:
    ended, opened = outcome.ended, outcome.ended.opened
    base, curated = Path(verification.round.folder, logs).as_posix(), shield.curated
    return VerifierRun(
        exit_code=ended.exit_code,
        timed_out=ended.timed_out,
        duration_sec=ended.duration_sec,
        isolation=shield.isolation,
        survivors=verification.work.survivors,
        services=verification.work.services,
        restored=tuple(sorted(curated.put_back)[:NAMED]),
        restored_count=len(curated.put_back),
        hidden=tuple(sorted(curated.hidden)[:NAMED]),
        hidden_count=len(curated.hidden),
        shielded=shield.owned or shield.copied,
        trust="as_left" if verification.trusts_agent else "reference" if curated.expected else "image",
        reference_units=curated.others[:NAMED],
        truncated=ended.truncated,
        layout=verification.options.layout,
        models=dict(outcome.models),
        timeout_sec=outcome.timeout_sec,
        cpu_sec=ended.cpu_sec,
        cpu_wait_sec=ended.cpu_wait_sec,
        retried_alone=outcome.company == "none",
        reads="unwatched" if opened is None else "watched" if opened.complete else "partly",
        agent_files_used=tuple(used[:NAMED]),
        agent_files_used_count=len(used),
        stdout_path=f"{base}/stdout.txt",
        stderr_path=f"{base}/stderr.txt",
    )


def _provenance(reward_file: str | None, raw: RawArtifacts, digest: str) -> Provenance:
    said = raw.file(reward_file).data if reward_file else None
    return Provenance(
        tests_digest=digest,
        reward_file=reward_file,
        reward_sha256=hashlib.sha256(said).hexdigest() if said is not None else None,
        details_file=next((name for name in DETAILS_NAMES if raw.file(name).status == "ok"), None),
    )


def evaluate(round_: Round, judgement: Judgement, options: TrialOptions) -> EvaluationResult:
    """The evaluation that a verdict alone amounts to, whatever else was found."""
    return ingest(round_.judged, judgement.raw, options.reward_policy, round_.verdict(options))


def score(round_: Round, judgement: Judgement, changes: FileChanges, options: TrialOptions) -> EvaluationResult:
    """The evaluation of a round, with a tag for every trace the agent left on its judge's tools."""
    evaluation = evaluate(round_, judgement, options)
    if judgement.repeated:
        evaluation = with_repeats(evaluation, judgement.repeated)
    tags = [
        *integrity_tags(changes, judgement.run.survivors),
        *(output_tags(judgement.raw.output) or link_tags(judgement.astray)),
        *system_tags(judgement.curated, judgement.run, judgement.planted),
    ]
    if not has_passed(evaluation.reward, options.pass_threshold):
        tags += service_tags(judgement.run)
    if judgement.disputed is not None:
        tags.append(dispute_tag(evaluation.reward, judgement.disputed))
    if not tags:
        return evaluation
    return evaluation.model_copy(update={"error_taxonomy": [*(evaluation.error_taxonomy or ()), *tags]})
