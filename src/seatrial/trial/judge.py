"""The verifier's turn: shield it from what the agent left, run it, read its verdict, and ask again where need be."""

import shutil
from dataclasses import replace

from seatrial.model.record import Appeal
from seatrial.sandbox.api import Sandbox
from seatrial.trial.judgement import Judgement, VerifierOutcome, evaluate, read_judgement
from seatrial.trial.machinery import Machinery
from seatrial.trial.reference import expected_of, reference_of
from seatrial.trial.shield import Shield, lower_shield, planted_meanwhile, raise_shield
from seatrial.trial.verification import Verification
from seatrial.trial.verifier_files import lay_out_files, make_way, must_be_alone
from seatrial.trial.verifier_place import choose_isolation, open_verifier_sandbox, plan_verifier
from seatrial.verify.guard import lay_out
from seatrial.verify.run import fetch_files, run_tests


async def judge(verification: Verification, sandbox: Sandbox, machinery: Machinery) -> Judgement:
    """Run the verifier of a round after its agent, as isolated as was asked for.

    One that is not content where something was put back is asked again where what the task's own solution changes is
    as the agent left it, and if it still is not, where everything is.
    """
    isolation = choose_isolation(verification)
    if isolation == "guarded" and must_be_alone(verification, by_hook=machinery.staging is not None):
        isolation = "kill"
    if isolation == "exposed" and verification.options.isolation == "kill":
        await sandbox.kill_all()
    if isolation != "separate":
        await make_way(verification, sandbox)
    shield = await raise_shield(verification, sandbox, machinery, isolation)
    shield, judgement = await _run_shielded(verification, sandbox, machinery, shield)
    if _may_be_wronged(verification, judgement):
        wider = await _widen(verification, sandbox, machinery, shield)
        shield = wider or shield
        if wider and wider.curated.expected:
            shield, judgement = await _run_shielded(verification, sandbox, machinery, wider)
    if _may_be_wronged(verification, judgement):
        lowered = await lower_shield(sandbox, verification.work, shield)
        if lowered is not None:
            second = await _run_once(verification, sandbox, machinery, lowered, "verifier/as-left")
            return _weigh(verification, judgement, second)
    return judgement


def _may_be_wronged(verification: Verification, judgement: Judgement) -> bool:
    """Whether a verdict below a pass rests on a system in which something was put back."""
    return judgement.curated.matters and _reward(verification, judgement) < verification.options.pass_threshold


async def _widen(verification: Verification, sandbox: Sandbox, machinery: Machinery, shield: Shield) -> Shield | None:
    """A shield that leaves alone what the task's own solution changes, too; None where that is nothing."""
    if verification.is_authors_own or shield.curated.only_image or not (shield.owned or shield.saved):
        return None
    reference = await reference_of(verification, machinery)
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
        staged, digest = await lay_out_files(verification, room, machinery.staging)
        ended = await run_tests(room.sandbox, staged, plan_verifier(verification), folder)
        files = await fetch_files(room.sandbox, staged, verification.round.judged.verifier, folder / "files")
    return read_judgement(verification, VerifierOutcome(ended, files, digest), shield, logs)


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
