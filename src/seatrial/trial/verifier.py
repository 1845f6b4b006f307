"""Where a verifier works and how it is run: beside the agent's files, or in a sandbox that the agent never saw.

`plan_verifier` says how, `lay_out_files` puts the tests there, and the solution if that is wanted, where no process of
the agent sees them. `judge.py` runs it, `shield.py` decides what it meets of the agent's changes.
"""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from seatrial.errors import HostExhaustedError
from seatrial.model.record import IsolationLevel
from seatrial.model.task import NetworkPolicy
from seatrial.sandbox.api import ExecSpec, Sandbox, open_sandbox
from seatrial.sandbox.opens import Watched
from seatrial.sandbox.transfer import pack_trees, put_file, put_files, put_packed
from seatrial.sandbox.trust import VERIFIER_CA, read_ca
from seatrial.tasks.layout import RUBRIC_FILE, TEST_SCRIPT
from seatrial.tasks.variables import for_session, task_variables, without_judges
from seatrial.trial.entrypoint import run_entrypoint
from seatrial.trial.place import Place, agent_image, choose_network, choose_place, image_policy, trusted, verifier_image
from seatrial.trial.rounds import Round
from seatrial.trial.setup import packed_tests, packed_tree
from seatrial.trial.spec import Machinery
from seatrial.trial.verification import PYTHON_START, USUAL_CONDITIONS, Verification, VerifierConditions
from seatrial.untrusted.files import read_with_status
from seatrial.verify.artifacts import MAX_ARTIFACT_BYTES, NO_ROOM, KeptArtifact
from seatrial.verify.stage import (
    ORACLE_DIR,
    SOLUTION_DIR,
    TESTS_DIR,
    PackedTests,
    StagedTests,
    VerifierPlan,
    find_tests,
    own_tests,
    stage_tests,
    with_others,
)

TEMPORARY = "/tmp"  # noqa: S108 - that of a sandbox


class VerifierSandbox(NamedTuple):
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


def open_verifier_sandbox(
    verification: Verification,
    sandbox: Sandbox,
    machinery: Machinery,
    isolation: IsolationLevel,
    withheld: Container[str] = (),
) -> AbstractAsyncContextManager[VerifierSandbox]:
    """The sandbox to verify in: the agent's own, or a fresh one into which only artifacts cross.

    Of those, files and folders that are `withheld` stay behind.
    """
    own = nullcontext(VerifierSandbox(sandbox))
    return own if isolation != "separate" else _open_separate(verification, machinery, withheld)


@asynccontextmanager
async def _open_separate(
    verification: Verification, machinery: Machinery, withheld: Container[str]
) -> AsyncIterator[VerifierSandbox]:
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
    round_, options = verification.round, verification.options
    request = verifier_image(round_) or agent_image(round_.task)
    environment = round_.verifier.environment or round_.task.config.environment
    if options.verifier_upstream is not None and round_.verifier.environment is not None:
        environment = environment.model_copy(update={"env": without_judges(environment.env)})
    image = await machinery.images.resolve(request, image_policy(options))
    return choose_place(round_.task, environment, image, options, verification.place.capabilities)


async def _hand_over(room: Sandbox, artifact: KeptArtifact, kept: Path, withheld: Container[str]) -> None:
    if artifact.type == "directory":
        top = artifact.source.rstrip("/")
        packed = pack_trees(kept, omit=lambda _: lambda path: f"{top}/{path.rstrip('/')}" in withheld)
        await put_packed(room, artifact.source, packed)
    elif artifact.source not in withheld:
        content, status = read_with_status(kept, MAX_ARTIFACT_BYTES)
        await put_file(room, artifact.source, content, mode=status.st_mode & 0o777)


def find_rubric(round_: Round) -> Path | None:
    """The rubric by which a judge grades a round; None where a script does."""
    if round_.layout.test_script is not None and not round_.given:
        return None
    folders = round_.tests()
    if any((folder / TEST_SCRIPT).is_file() for folder in folders) or verifier_image(round_) is not None:
        return None
    return next((folder / RUBRIC_FILE for folder in reversed(folders) if (folder / RUBRIC_FILE).is_file()), None)


# How it is run.


def plan_verifier(
    verification: Verification, session: Mapping[str, str] = MappingProxyType({}), watched: Watched | None = None
) -> VerifierPlan:
    """How a verifier is run; `session` has the variables by which it finds its model, if it may ask one."""
    phase, config, options = verification.round.verifier, verification.round.task.config, verification.options
    policy = phase.network or config.verifier.network or (phase.environment or config.environment).network
    own = phase.environment.workdir if phase.environment else None
    conditions = verification.conditions
    if conditions.network == "none":
        policy = NetworkPolicy(mode="no-network")
    declared = phase.workdir or config.verifier.workdir
    return VerifierPlan(
        workdir=declared or (TESTS_DIR if options.layout == "verifiers" else None) or own or verification.place.workdir,
        timeout_sec=phase.timeout_sec * options.verifier_timeout_multiplier,
        env=_under(conditions, _usual(verification, session), verification),
        user=verification.round.verifier_user,
        network=choose_network(policy, options, verification.place.capabilities),
        one_cpu=conditions.one_cpu,
        layout=options.layout,
        watched=watched,
    )


def _usual(verification: Verification, session: Mapping[str, str]) -> dict[str, str]:
    options, phase = verification.options, verification.round.verifier
    own: Mapping[str, str] = phase.env
    if options.verifier_upstream is not None:
        # Its sandbox was made before there was a session, and has none of these.
        late = without_judges(phase.environment.env) if phase.environment else {}
        of_sandbox = phase.environment.env.items() - late.items() if phase.environment else ()
        own = for_session({**dict(of_sandbox), **own}, session)
    variables = task_variables(own, options.allow_env)
    return {**session, **trusted(options, VERIFIER_CA), **_shared_temporary(verification), **variables}


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


# What it finds. Usually that is laid out from the task's folder; with an OwnStaging somebody else does it, such as a
# hook of HarborEnv.


# A link into what only the verifier sees: a folder of that name at the root would be the agent's too.
_CLEAR = f'rm -rf "${{SANDBOX_ROOT:-}}{ORACLE_DIR}"'
_FOLDER = f'"${{SANDBOX_ROOT:-}}{SOLUTION_DIR}"'
_LINK = f'{_CLEAR} && mkdir -p {_FOLDER} && ln -s {_FOLDER} "${{SANDBOX_ROOT:-}}{ORACLE_DIR}"'
_LINK_SEC = 60.0
_WORD = b"oracle"


class VerifierStage(NamedTuple):
    """A verifier's place right before it runs, still without tests."""

    verification: Verification
    sandbox: Sandbox

    async def lay_out(self) -> None:
        """Put the task's tests in place, and the solution where that is wanted."""
        await put_packed(self.sandbox, TESTS_DIR, _tests(self.verification).archive, phase="verifier")
        await _show_solution(self.verification, self.sandbox)


class OwnStaging(NamedTuple):
    """Somebody who lays out a verifier's files, called `name` in digests of what was judged by."""

    name: str
    run: Callable[[VerifierStage], Awaitable[None]]


async def lay_out_files(
    verification: Verification, room: VerifierSandbox, staging: OwnStaging | None
) -> tuple[StagedTests, str]:
    """Lay out all that the verifier finds; returns the tests to run, and their digest."""
    tests = _tests(verification)
    if room.has_tests:
        staged = await find_tests(room.sandbox, verification.agent_result)
        if others := verification.conditions.added_tests:
            await put_files(room.sandbox, TESTS_DIR, others, mode=0o755)
    elif staging is not None:
        await link_oracle(verification, room.sandbox)
        await staging.run(VerifierStage(verification, room.sandbox))
        staged = await own_tests(room.sandbox, verification.agent_result)
        tests = _known_as(tests, staging)
    else:
        staged = stage_tests(tests, verification.agent_result)
        await link_oracle(verification, room.sandbox)
        await _show_solution(verification, room.sandbox)
    if ca_file := verification.options.ca_file:
        await put_file(room.sandbox, VERIFIER_CA, read_ca(ca_file), phase=staged.phase)
    return staged, tests.digest


def must_be_alone(verification: Verification, *, by_hook: bool) -> bool:
    """Whether what the agent left running has to end first: a name at the root is theirs to change.

    Only tests that nowhere speak of an oracle can do with a service beside them; what a hook does, nobody knows before.
    """
    survivors, options = verification.work.survivors, verification.options
    if not survivors or options.isolation == "keep" or options.layout != "verifiers":
        return False
    return by_hook or _WORD in _tests(verification).archive.lower()


def _tests(verification: Verification) -> PackedTests:
    tests = packed_tests(verification.spec.task_digest, verification.round)
    others = verification.conditions.added_tests
    return with_others(tests, others) if others else tests


def _known_as(tests: PackedTests, staging: OwnStaging) -> PackedTests:
    """The tests under a digest of their own: what else was laid out, only the one who did so knows."""
    named = f"{tests.digest}\nlaid out by {staging.name}"
    return PackedTests(tests.archive, hashlib.sha256(named.encode()).hexdigest())


async def make_way(verification: Verification, sandbox: Sandbox) -> None:
    """Take away what the agent called as the verifier's own folder is called: what it left there, no test is to find.

    Whatever the agent's programs do instead, the verifier's own empty the folder once more.
    """
    if verification.options.layout == "verifiers":
        await sandbox.exec(ExecSpec(("/bin/sh", "-c", _CLEAR), user=0, timeout_sec=_LINK_SEC))


async def link_oracle(verification: Verification, room: Sandbox) -> None:
    """Let the verifier find the solution where the library verifiers had it, if that is wanted, and else nothing."""
    options = verification.options
    if options.layout == "verifiers":
        script = _LINK if options.solution == "staged" else _CLEAR
        await room.exec(ExecSpec(("/bin/sh", "-c", script), phase="verifier", user=0, timeout_sec=_LINK_SEC))


async def _show_solution(verification: Verification, room: Sandbox) -> None:
    solution = verification.round.solution()
    if solution and verification.options.solution == "staged":
        packed = packed_tree(verification.spec.task_digest, solution)
        await put_packed(room, SOLUTION_DIR, packed, phase="verifier")
