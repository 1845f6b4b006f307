"""Running the tests: laying them out, running test.sh, fetching what it wrote.

Tests are staged only once the agent is done: the functions take its result as the proof.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from seatrial.descriptors import raise_if_short
from seatrial.errors import ContentError, VerifierStageError
from seatrial.model.job import Layout
from seatrial.model.output import VERIFIER_FILES, RawFile, VerifierSpec
from seatrial.model.record import AgentResult
from seatrial.sandbox.api import NO_NETWORK, ExecResult, ExecSpec, Network, Phase, Sandbox
from seatrial.sandbox.host.disks import raise_if_full
from seatrial.sandbox.host.watch import Company, host_watch
from seatrial.sandbox.opens import Watched
from seatrial.sandbox.transfer import get_tree, join_archives, pack_files, pack_trees, put_packed
from seatrial.tasks.layout import IGNORED_FOLDERS, digest_folder, ignored_in
from seatrial.verify.artifacts import collect_artifacts

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


# Running test.sh and fetching its files, bounded whatever it wrote.

MAX_LOG_BYTES = 16 * 2**20
PATIENCE: Mapping[Company, float] = {"others": 2.0, "none": 9.0}
"""By how many times its time a verifier may have more of it, as long as others use the processors."""
# By absolute path, from the task's own directory. A shell, because some scripts name no interpreter.
_SCRIPTS: Mapping[Layout, str] = {
    "harbor": f'"${{SANDBOX_ROOT:-}}{TESTS_DIR}/test.sh"',
    "verifiers": f'$(command -v bash) "${{SANDBOX_ROOT:-}}{TESTS_DIR}/test.sh"',  # by whatever interpreter without bash
}
# The shell moves itself to its first processor, where what it starts stays. Without taskset it runs as ever.
_ON_ONE_CPU = """all=$(taskset -pc $$ 2>/dev/null); all=${all##*: }; taskset -pc "${all%%[,-]*}" $$ >/dev/null 2>&1\n"""


@dataclass(frozen=True, slots=True)
class VerifierPlan:
    """How the verifier is to be run."""

    workdir: str
    timeout_sec: float
    env: Mapping[str, str] = field(default_factory=dict)
    user: str | int | None = None
    network: Network = NO_NETWORK
    one_cpu: bool = False
    layout: Layout = "harbor"
    watched: Watched | None = None

    @property
    def command(self) -> tuple[str, ...]:
        script = _SCRIPTS[self.layout]
        return ("/bin/sh", "-c", _ON_ONE_CPU + script if self.one_cpu else script)


async def run_tests(
    sandbox: Sandbox,
    tests: StagedTests,
    plan: VerifierPlan,
    logs: Path,
    company: Company = "others",
    begun: Callable[[], None] = lambda: None,
) -> ExecResult:
    """Run the staged tests when there is a seat for them, with `none` beside no other verifier; output goes to `logs`.

    `begun` is called when their time begins. It is over later by as long as other processes kept them from running.
    """
    spec = ExecSpec(
        plan.command,
        phase=tests.phase,
        env=plan.env,
        cwd=plan.workdir,
        user=plan.user,
        timeout_sec=plan.timeout_sec,
        patience_sec=PATIENCE[company] * plan.timeout_sec,
        network=plan.network,
        stdout_path=logs / "stdout.txt",
        stderr_path=logs / "stderr.txt",
        files=tests.files,
        watched=plan.watched,
    )
    async with host_watch().seats.take(alone=company == "none"):
        begun()
        return await sandbox.exec(spec)


async def fetch_files(
    sandbox: Sandbox, tests: StagedTests, verifier: VerifierSpec, folder: Path
) -> Mapping[str, RawFile]:
    """Copy what the verifier wrote to `folder` and read it, believing nothing."""
    try:
        with suppress(FileNotFoundError):
            await get_tree(sandbox, LOGS_DIR, folder, limit=MAX_LOG_BYTES, phase=tests.phase)
    except (ContentError, OSError) as error:  # too much, or names too long for this machine
        raise_if_short(error)
        raise_if_full(error)
        await _fetch_known_files(sandbox, tests, verifier, folder)
    return collect_artifacts(folder, verifier).files if folder.is_dir() else {}  # noqa: ASYNC240 - one look


async def _fetch_known_files(sandbox: Sandbox, tests: StagedTests, verifier: VerifierSpec, folder: Path) -> None:
    """Only the files that matter, one by one: all together are more than anybody keeps."""
    declared = [path.rpartition("/")[2] for path in (verifier.reward_path, verifier.details_path) if path]
    for name in dict.fromkeys([*VERIFIER_FILES, *declared]):
        try:
            await get_tree(sandbox, f"{LOGS_DIR}/{name}", folder, limit=MAX_LOG_BYTES, phase=tests.phase)
        except (OSError, ContentError) as error:
            raise_if_short(error)
