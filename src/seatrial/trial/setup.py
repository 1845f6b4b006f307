"""Making a sandbox ready for an agent: its instruction, the task's own files, the agent's files, a healthcheck.

Nothing of tests/ is ever put there, and solution/ only for an agent that brings it along. The same steps without an
agent make the untouched environment (`open_untouched`).
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence, Set
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Generic, TypeVar

from seatrial.agents.api import AgentLaunch
from seatrial.agents.environ import INSTRUCTION_PATH, MCP_CONFIG_PATH, TASK_DIR, mcp_file
from seatrial.agents.files import pack_agent_files
from seatrial.errors import AgentSetupError, HealthcheckError, TaskFormatError
from seatrial.model.task import HealthcheckSpec
from seatrial.sandbox.api import ExecSpec, Network, Sandbox, SandboxBackend, open_sandbox
from seatrial.sandbox.transfer import get_file, pack_layout, pack_trees, put_file, put_packed
from seatrial.sandbox.trust import AGENT_CA, read_ca
from seatrial.tasks.layout import IGNORED_FOLDERS, digest_folder, ignored_in, read_file
from seatrial.tasks.load import MAX_TOML_BYTES
from seatrial.tasks.toml import without_check
from seatrial.tasks.variables import allowed_variables, with_variables
from seatrial.trial.entrypoint import Entrypoint, run_entrypoint
from seatrial.trial.place import Place, agent_network
from seatrial.trial.rounds import Round, rounds_of
from seatrial.trial.spec import TrialSpec
from seatrial.trial.verification import Verification
from seatrial.verify.stage import PackedTests, pack_tests

# Once per trial, then once per round.

_BUILD_FILES = frozenset({"Dockerfile", ".dockerignore", "docker-compose.yaml", "docker-compose.yml", "compose.yaml"})
_SETUP_TIMEOUT_SEC = 600.0
_MAX_PASSWD_BYTES = 2**20


@asynccontextmanager
async def open_task(
    sandbox: Sandbox, spec: TrialSpec, round_: Round, place: Place, folder: Path
) -> AsyncIterator[Entrypoint]:
    """A sandbox with the task's files in place, in which the ENTRYPOINT of its image has been run; logs go to `folder`.

    `round_` is the first one. Raises TrialError.
    """
    await stage_task(sandbox, spec, round_, place)
    network = agent_network(round_, spec.options, place.capabilities)
    healthcheck = round_.healthcheck is not None
    async with run_entrypoint(sandbox, place, network, folder, has_healthcheck=healthcheck) as entrypoint:
        yield entrypoint


async def stage_task(sandbox: Sandbox, spec: TrialSpec, round_: Round, place: Place) -> None:
    """Put the task's files in place, once per trial."""
    await _check_users(sandbox, rounds_of(round_.task), place)
    if spec.options.ca_file:
        await put_file(sandbox, AGENT_CA, read_ca(spec.options.ca_file))
    if round_.task.layout.environment_files and _lacks_files(round_, place):
        await put_packed(
            sandbox, place.workdir, packed_tree(spec.task_digest, round_.task.root / "environment", skip=_BUILD_FILES)
        )


async def stage_round(
    sandbox: Sandbox, spec: TrialSpec, round_: Round, place: Place, launch: AgentLaunch | None, network: Network
) -> None:
    """Put in place what this round's agent may see, and wait until its surroundings are ready."""
    await put_packed(sandbox, "/", packed_for_agent(spec, round_, launch.trees if launch else {}))
    if servers := round_.task.config.environment.mcp_servers:
        allowed = allowed_variables(spec.options.allow_env)
        await put_file(sandbox, MCP_CONFIG_PATH, mcp_file(with_variables(servers, allowed)))
    if launch and spec.agent.files:
        await put_packed(sandbox, "/", pack_agent_files(spec.agent.files))
    if files := round_.workdir_files():
        await put_packed(sandbox, place.workdir, packed_tree(spec.task_digest, files))
        if (files / "setup.sh").is_file():
            await _run_setup(sandbox, round_, network)
    if round_.healthcheck:
        await wait_until_healthy(sandbox, round_.healthcheck, network)


def _lacks_files(round_: Round, place: Place) -> bool:
    """Whether nobody has put the files of environment/ where they belong: an image made for the task has them."""
    made_elsewhere = round_.task.layout.dockerfile is None and round_.task.layout.compose_file is None
    return made_elsewhere or place.image_from in ("host", "directory")


async def _check_users(sandbox: Sandbox, rounds: Sequence[Round], place: Place) -> None:
    """A user the image does not have is nobody's fault in there, so it must not look like a failed command."""
    wanted: list[str | int | None] = []
    for round_ in rounds:
        wanted += [round_.agent.user, round_.verifier_user, *(hook.user for hook in round_.verifier.collect)]
    names = {user for user in wanted if isinstance(user, str) and user != "root" and not user.isdigit()}
    if not names:
        return
    try:
        passwd = await get_file(sandbox, "/etc/passwd", limit=_MAX_PASSWD_BYTES)
    except FileNotFoundError:
        passwd = b""
    known = {line.partition(b":")[0].decode(errors="replace") for line in passwd.splitlines()}
    if missing := sorted(names - known):
        raise AgentSetupError(
            f"the task runs commands as the user {', '.join(missing)}, who is not in the image "
            f"{place.sandbox.image.reference!r}; "
            "use the task's own image"
        )


async def _run_setup(sandbox: Sandbox, round_: Round, network: Network) -> None:
    command = ("/bin/sh", "-c", "chmod +x ./setup.sh; ./setup.sh")
    result = await sandbox.exec(ExecSpec(command, timeout_sec=_SETUP_TIMEOUT_SEC, network=network))
    if result.exit_code != 0:
        said = (result.stderr or result.stdout).decode(errors="replace").strip()[-500:]
        raise AgentSetupError(f"setup.sh of step {round_.name!r} ended with {result.exit_code}: {said}")


async def wait_until_healthy(sandbox: Sandbox, check: HealthcheckSpec, network: Network) -> None:
    """Probe until the check succeeds. Raises HealthcheckError after too many failures, or when a probe hangs.

    Failures within the start period do not count.
    """
    loop = asyncio.get_running_loop()
    started, failures = loop.time(), 0
    while True:
        probe = ExecSpec(("/bin/sh", "-c", check.command), timeout_sec=check.timeout_sec, network=network)
        result = await sandbox.exec(probe)
        if result.exit_code == 0:
            return
        said = (result.stderr or result.stdout).decode(errors="replace").strip()[-500:]
        if result.timed_out:
            raise HealthcheckError(f"the healthcheck did not answer within {check.timeout_sec:g} s: {check.command}")
        starting = loop.time() - started < check.start_period_sec
        failures += not starting
        if failures >= max(1, check.retries):
            times = "once" if failures == 1 else f"{failures} times"
            ended = f"the healthcheck failed {times}, last with exit code {result.exit_code}"
            raise HealthcheckError(f"{ended}: {said}" if said else ended)
        await asyncio.sleep(check.start_interval_sec if starting else check.interval_sec)


# The untouched environment.


@asynccontextmanager
async def open_untouched(verification: Verification, backend: SandboxBackend, folder: Path) -> AsyncIterator[Sandbox]:
    """A fresh sandbox with a task laid out, up to the round that is verified; earlier ones are not worked on.

    Logs go to `folder`. Raises TrialError, as the set-up of a trial does.
    """
    spec, place, rounds = verification.spec, verification.place, rounds_up_to(verification)
    async with (
        open_sandbox(backend, place.sandbox) as fresh,
        open_task(fresh, spec, rounds[0], place, folder) as entrypoint,
    ):
        with entrypoint.preparing():
            for round_ in rounds:
                network = agent_network(round_, spec.options, place.capabilities)
                await stage_round(fresh, spec, round_, place, None, network)
        yield fresh


def rounds_up_to(verification: Verification) -> tuple[Round, ...]:
    rounds = rounds_of(verification.round.task) if verification.round.step else (verification.round,)
    last = [round_.name for round_ in rounds].index(verification.round.name)
    return rounds[: last + 1]


# A task's files packed for sandboxes, kept while many trials need the same ones: by the digest of the task's content,
# so that what is found here is always what the record says was used.

_KEPT_BYTES = 64 * 2**20
_LOGS = {"/logs": 0o755, **dict.fromkeys(("/logs/agent", "/logs/artifacts", "/logs/verifier"), 0o777)}
_MOST_BYTES = 4 * 2**20  # of one archive; a task with larger files takes longer than packing them
T = TypeVar("T")


class ArchiveCache(Generic[T]):
    """Keeps what was used last, up to a number of bytes."""

    def __init__(self, size_of: Callable[[T], int]) -> None:
        self._size_of = size_of
        self._kept: OrderedDict[Hashable, T] = OrderedDict()
        self._bytes = 0

    def take(self, key: Hashable, make: Callable[[], T], may_keep: Callable[[], bool] = lambda: True) -> T:
        """What is kept under a key; if nothing is, it is made now, and kept if that may be."""
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        made = make()
        size = self._size_of(made)
        if size <= _MOST_BYTES and may_keep():
            self._kept[key] = made
            self._bytes += size
        while self._bytes > _KEPT_BYTES:
            self._bytes -= self._size_of(self._kept.popitem(last=False)[1])
        return made


_archives: ArchiveCache[bytes] = ArchiveCache(len)
_tests: ArchiveCache[PackedTests] = ArchiveCache(lambda tests: len(tests.archive))


def _unchanged(task_digest: str, root: Path, make: Callable[[], T]) -> Callable[[], T]:
    """Makes something of a task's files. Raises TaskFormatError unless they are still those of the digest."""

    def checked() -> T:
        made = make()
        if digest_folder(root) != task_digest:
            raise TaskFormatError(str(root), ["the task has changed since the job began; start a new job with it"])
        return made

    return checked


def packed_for_agent(spec: TrialSpec, round_: Round, trees: Mapping[str, Path]) -> bytes:
    """What a round's agent finds, to be unpacked at the root: the task, and the directories it brings along."""

    def pack() -> bytes:
        config = read_file(round_.task.root / "task.toml", MAX_TOML_BYTES)[0]
        files = {INSTRUCTION_PATH: round_.instruction(), f"{TASK_DIR}/task.toml": without_check(config)}
        return pack_layout(files, trees, folders=_LOGS, skip=IGNORED_FOLDERS, omit=ignored_in)

    def stays_the_same() -> bool:  # what an agent brings from elsewhere may change
        return all(source.is_relative_to(spec.task.root) for source in trees.values())

    key = (spec.task_digest, spec.task.root, round_.name, *trees.items())
    return _archives.take(key, _unchanged(spec.task_digest, spec.task.root, pack), stays_the_same)


def packed_tree(task_digest: str, source: Path, skip: Set[str] = frozenset()) -> bytes:
    left_out = IGNORED_FOLDERS | skip
    return _archives.take((task_digest, source), lambda: pack_trees(source, skip=left_out, omit=ignored_in))


def packed_tests(task_digest: str, round_: Round) -> PackedTests:
    """The tests of a round. Raises VerifierStageError when it has none.

    Those from elsewhere are not kept: the task's digest does not say what they are.
    """
    if round_.given:
        return pack_tests(round_.given)
    make = _unchanged(task_digest, round_.task.root, lambda: pack_tests(round_.tests()))
    return _tests.take((task_digest, round_.name), make)
