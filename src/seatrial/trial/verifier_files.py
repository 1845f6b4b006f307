"""What a verifier finds: its tests and, if that is wanted, the solution, where no process of the agent sees them.

Usually it is laid out from the task's folder. With an OwnStaging somebody else does that, such as a hook of HarborEnv.
"""

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from seatrial.sandbox.api import ExecSpec, Sandbox
from seatrial.sandbox.ca_file import VERIFIER_CA, read_ca
from seatrial.sandbox.transfer import put_file, put_files, put_packed
from seatrial.trial.archives import packed_tests, packed_tree
from seatrial.trial.verification import Verification
from seatrial.trial.verifier_place import VerifierSandbox
from seatrial.verify.stage import (
    ORACLE_DIR,
    SOLUTION_DIR,
    TESTS_DIR,
    PackedTests,
    StagedTests,
    find_tests,
    own_tests,
    stage_tests,
    with_others,
)

# A link into what only the verifier sees: a folder of that name at the root would be the agent's too.
_CLEAR = f'rm -rf "${{SANDBOX_ROOT:-}}{ORACLE_DIR}"'
_FOLDER = f'"${{SANDBOX_ROOT:-}}{SOLUTION_DIR}"'
_LINK = f'{_CLEAR} && mkdir -p {_FOLDER} && ln -s {_FOLDER} "${{SANDBOX_ROOT:-}}{ORACLE_DIR}"'
_LINK_SEC = 60.0
_WORD = b"oracle"


@dataclass(frozen=True, slots=True)
class VerifierStage:
    """A verifier's place right before it runs, still without tests."""

    verification: Verification
    sandbox: Sandbox

    async def lay_out(self) -> None:
        """Put the task's tests in place, and the solution where that is wanted."""
        await put_packed(self.sandbox, TESTS_DIR, _tests(self.verification).archive, phase="verifier")
        await _show_solution(self.verification, self.sandbox)


@dataclass(frozen=True, slots=True)
class OwnStaging:
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
