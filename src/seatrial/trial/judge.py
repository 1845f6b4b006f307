"""The verifier's turn: shield it from what the agent left, run it, read its verdict, and ask again where need be."""

import shutil
from dataclasses import dataclass, replace
from functools import partial

from seatrial.errors import HostBusyError
from seatrial.model.record import Appeal, VerifierRun
from seatrial.sandbox.api import Sandbox
from seatrial.sandbox.host.watch import Company
from seatrial.trial.judgement import Judgement, VerifierOutcome, evaluate, read_judgement
from seatrial.trial.machinery import Machinery
from seatrial.trial.shield import Shield, lower_shield, planted_meanwhile, raise_shield
from seatrial.trial.verification import Verification
from seatrial.trial.verifier_files import lay_out_files, make_way, must_be_alone
from seatrial.trial.verifier_place import choose_isolation, open_verifier_sandbox, plan_verifier
from seatrial.verify.run import fetch_files, run_tests


async def judge(verification: Verification, sandbox: Sandbox, machinery: Machinery) -> Judgement:
    """Run the verifier of a round after its agent, as isolated as was asked for.

    One that says nothing while processes of the agent run, or beside which they planted something, is run again
    without them. One that is not content where something was put back is asked once more without that.

    One that ran out of time because others used the processors is asked again while no other verifier runs. Raises
    HostBusyError when it had no time then either, or when the services that it may need have ended with it.
    """
    try:
        return await _judge(verification, sandbox, machinery, "others")
    except HostBusyError:
        if verification.work.survivors:
            raise
    return await _judge(verification, sandbox, machinery, "none")


async def _judge(verification: Verification, sandbox: Sandbox, machinery: Machinery, company: Company) -> Judgement:
    ask = partial(_run_once, _Ground(verification, sandbox, machinery, company))
    isolation = choose_isolation(verification)
    if isolation == "guarded" and must_be_alone(verification, by_hook=machinery.staging is not None):
        isolation = "kill"
    if isolation == "exposed" and verification.options.isolation == "kill":
        await sandbox.kill_all()
    if isolation != "separate":
        await make_way(verification, sandbox)
    shield = await raise_shield(verification, sandbox, machinery, isolation)
    judgement = await ask(shield)
    if shield.isolation == "guarded" and verification.work.survivors:
        planted = await planted_meanwhile(verification, sandbox, shield)
        if planted.to_hide or judgement.verdict.silent:
            shield = await raise_shield(verification, sandbox, machinery, "kill")
            judgement = await ask(shield)
        judgement = replace(judgement, planted=planted.paths)
    if shield.curated.matters and _reward(verification, judgement) < verification.options.pass_threshold:
        lowered = await lower_shield(sandbox, verification.work, shield)
        if lowered is not None:
            second = await ask(lowered, "verifier/as-left")
            return _weigh(verification, judgement, second)
    return judgement


@dataclass(frozen=True, slots=True)
class _Ground:
    """What is judged, where, by what, and beside whom."""

    verification: Verification
    sandbox: Sandbox
    machinery: Machinery
    company: Company


async def _run_once(ground: _Ground, shield: Shield, logs: str = "verifier") -> Judgement:
    verification, machinery = ground.verification, ground.machinery
    folder = verification.folder / logs
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    plan = plan_verifier(verification)
    async with open_verifier_sandbox(verification, ground.sandbox, machinery, shield.isolation) as room:
        if shield.isolation not in ("guarded", "kill"):
            await room.sandbox.renew_verifier()
        staged, digest = await lay_out_files(verification, room, machinery.staging)
        ended = await run_tests(room.sandbox, staged, plan, folder, ground.company)
        files = await fetch_files(room.sandbox, staged, verification.round.judged.verifier, folder / "files")
    outcome = VerifierOutcome(ended, files, digest, plan.timeout_sec, ground.company)
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


def _reward(verification: Verification, judgement: Judgement) -> float:
    return evaluate(verification.round, judgement, verification.options).reward


def _weigh(verification: Verification, first: Judgement, second: Judgement) -> Judgement:
    """The first verdict, with that on the system as the agent left it beside it. The lower one counts.

    The author's own solution forges nothing: if only its own system will do for it, that is the task's business.
    """
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
