"""The verifier's turn: shield it from what the agent left, run it, read its verdict, and say what that rests on."""

import hashlib
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from seatrial.errors import HostExhaustedError
from seatrial.images.choice import ImageRequest
from seatrial.model.agent import AgentResult
from seatrial.model.artifacts import DETAILS_NAMES, RawArtifacts
from seatrial.model.evaluation import EvaluationResult
from seatrial.model.job import TrialOptions
from seatrial.model.record import Appeal, FileChanges, IsolationLevel, Provenance, VerifierRun
from seatrial.sandbox.api import ExecResult, Sandbox
from seatrial.sandbox.ca_file import VERIFIER_CA, read_ca
from seatrial.sandbox.session import open_sandbox
from seatrial.sandbox.transfer import put_file, put_packed, put_tree
from seatrial.scoring.ingest import ingest
from seatrial.scoring.reward import Verdict, read_verdict
from seatrial.tasks.allowed import task_variables
from seatrial.trial.archives import packed_tests, packed_tree
from seatrial.trial.place import Place, agent_image, choose_network, choose_place, image_policy, trusted, verifier_image
from seatrial.trial.rounds import Round
from seatrial.trial.shield import Shield, lower_shield, planted_meanwhile, raise_shield
from seatrial.trial.verification import Verification
from seatrial.trial.work import Work
from seatrial.verify.fetch import NO_ROOM, KeptArtifact
from seatrial.verify.integrity import integrity_tags
from seatrial.verify.run import VerifierPlan, fetch_files, run_tests
from seatrial.verify.stage import SOLUTION_DIR, find_tests, stage_tests
from seatrial.verify.system.curate import NOTHING, Curated
from seatrial.verify.system.evidence import dispute_tag, system_tags, write_evidence

_NAMED = 200  # files that a record names itself; system.json beside the verifier's files has all


@dataclass(frozen=True, slots=True)
class Judgement:
    """What verification gave: how it ran, what it rests on, the artifacts to score, and the verdict in them.

    `disputed` is the higher reward that the same verifier gave on the system as the agent left it, if it did.
    """

    run: VerifierRun
    provenance: Provenance
    raw: RawArtifacts
    verdict: Verdict
    curated: Curated = NOTHING
    planted: tuple[str, ...] = ()
    disputed: float | None = None


@dataclass(frozen=True, slots=True)
class VerifierSandbox:
    """The sandbox in which is judged, and whether its image brought the tests along."""

    sandbox: Sandbox
    has_tests: bool = False


async def verify(verification: Verification, sandbox: Sandbox, agent_result: AgentResult, work: Work) -> Judgement:
    """Run the verifier of a round after its agent, as isolated as was asked for.

    One that says nothing while processes of the agent run, or beside which they planted something, is run again
    without them. One that is not content where something was put back is asked once more without that.
    """
    isolation = _isolation(verification)
    if isolation == "exposed" and verification.spec.options.isolation == "kill":
        await sandbox.kill_all()
    shield = await raise_shield(verification, sandbox, work, isolation)
    judgement = await _judge(verification, sandbox, agent_result, work, shield)
    if shield.isolation == "guarded" and work.survivors:
        planted = await planted_meanwhile(verification, sandbox, work, shield)
        if planted.to_hide or judgement.verdict.silent:
            shield = await raise_shield(verification, sandbox, work, "kill")
            judgement = await _judge(verification, sandbox, agent_result, work, shield)
        judgement = replace(judgement, planted=planted.paths)
    if shield.curated.matters and _reward(verification, judgement) < verification.spec.options.pass_threshold:
        return await _ask_again(verification, sandbox, agent_result, work, shield, judgement)
    return judgement


async def _judge(
    verification: Verification,
    sandbox: Sandbox,
    agent_result: AgentResult,
    work: Work,
    shield: Shield,
    logs: str = "verifier",
) -> Judgement:
    folder = verification.folder / logs
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    async with _verifier_sandbox(verification, sandbox, shield.isolation, work) as room:
        tests = packed_tests(verification.spec, verification.round)
        if shield.isolation not in ("guarded", "kill"):
            await room.sandbox.renew_verifier()
        if room.has_tests:
            staged = await find_tests(room.sandbox, agent_result)
        else:
            staged = stage_tests(tests, agent_result)
            await _show_solution(verification, room.sandbox)
        if ca_file := verification.spec.options.ca_file:
            await put_file(room.sandbox, VERIFIER_CA, read_ca(ca_file), phase=staged.phase)
        ended = await run_tests(room.sandbox, staged, _plan(verification), folder)
        files = await fetch_files(room.sandbox, staged, verification.round.judged.verifier, folder / "files")
    raw = RawArtifacts(files, work.output, ended.exit_code, ended.timed_out)
    run = _run(verification, ended, shield, work.survivors, logs)
    if shield.curated.anything or shield.curated.kept:
        write_evidence(folder / "system.json", shield.curated)
    verdict = _verdict(verification, raw)
    return Judgement(run, _provenance(verdict.file, raw, tests.digest), raw, verdict, shield.curated)


async def _ask_again(
    verification: Verification,
    sandbox: Sandbox,
    agent_result: AgentResult,
    work: Work,
    shield: Shield,
    first: Judgement,
) -> Judgement:
    """The first verdict, with that on the system as the agent left it beside it. The lower one counts.

    The author's own solution forges nothing: if only its own system will do for it, that is the task's business.
    """
    lowered = await lower_shield(sandbox, work, shield)
    if lowered is None:
        return first
    second = await _judge(verification, sandbox, agent_result, work, lowered, "verifier/as-left")
    reward = _reward(verification, second)
    appeal = Appeal(
        reward=None if second.verdict.silent else reward,
        exit_code=second.run.exit_code,
        duration_sec=second.run.duration_sec,
    )
    run = first.run.model_copy(update={"appeal": appeal})
    if reward <= _reward(verification, first):
        return replace(first, run=run)
    if verification.is_authors_own:
        believed = run.model_copy(update={"exit_code": second.run.exit_code, "trust": "as_left"})
        return replace(first, run=believed, provenance=second.provenance, raw=second.raw, verdict=second.verdict)
    return replace(first, run=run, disputed=reward)


def _reward(verification: Verification, judgement: Judgement) -> float:
    options = verification.spec.options
    return ingest(
        verification.round.judged, judgement.raw, options.reward_policy, verification.round.verdict(options)
    ).reward


async def _show_solution(verification: Verification, room: Sandbox) -> None:
    """Lay out the reference solution among the tests, where no process of the agent sees it."""
    solution = verification.round.solution()
    if solution and verification.spec.options.solution == "staged":
        await put_packed(room, SOLUTION_DIR, packed_tree(verification.spec, solution), phase="verifier")


def _isolation(verification: Verification) -> IsolationLevel:
    separate = "separate" in (
        verification.round.verifier.environment_mode,
        verification.round.task.config.verifier.environment_mode,
    )
    if separate or verification.spec.options.isolation == "separate":
        return "separate"
    capabilities = verification.place.capabilities
    asked = verification.spec.options.isolation
    if capabilities.guarded_phases:
        return "guarded" if asked == "keep" else asked
    # Where the agent's processes cannot be kept from the verifier, they must not run on unless somebody says so.
    return "kill" if capabilities.isolation == "namespaces" and asked != "keep" else "exposed"


@asynccontextmanager
async def _verifier_sandbox(
    verification: Verification, sandbox: Sandbox, isolation: str, work: Work
) -> AsyncIterator[VerifierSandbox]:
    """The sandbox to verify in: the agent's own, or a fresh one into which only artifacts cross."""
    if isolation != "separate":
        yield VerifierSandbox(sandbox)
        return
    own = verifier_image(verification.round)
    place = await _separate_place(verification, own or agent_image(verification.round.task))
    for artifact in work.kept:
        if artifact.reason and artifact.reason.startswith(NO_ROOM):
            raise HostExhaustedError(f"{artifact.source} cannot be handed to the verifier: {artifact.reason}")
    async with open_sandbox(verification.machinery.backend, place.sandbox) as fresh:
        for artifact in work.kept:
            if artifact.status == "ok":
                await _hand_over(fresh, artifact, verification.folder / "artifacts" / artifact.destination)
        yield VerifierSandbox(fresh, has_tests=own is not None and place.image_from in ("fetch", "build"))


async def _separate_place(verification: Verification, request: ImageRequest) -> Place:
    round_, options = verification.round, verification.spec.options
    environment = round_.verifier.environment or round_.task.config.environment
    image = await verification.machinery.images.resolve(request, image_policy(options))
    return choose_place(round_.task, environment, image, options, verification.place.capabilities)


async def _hand_over(room: Sandbox, artifact: KeptArtifact, kept: Path) -> None:
    if artifact.type == "directory":
        await put_tree(room, artifact.source, kept)
    else:
        mode = kept.stat().st_mode & 0o777  # noqa: ASYNC240 - one file
        await put_file(room, artifact.source, kept.read_bytes(), mode=mode)  # noqa: ASYNC240


def _plan(verification: Verification) -> VerifierPlan:
    phase, config, options = verification.round.verifier, verification.round.task.config, verification.spec.options
    policy = phase.network or config.verifier.network or (phase.environment or config.environment).network
    return VerifierPlan(
        workdir=phase.workdir or config.verifier.workdir or _own_workdir(verification) or verification.place.workdir,
        timeout_sec=phase.timeout_sec * options.verifier_timeout_multiplier,
        env={**trusted(options, VERIFIER_CA), **task_variables(phase.env, options.allow_env)},
        user=verification.round.verifier_user,
        network=choose_network(policy, options, verification.place.capabilities),
    )


def _own_workdir(verification: Verification) -> str | None:
    environment = verification.round.verifier.environment
    return environment.workdir if environment else None


def _run(
    verification: Verification, ended: ExecResult, shield: Shield, survivors: tuple[str, ...], logs: str
) -> VerifierRun:
    base, curated = f"{verification.round.folder}/{logs}".lstrip("/"), shield.curated
    return VerifierRun(
        exit_code=ended.exit_code,
        timed_out=ended.timed_out,
        duration_sec=ended.duration_sec,
        isolation=shield.isolation,
        survivors=survivors,
        restored=tuple(sorted(curated.put_back)[:_NAMED]),
        restored_count=len(curated.put_back),
        hidden=tuple(sorted(curated.hidden)[:_NAMED]),
        hidden_count=len(curated.hidden),
        shielded=shield.owned,
        trust="as_left" if verification.trusts_agent else "image",
        truncated=ended.truncated,
        stdout_path=f"{base}/stdout.txt",
        stderr_path=f"{base}/stderr.txt",
    )


def _verdict(verification: Verification, raw: RawArtifacts) -> Verdict:
    options = verification.spec.options
    return read_verdict(
        raw, verification.round.judged.verifier, options.reward_policy, verification.round.verdict(options)
    )


def _provenance(reward_file: str | None, raw: RawArtifacts, digest: str) -> Provenance:
    said = raw.file(reward_file).data if reward_file else None
    return Provenance(
        tests_digest=digest,
        reward_file=reward_file,
        reward_sha256=hashlib.sha256(said).hexdigest() if said is not None else None,
        details_file=next((name for name in DETAILS_NAMES if raw.file(name).status == "ok"), None),
    )


def score(round_: Round, judgement: Judgement, changes: FileChanges, options: TrialOptions) -> EvaluationResult:
    """The evaluation of a round, with a tag for every trace the agent left on its judge's tools."""
    evaluation = ingest(round_.judged, judgement.raw, options.reward_policy, round_.verdict(options))
    tags = [
        *integrity_tags(changes, judgement.run.survivors),
        *system_tags(judgement.curated, judgement.run, judgement.planted),
    ]
    if judgement.disputed is not None:
        tags.append(dispute_tag(evaluation.reward, judgement.disputed))
    if not tags:
        return evaluation
    return evaluation.model_copy(update={"error_taxonomy": [*(evaluation.error_taxonomy or ()), *tags]})
