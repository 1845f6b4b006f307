"""The verifier's turn: shield it from what the agent left, run it, read its verdict, and say what that rests on."""

import hashlib
import logging
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from seatrial.errors import HostUnsupportedError, SandboxError
from seatrial.images.choice import ImageRequest
from seatrial.model.agent import AgentResult
from seatrial.model.artifacts import DETAILS_NAMES, RawArtifacts
from seatrial.model.evaluation import EvaluationResult
from seatrial.model.output import RewardPolicy
from seatrial.model.record import FileChanges, IsolationLevel, Provenance, VerifierRun
from seatrial.sandbox.api import ExecResult, Sandbox, SandboxBackend
from seatrial.sandbox.session import open_sandbox
from seatrial.sandbox.transfer import put_file, put_packed, put_tree
from seatrial.scoring.ingest import ingest
from seatrial.scoring.reward import read_verdict
from seatrial.tasks.allowed import task_variables
from seatrial.trial.parcels import packed_tests, packed_tree
from seatrial.trial.place import Place, agent_image, choose_network, choose_place, image_policy, verifier_image
from seatrial.trial.rounds import Round
from seatrial.trial.spec import TrialSpec
from seatrial.trial.work import Work
from seatrial.verify.fetch import KeptArtifact
from seatrial.verify.guard import restore, to_restore
from seatrial.verify.integrity import integrity_tags
from seatrial.verify.originals import Originals, open_originals
from seatrial.verify.run import VerifierPlan, fetch_files, run_tests
from seatrial.verify.stage import SOLUTION_DIR, find_tests, stage_tests

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Judgement:
    """What verification gave: how it ran, what it rests on, and the artifacts to score."""

    run: VerifierRun
    provenance: Provenance
    raw: RawArtifacts


@dataclass(frozen=True, slots=True)
class Precautions:
    """What was done so that the agent does not judge itself."""

    isolation: IsolationLevel
    restored: tuple[str, ...] = ()
    shielded: bool = False


@dataclass(frozen=True, slots=True)
class Court:
    """Where one round is judged."""

    spec: TrialSpec
    of: Round
    place: Place
    backend: SandboxBackend
    folder: Path


@dataclass(frozen=True, slots=True)
class Courtroom:
    """The sandbox in which is judged, and whether its image brought the tests along."""

    sandbox: Sandbox
    has_tests: bool = False


async def verify(court: Court, sandbox: Sandbox, agent_result: AgentResult, work: Work) -> Judgement:
    """Run the verifier of a round after its agent, as isolated as was asked for.

    One that says nothing while processes of the agent run is run again without them: they may have starved it.
    """
    image = court.place.sandbox.image
    async with open_originals(court.backend, image) as originals:
        taken = await _take_precautions(court, sandbox, work, originals)
    judgement = await _judge(court, sandbox, agent_result, work, taken)
    if judgement.provenance.reward_file is None and work.survivors and taken.isolation == "guarded":
        async with open_originals(court.backend, image) as originals:
            taken = await _end_and_restore(sandbox, originals, work)
        judgement = await _judge(court, sandbox, agent_result, work, taken)
    return judgement


async def _judge(
    court: Court, sandbox: Sandbox, agent_result: AgentResult, work: Work, taken: Precautions
) -> Judgement:
    async with _courtroom(court, sandbox, taken.isolation, work) as room:
        tests = packed_tests(court.spec, court.of)
        if not taken.shielded:
            await room.sandbox.renew_verifier()
        if room.has_tests:
            staged = await find_tests(room.sandbox, agent_result)
        else:
            staged = stage_tests(tests, agent_result)
            await _show_solution(court, room.sandbox)
        logs = court.folder / "verifier"
        shutil.rmtree(logs, ignore_errors=True)
        logs.mkdir(parents=True)
        ended = await run_tests(room.sandbox, staged, _plan(court), logs)
        files = await fetch_files(room.sandbox, staged, court.of.judged.verifier, logs / "files")
    raw = RawArtifacts(files, work.output, ended.exit_code, ended.timed_out)
    run = _run(court, ended, taken, work.survivors)
    return Judgement(run, _provenance(court, raw, tests.digest), raw)


async def _show_solution(court: Court, room: Sandbox) -> None:
    """Lay out the reference solution among the tests, where no process of the agent sees it."""
    solution = court.of.solution()
    if solution and court.spec.options.solution == "staged":
        await put_packed(room, SOLUTION_DIR, packed_tree(court.spec, solution), phase="verifier")


async def _take_precautions(court: Court, sandbox: Sandbox, work: Work, originals: Originals) -> Precautions:
    """End what must not run on, put back what must not be as it is, and shield the verifier from what may run on."""
    isolation = _isolation(court)
    if isolation == "exposed" and court.spec.options.isolation == "kill":
        await sandbox.kill_all()
    if isolation not in ("guarded", "kill"):
        return Precautions(isolation)
    if isolation == "guarded" and not await to_restore(work.found, originals):
        if not work.survivors and not work.found.truncated:
            return Precautions("guarded")
        frozen = await _freeze_system(sandbox)
        if frozen and not frozen.truncated and not await to_restore(frozen, originals):
            return Precautions("guarded", shielded=True)
    return await _end_and_restore(sandbox, originals, work)


async def _end_and_restore(sandbox: Sandbox, originals: Originals, work: Work) -> Precautions:
    """End the agent's processes, and put back what they or it did to the verifier's tools."""
    await sandbox.kill_all()
    restored = await _find_takeovers(sandbox, originals, work)
    if restored:
        await restore(sandbox, originals, restored)
    return Precautions("kill", restored)


async def _find_takeovers(sandbox: Sandbox, originals: Originals, work: Work) -> tuple[str, ...]:
    """What has to be put back, now that nobody is there any more to do it again."""
    found = await sandbox.changes() if work.survivors else work.found
    restored = {*await to_restore(found, originals)}
    # Where too much has changed to list all of it, a frozen system still shows all that matters.
    if found.truncated and (frozen := await _freeze_system(sandbox)):
        restored.update(await to_restore(frozen, originals))
    return tuple(sorted(restored))


async def _freeze_system(sandbox: Sandbox) -> FileChanges | None:
    """Take the system away from the agent's processes; None if that cannot be done.

    What counts is what is found in the frozen system: that is what the verifier will see, and nobody can change it.
    """
    try:
        return await sandbox.renew_verifier("frozen")
    except (SandboxError, HostUnsupportedError) as error:
        _log.warning("the agent's changes to the system cannot be kept from changing: %s", error)
        return None


def _isolation(court: Court) -> IsolationLevel:
    separate = "separate" in (court.of.verifier.environment_mode, court.of.task.config.verifier.environment_mode)
    if separate or court.spec.options.isolation == "separate":
        return "separate"
    capabilities = court.place.capabilities
    asked = court.spec.options.isolation
    if capabilities.guarded_phases:
        return "guarded" if asked == "keep" else asked
    # Where the agent's processes cannot be kept from the verifier, they must not run on unless somebody says so.
    return "kill" if capabilities.isolation == "namespaces" and asked != "keep" else "exposed"


@asynccontextmanager
async def _courtroom(court: Court, sandbox: Sandbox, isolation: str, work: Work) -> AsyncIterator[Courtroom]:
    """The sandbox to verify in: the agent's own, or a fresh one into which only artifacts cross."""
    if isolation != "separate":
        yield Courtroom(sandbox)
        return
    own = verifier_image(court.of)
    place = await _separate_place(court, own or agent_image(court.of.task))
    async with open_sandbox(court.backend, place.sandbox) as fresh:
        for artifact in work.kept:
            if artifact.status == "ok":
                await _hand_over(fresh, artifact, court.folder / "artifacts" / artifact.destination)
        yield Courtroom(fresh, has_tests=own is not None and place.image_from in ("fetch", "build"))


async def _separate_place(court: Court, request: ImageRequest) -> Place:
    of, options = court.of, court.spec.options
    environment = of.verifier.environment or of.task.config.environment
    image = await court.spec.images.resolve(request, image_policy(options))
    return choose_place(of.task, environment, image, options, court.place.capabilities)


async def _hand_over(room: Sandbox, artifact: KeptArtifact, kept: Path) -> None:
    if artifact.type == "directory":
        await put_tree(room, artifact.source, kept)
    else:
        mode = kept.stat().st_mode & 0o777  # noqa: ASYNC240 - one file
        await put_file(room, artifact.source, kept.read_bytes(), mode=mode)  # noqa: ASYNC240


def _plan(court: Court) -> VerifierPlan:
    phase, config, options = court.of.verifier, court.of.task.config, court.spec.options
    policy = phase.network or config.verifier.network or (phase.environment or config.environment).network
    return VerifierPlan(
        workdir=phase.workdir or config.verifier.workdir or _own_workdir(court) or court.place.workdir,
        timeout_sec=phase.timeout_sec * options.verifier_timeout_multiplier,
        env=task_variables(phase.env, options.allow_env),
        user=court.of.verifier_user,
        network=choose_network(policy, options, court.place.capabilities),
    )


def _own_workdir(court: Court) -> str | None:
    environment = court.of.verifier.environment
    return environment.workdir if environment else None


def _run(court: Court, ended: ExecResult, taken: Precautions, survivors: tuple[str, ...]) -> VerifierRun:
    base = f"{court.of.folder}/verifier".lstrip("/")
    return VerifierRun(
        exit_code=ended.exit_code,
        timed_out=ended.timed_out,
        duration_sec=ended.duration_sec,
        isolation=taken.isolation,
        survivors=survivors,
        restored=taken.restored,
        shielded=taken.shielded,
        truncated=ended.truncated,
        stdout_path=f"{base}/stdout.txt",
        stderr_path=f"{base}/stderr.txt",
    )


def _provenance(court: Court, raw: RawArtifacts, digest: str) -> Provenance:
    reward_file = read_verdict(raw, court.of.judged.verifier, court.spec.options.reward_policy).file
    said = raw.file(reward_file).data if reward_file else None
    return Provenance(
        tests_digest=digest,
        reward_file=reward_file,
        reward_sha256=hashlib.sha256(said).hexdigest() if said is not None else None,
        details_file=next((name for name in DETAILS_NAMES if raw.file(name).status == "ok"), None),
    )


def score(of: Round, judgement: Judgement, changes: FileChanges, policy: RewardPolicy) -> EvaluationResult:
    """The evaluation of a round, with a tag for every trace the agent left on its judge's tools."""
    evaluation = ingest(of.judged, judgement.raw, policy)
    tags = integrity_tags(changes, judgement.run.survivors, judgement.run.restored)
    if not tags:
        return evaluation
    return evaluation.model_copy(update={"error_taxonomy": [*(evaluation.error_taxonomy or ()), *tags]})
