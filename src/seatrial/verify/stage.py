"""Laying out the verifier's files. Only possible once the agent is done: it takes the agent's result."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from seatrial.errors import VerifierStageError
from seatrial.model.agent import AgentResult
from seatrial.sandbox.api import ExecSpec, Phase, Sandbox
from seatrial.sandbox.transfer import join_archives, pack_files, pack_trees, put_packed
from seatrial.tasks.digest import digest_folder
from seatrial.tasks.ignore import ignored_in
from seatrial.tasks.layout import IGNORED_FOLDERS

TESTS_DIR = "/tests"
SOLUTION_DIR = f"{TESTS_DIR}/solution"
ORACLE_DIR = "/oracle"
"""Where the library verifiers had the solution."""
LOGS_DIR = "/logs/verifier"
_MAKE_READY = ("/bin/sh", "-c", f"chmod 777 {LOGS_DIR}; chmod +x {TESTS_DIR}/test.sh")
_READY_SEC = 60.0


@dataclass(frozen=True, slots=True)
class PackedTests:
    """The tests of a task, ready to be staged, and their digest."""

    archive: bytes
    digest: str


def pack_tests(folders: Sequence[Path]) -> PackedTests:
    """Pack folders of tests, later ones over earlier ones. Raises VerifierStageError when there is none."""
    digest = digest_tests(folders)
    return PackedTests(pack_trees(*folders, skip=IGNORED_FOLDERS, omit=ignored_in), digest)


def digest_tests(folders: Sequence[Path]) -> str:
    """The digest by which records know tests. Raises VerifierStageError when there are none."""
    if not folders:
        raise VerifierStageError("the task has no tests/ folder to verify with; add tests/test.sh")
    digests = [digest_folder(folder) for folder in folders]
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


def with_others(tests: PackedTests, files: Mapping[str, bytes]) -> PackedTests:
    """The tests with some files instead of their own, or besides them; their digest says so."""
    archive = join_archives(tests.archive, pack_files(files, mode=0o755))
    named = "".join(f"{name} {hashlib.sha256(content).hexdigest()}\n" for name, content in sorted(files.items()))
    return PackedTests(archive, hashlib.sha256(f"{tests.digest}\n{named}".encode()).hexdigest())


@dataclass(frozen=True, slots=True)
class StagedTests:
    """Tests that may be run, with what is to be laid out for them. Only the functions here make them."""

    files: tuple[str, bytes] | None
    phase: Phase


def stage_tests(tests: PackedTests, _: AgentResult) -> StagedTests:
    """Tests for the `/tests` that only the verifier sees; they get there with the command that runs them.

    The AgentResult is the proof that no agent is at work any more.
    """
    return StagedTests((TESTS_DIR, tests.archive), "verifier")


async def own_tests(sandbox: Sandbox, _: AgentResult) -> StagedTests:
    """Tests that somebody has laid out in the verifier's `/tests` already, after the agent."""
    await sandbox.exec(ExecSpec(_MAKE_READY, phase="verifier", user=0, timeout_sec=_READY_SEC))
    return StagedTests(None, "verifier")


async def find_tests(sandbox: Sandbox, _: AgentResult) -> StagedTests:
    """Tests that the image of a separate verifier brings along. No agent has ever been there, so nothing is hidden."""
    await put_packed(sandbox, LOGS_DIR, pack_files({}))
    await sandbox.exec(ExecSpec(_MAKE_READY, user=0, timeout_sec=_READY_SEC))
    return StagedTests(None, "agent")
