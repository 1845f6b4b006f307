"""Laying out the verifier's files. Only possible once the agent is done: it takes the agent's result."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from seatrial.errors import VerifierStageError
from seatrial.model.agent import AgentResult
from seatrial.sandbox.api import Sandbox
from seatrial.sandbox.transfer import put_tree
from seatrial.tasks.digest import digest_folder
from seatrial.tasks.layout import IGNORED_FOLDERS

TESTS_DIR = "/tests"
LOGS_DIR = "/logs/verifier"


async def stage_tests(sandbox: Sandbox, tests: Sequence[Path], _: AgentResult) -> str:
    """Put the tests into a fresh `/tests` that only the verifier sees, later folders over earlier ones.

    Returns their digest. The AgentResult is the proof that no agent is at work any more.
    """
    if not tests:
        raise VerifierStageError("the task has no tests/ folder to verify with; add tests/test.sh")
    digest = digest_tests(tests)
    await sandbox.renew_verifier()
    await put_tree(sandbox, TESTS_DIR, *tests, skip=IGNORED_FOLDERS, phase="verifier")
    return digest


def digest_tests(tests: Sequence[Path]) -> str:
    """The digest of one folder of tests, or of several laid over each other."""
    digests = [digest_folder(folder) for folder in tests]
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
