"""Making a sandbox ready for an agent: its instruction, the task's own files, the agent's files, a healthcheck.

Nothing of tests/ is ever put there, and solution/ only for an agent that brings it along.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from seatrial.agents.api import AgentLaunch
from seatrial.agents.environ import MCP_CONFIG_PATH
from seatrial.agents.files import pack_agent_files
from seatrial.agents.mcp import mcp_file, with_variables
from seatrial.errors import AgentSetupError, HealthcheckError
from seatrial.model.config import HealthcheckSpec
from seatrial.sandbox.api import ExecSpec, Network, Sandbox
from seatrial.sandbox.ca_file import AGENT_CA, read_ca
from seatrial.sandbox.transfer import get_file, put_file, put_packed
from seatrial.tasks.allowed import allowed_variables
from seatrial.trial.archives import packed_for_agent, packed_tree
from seatrial.trial.entrypoint import Entrypoint, run_entrypoint
from seatrial.trial.place import Place, agent_network
from seatrial.trial.rounds import Round, rounds_of
from seatrial.trial.spec import TrialSpec

_BUILD_FILES = frozenset({"Dockerfile", ".dockerignore", "docker-compose.yaml", "docker-compose.yml", "compose.yaml"})
_SETUP_TIMEOUT_SEC = 600.0
_MAX_PASSWD_BYTES = 2**20


async def stage_task(sandbox: Sandbox, spec: TrialSpec, round_: Round, place: Place) -> None:
    """Put the task's files in place, once per trial."""
    await _check_users(sandbox, rounds_of(round_.task), place)
    if spec.options.ca_file:
        await put_file(sandbox, AGENT_CA, read_ca(spec.options.ca_file))
    if round_.task.layout.environment_files and _lacks_files(round_, place):
        await put_packed(
            sandbox, place.workdir, packed_tree(spec.task_digest, round_.task.root / "environment", skip=_BUILD_FILES)
        )


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


def _lacks_files(round_: Round, place: Place) -> bool:
    """Whether nobody has put the files of environment/ where they belong: an image made for the task has them."""
    made_elsewhere = round_.task.layout.dockerfile is None and round_.task.layout.compose_file is None
    return made_elsewhere or place.image_from in ("host", "directory")


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


async def _check_users(sandbox: Sandbox, rounds: Sequence[Round], place: Place) -> None:
    """A user the image does not have is nobody's fault in there, so it must not look like a failed command."""
    wanted = [user for round_ in rounds for user in (round_.agent.user, round_.verifier_user, *_hook_users(round_))]
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


def _hook_users(round_: Round) -> list[str | int | None]:
    return [hook.user for hook in round_.verifier.collect]


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
