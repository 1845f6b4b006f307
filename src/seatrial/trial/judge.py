"""The verifier's turn: shield it from what the agent left, run it, read its verdict, and ask again where need be."""

import shutil
from dataclasses import replace

from seatrial.model.record import Appeal
from seatrial.sandbox.api import Sandbox
from seatrial.trial.judgement import Judgement, VerifierOutcome, evaluate, read_judgement
from seatrial.trial.machinery import Machinery
from seatrial.trial.shield import Shield, lower_shield, open_copy, planted_meanwhile, raise_shield
from seatrial.trial.verification import Verification
from seatrial.trial.verifier_files import lay_out_files, make_way, must_be_alone
from seatrial.trial.verifier_place import choose_isolation, open_verifier_sandbox, plan_verifier
from seatrial.verify.fetch import look_again
from seatrial.verify.run import fetch_files, run_tests


async def judge(verification: Verification, sandbox: Sandbox, machinery: Machinery) -> Judgement:
    """Run the verifier of a round after its agent, as isolated as was asked for.

    One that says nothing while processes of the agent run, or beside which they planted something, is run again
    without them. One that is not content where something was put back is asked once more without that.
    """
    isolation = choose_isolation(verification)
    if isolation == "guarded" and must_be_alone(verification, by_hook=machinery.staging is not None):
        isolation = "kill"
    if isolation == "exposed" and verification.options.isolation == "kill":
        await sandbox.kill_all()
    async with open_copy(verification, sandbox, isolation) as copy:
        if isolation != "separate":
            await make_way(verification, copy or sandbox)
        shield = await raise_shield(verification, copy or sandbox, machinery, isolation)
        if copy is not None:
            shield = replace(shield, isolation="guarded", copied=True)
        return await _judge_shielded(verification, (sandbox, copy), machinery, shield)


async def _judge_shielded(
    verification: Verification, places: tuple[Sandbox, Sandbox | None], machinery: Machinery, shield: Shield
) -> Judgement:
    """Judge in a sandbox where the agent's processes are, or in the copy beside it if there is one."""
    sandbox, room = places[0], places[1] or places[0]
    judgement = await _run_once(verification, room, machinery, shield)
    if shield.isolation == "guarded" and verification.work.survivors:
        planted = await planted_meanwhile(verification, sandbox, machinery, shield)
        if planted.to_hide or judgement.verdict.silent:
            room = sandbox
            shield = await raise_shield(verification, sandbox, machinery, "kill")
            judgement = await _run_once(verification, sandbox, machinery, shield)
        judgement = replace(judgement, planted=planted.paths)
    if shield.curated.matters and _reward(verification, judgement) < verification.options.pass_threshold:
        lowered = await lower_shield(room, verification.work, shield)
        if lowered is not None:
            second = await _run_once(verification, room, machinery, lowered, "verifier/as-left")
            return _weigh(verification, judgement, second)
    return judgement


async def _run_once(
    verification: Verification, sandbox: Sandbox, machinery: Machinery, shield: Shield, logs: str = "verifier"
) -> Judgement:
    folder = verification.folder / logs
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    async with open_verifier_sandbox(verification, sandbox, machinery, shield.isolation, shield.curated.hidden) as room:
        if shield.isolation not in ("guarded", "kill"):
            await room.sandbox.renew_verifier()
        staged, digest = await lay_out_files(verification, room, machinery.staging)
        ended = await run_tests(room.sandbox, staged, plan_verifier(verification), folder)
        files = await fetch_files(room.sandbox, staged, verification.round.judged.verifier, folder / "files")
        work = verification.work
        output = await look_again(room.sandbox, work.output, work.found, alone=not work.survivors)
        verification = replace(verification, work=replace(work, output=output))
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
