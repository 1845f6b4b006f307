"""Where a verifier works and how it is run: beside the agent's files, or in a sandbox that the agent never saw."""

from collections.abc import AsyncIterator, Container
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from seatrial.errors import HostExhaustedError
from seatrial.model.config import NetworkPolicy
from seatrial.model.job import TrialOptions
from seatrial.model.record import IsolationLevel
from seatrial.sandbox.api import Sandbox
from seatrial.sandbox.ca_file import VERIFIER_CA
from seatrial.sandbox.session import open_sandbox
from seatrial.sandbox.transfer import pack_trees, put_file, put_packed
from seatrial.tasks.allowed import task_variables
from seatrial.trial.entrypoint import run_entrypoint
from seatrial.trial.machinery import Machinery
from seatrial.trial.place import Place, agent_image, choose_network, choose_place, image_policy, trusted, verifier_image
from seatrial.trial.verification import PYTHON_START, USUAL_CONDITIONS, Verification, VerifierConditions
from seatrial.verify.fetch import NO_ROOM, KeptArtifact
from seatrial.verify.run import VerifierPlan
from seatrial.verify.stage import TESTS_DIR

TEMPORARY = "/tmp"  # noqa: S108 - that of a sandbox


@dataclass(frozen=True, slots=True)
class VerifierSandbox:
    """The sandbox in which a verifier runs, and whether its image brought the tests along."""

    sandbox: Sandbox
    has_tests: bool = False


def choose_isolation(verification: Verification) -> IsolationLevel:
    """How far the verifier is kept from what the agent left running."""
    round_, asked = verification.round, verification.options.isolation
    modes = (round_.verifier.environment_mode, round_.task.config.verifier.environment_mode)
    if "separate" in modes or asked == "separate":
        return "separate"
    capabilities = verification.place.capabilities
    if capabilities.guarded_phases:
        return "guarded" if asked == "keep" else asked
    # Where the agent's processes cannot be kept from the verifier, they must not run on unless somebody says so.
    return "kill" if capabilities.isolation == "namespaces" and asked != "keep" else "exposed"


@asynccontextmanager
async def open_verifier_sandbox(
    verification: Verification,
    sandbox: Sandbox,
    machinery: Machinery,
    isolation: IsolationLevel,
    withheld: Container[str] = (),
) -> AsyncIterator[VerifierSandbox]:
    """The sandbox to verify in: the agent's own, or a fresh one into which only artifacts cross.

    Of those, files and folders that are `withheld` stay behind.
    """
    if isolation != "separate":
        yield VerifierSandbox(sandbox)
        return
    own, work = verifier_image(verification.round), verification.work
    place = await separate_place(verification, machinery)
    for artifact in work.kept:
        if artifact.reason and artifact.reason.startswith(NO_ROOM):
            raise HostExhaustedError(f"{artifact.source} cannot be handed to the verifier: {artifact.reason}")
    network, logs = plan_verifier(verification).network, verification.folder / "verifier"
    async with (
        open_sandbox(machinery.backend, place.sandbox) as fresh,
        run_entrypoint(fresh, place, network, logs),
    ):
        for artifact in work.kept:
            if artifact.status == "ok":
                await _hand_over(fresh, artifact, work.artifacts / artifact.destination, withheld)
        yield VerifierSandbox(fresh, has_tests=own is not None and place.image_from in ("fetch", "build"))


async def separate_place(verification: Verification, machinery: Machinery) -> Place:
    """The place of a separate verifier."""
    round_, options = verification.round, verification.options
    request = verifier_image(round_) or agent_image(round_.task)
    environment = round_.verifier.environment or round_.task.config.environment
    image = await machinery.images.resolve(request, image_policy(options))
    return choose_place(round_.task, environment, image, options, verification.place.capabilities)


async def _hand_over(room: Sandbox, artifact: KeptArtifact, kept: Path, withheld: Container[str]) -> None:
    if artifact.type == "directory":
        top = artifact.source.rstrip("/")
        packed = pack_trees(kept, omit=lambda _: lambda path: f"{top}/{path.rstrip('/')}" in withheld)
        await put_packed(room, artifact.source, packed)
    elif artifact.source not in withheld:
        mode = kept.stat().st_mode & 0o777  # noqa: ASYNC240 - one file
        await put_file(room, artifact.source, kept.read_bytes(), mode=mode)  # noqa: ASYNC240 - one file


def plan_verifier(verification: Verification) -> VerifierPlan:
    """How the verifier of a round is to be run."""
    phase, config, options = verification.round.verifier, verification.round.task.config, verification.options
    policy = phase.network or config.verifier.network or (phase.environment or config.environment).network
    own = phase.environment.workdir if phase.environment else None
    conditions = verification.conditions
    if conditions.network == "none":
        policy = NetworkPolicy(mode="no-network")
    declared = phase.workdir or config.verifier.workdir
    return VerifierPlan(
        workdir=declared or _usual_workdir(options) or own or verification.place.workdir,
        timeout_sec=phase.timeout_sec * options.verifier_timeout_multiplier,
        env=_under(conditions, _usual(verification), verification),
        user=verification.round.verifier_user,
        network=choose_network(policy, options, verification.place.capabilities),
        one_cpu=conditions.one_cpu,
        layout=options.layout,
    )


def _usual_workdir(options: TrialOptions) -> str | None:
    return TESTS_DIR if options.layout == "verifiers" else None


def _usual(verification: Verification) -> dict[str, str]:
    options = verification.options
    own = task_variables(verification.round.verifier.env, options.allow_env)
    return {**trusted(options, VERIFIER_CA), **_shared_temporary(verification), **own}


def _shared_temporary(verification: Verification) -> dict[str, str]:
    """Where temporary files go beside services of the agent, which a test may hand the paths of them.

    What the agent put there to steer tools is seen when it is read.
    """
    sandbox = verification.place.sandbox
    if not verification.work.survivors or "TMPDIR" in {**sandbox.image.config.env, **sandbox.env}:
        return {}
    return {"TMPDIR": TEMPORARY} if verification.place.capabilities.guarded_phases else {}


def _under(conditions: VerifierConditions, usual: dict[str, str], verification: Verification) -> dict[str, str]:
    """The verifier's variables as conditions have them."""
    if conditions is USUAL_CONDITIONS:
        return usual
    sandbox = verification.place.sandbox
    known = {**sandbox.image.config.env, **sandbox.env, **usual}
    unset = {name: value for name, value in conditions.unset_env.items() if name not in known}
    env = {**unset, **usual, **conditions.env}
    if conditions.python_start:
        path = env.get("PYTHONPATH", known.get("PYTHONPATH"))
        env["PYTHONPATH"] = ":".join(filter(None, (f"{TESTS_DIR}/{PYTHON_START}", path)))
    return env
