"""Running test.sh and taking out what it wrote, bounded, whatever it wrote."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from seatrial.descriptors import raise_if_short
from seatrial.errors import ContentError
from seatrial.model.artifacts import VERIFIER_FILES, RawFile
from seatrial.model.job import Layout
from seatrial.model.output import VerifierSpec
from seatrial.sandbox.api import NO_NETWORK, ExecResult, ExecSpec, Network, Sandbox
from seatrial.sandbox.host.disks import raise_if_full
from seatrial.sandbox.host.watch import Company, host_watch
from seatrial.sandbox.opens import Watched
from seatrial.sandbox.transfer import get_tree
from seatrial.verify.collect import collect_artifacts
from seatrial.verify.stage import LOGS_DIR, TESTS_DIR, StagedTests

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
        """What runs the tests."""
        script = _SCRIPTS[self.layout]
        return ("/bin/sh", "-c", _ON_ONE_CPU + script if self.one_cpu else script)


async def run_tests(
    sandbox: Sandbox, tests: StagedTests, plan: VerifierPlan, logs: Path, company: Company = "others"
) -> ExecResult:
    """Run the staged tests when there is a seat for them, with `none` beside no other verifier; output goes to `logs`.

    Their time is over later by as long as other processes kept them from running.
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
