"""Hooks of HarborEnv in the verifier's place: they lay out its files before it runs, and read its logs after it has."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seatrial.env.hooks import blaming, call_hook
from seatrial.env.known_sandbox import KnownSandbox, SandboxView
from seatrial.env.state import State, rollout_of
from seatrial.env.trial_workplace import TrialWorkplace
from seatrial.sandbox.transfer import put_tree

if TYPE_CHECKING:  # everything a trial needs, which nobody needs before the first rollout
    from seatrial.env.sandbox_client import SandboxClient
    from seatrial.trial.verifier_files import OwnStaging, VerifierStage

HOOK = "upload_test_assets"


def own_staging(name: str, hook: Callable[..., Any], client: "SandboxClient", state: State) -> "OwnStaging":
    """Lays out a verifier's files by a hook, whose client works in the verifier's place meanwhile."""
    from seatrial.trial.verifier_files import OwnStaging  # noqa: PLC0415 - see above

    async def run(stage: "VerifierStage") -> None:
        sandbox_id, workplace = state["sandbox_id"], rollout_of(state).trial
        assert workplace is not None  # noqa: S101 - it is being judged
        workplace.stage = stage
        try:
            with client.known(sandbox_id).seen_as(_view(stage)), blaming(HOOK):
                task_dir = Path(workplace.trial.spec.task.root)
                await call_hook(hook, sandbox_client=client, sandbox_id=sandbox_id, task_dir=task_dir)
        finally:
            workplace.stage = None

    return OwnStaging(name, run)


def _view(stage: "VerifierStage") -> SandboxView:
    from seatrial.trial.verifier_place import plan_verifier  # noqa: PLC0415 - see above

    plan = plan_verifier(stage.verification)
    return SandboxView(stage.sandbox, "verifier", plan.network, plan.env)


async def open_stage(workplace: TrialWorkplace, known: KnownSandbox) -> "VerifierStage":
    """The verifier's place for an override of `compute_reward` that runs the tests itself; hooks work there then.

    It is shielded like that of any verifier. Raises HookError while the agent may still be at work.
    """
    from seatrial.trial.shield import raise_shield  # noqa: PLC0415 - see above
    from seatrial.trial.verifier_files import VerifierStage, link_oracle, make_way, must_be_alone  # noqa: PLC0415
    from seatrial.trial.verifier_place import choose_isolation  # noqa: PLC0415

    verification, trial = workplace.verification(), workplace.trial
    isolation = choose_isolation(verification)
    if isolation == "separate" or (isolation == "guarded" and must_be_alone(verification, by_hook=True)):
        isolation = "kill"  # the hook's commands know one sandbox
    await make_way(verification, trial.sandbox)
    shield = await raise_shield(verification, trial.sandbox, trial.machinery, isolation)
    if shield.isolation not in ("guarded", "kill"):
        await trial.sandbox.renew_verifier()
    await link_oracle(verification, trial.sandbox)
    stage = VerifierStage(verification, trial.sandbox)
    known.view = _view(stage)
    return stage


def show_verdict(workplace: TrialWorkplace, known: KnownSandbox) -> None:
    """Let hooks see what the verifier wrote, now that it has judged and no agent comes after it.

    What they run is shielded as the verifier was: a reward that is read by the agent's programs is the agent's word.
    """
    sandbox, view = workplace.trial.sandbox, known.view
    restore = _restoring(workplace.folder / "verifier/files", sandbox)

    async def prepare() -> None:
        await _shield_again(workplace)
        await restore()

    known.view = SandboxView(sandbox, "verifier", view.network, view.env, prepare)


async def _shield_again(workplace: TrialWorkplace) -> None:
    """Shield the sandbox where it was not, for the verifier ran elsewhere, or is not any more, after a second verdict
    on the system as the agent left it; the tests are laid out again then.
    """
    from seatrial.trial.shield import raise_shield  # noqa: PLC0415 - see above
    from seatrial.trial.verifier_files import VerifierStage, link_oracle  # noqa: PLC0415

    run, trial = workplace.turn.notes.verifier_run, workplace.trial
    if run is None:
        return
    verification = workplace.verification()
    guarded = verification.place.capabilities.guarded_phases
    in_copy = run.isolation == "guarded" and not guarded
    elsewhere = run.isolation == "separate" or in_copy
    if not elsewhere and run.appeal is None:
        return
    isolation = ("guarded" if guarded else "kill") if elsewhere else run.isolation
    await raise_shield(verification, trial.sandbox, trial.machinery, isolation)
    if not elsewhere:
        stage, staging = VerifierStage(verification, trial.sandbox), trial.machinery.staging
        await link_oracle(verification, trial.sandbox)
        await (staging.run(stage) if staging else stage.lay_out())


def _restoring(files: Path, sandbox: Any) -> Callable[[], Awaitable[None]]:
    """Puts the logs that counted in place: a verifier may have run elsewhere, or once more after they were read."""

    async def restore() -> None:
        from seatrial.verify.stage import LOGS_DIR  # noqa: PLC0415 - see above

        if files.is_dir():  # noqa: ASYNC240 - one look
            await put_tree(sandbox, LOGS_DIR, files, phase="verifier")

    return restore
