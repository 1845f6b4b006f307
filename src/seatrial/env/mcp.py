"""MCP servers that a task declares: where they listen, and the hooks by which an environment launches them."""

import asyncio
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from seatrial.env.rollout import State
from seatrial.errors import AgentSetupError, HealthcheckError, SandboxError, TaskFormatError

if TYPE_CHECKING:
    from seatrial.env.sandbox_client import BackgroundJob, SandboxClient

_NETWORK_TRANSPORTS = frozenset({"streamable-http", "http", "sse"})
_LOCAL = ("localhost", "127.0.0.1", "::1")
_PORTS = {"http": 80, "https": 443, "": 80}
# The kernel's own table of listeners: it needs nothing in the image but a shell with grep.
_LISTENS = "grep -qE '^ *[0-9]+: [0-9A-F]+:{port:04X} [0-9A-F]+:[0-9A-F]+ 0A ' /proc/net/tcp /proc/net/tcp6"
_MAX_TOLD = 2000
_FIRST_PAUSE_SEC = 0.05


@dataclass(frozen=True, slots=True)
class HarborMCPServer:
    """An entry of [[environment.mcp_servers]] in task.toml."""

    name: str
    transport: str
    command: str | None = None
    args: tuple[str, ...] = ()
    url: str | None = None

    @property
    def is_network(self) -> bool:
        """Whether it is found at a URL, and not started by the agent."""
        return self.transport in _NETWORK_TRANSPORTS


@dataclass(frozen=True, slots=True)
class HarborMCPHealthcheck:
    """How a server shows that it is ready: by a `command` in which `{port}` stands for its port, else by listening."""

    command: str | None = None
    retries: int = 30
    interval_sec: float = 2.0
    start_period_sec: float = 0.0
    timeout_sec: float = 10.0

    @property
    def seconds(self) -> float:
        """How long a server may take: its start period, and then as long as so many tries at that interval."""
        return self.start_period_sec + max(1, self.retries) * self.interval_sec

    def probe(self, port: int) -> str:
        return self.command.format(port=port) if self.command else _LISTENS.format(port=port)


def parse_mcp_servers(config: Mapping[str, Any]) -> list[HarborMCPServer]:
    """The servers that task.toml declares. Raises TaskFormatError for one that cannot be reached or started."""
    found = []
    for entry in (config.get("environment") or {}).get("mcp_servers") or []:
        if not isinstance(entry, Mapping) or not entry.get("name"):
            continue
        server = HarborMCPServer(
            str(entry["name"]),
            str(entry.get("transport", "sse")),
            entry.get("command"),
            tuple(entry.get("args") or ()),
            entry.get("url"),
        )
        lacks = "url" if server.is_network and not server.url else None
        lacks = "command" if server.transport == "stdio" and not server.command else lacks
        if lacks:
            reason = f"the MCP server {server.name!r} needs a `{lacks}`, for it is reached by {server.transport}"
            raise TaskFormatError("task.toml", [reason])
        found.append(server)
    return found


def mcp_url_port(server: HarborMCPServer) -> int | None:
    """The port at which a server listens; None for one without a URL."""
    if not server.url:
        return None
    url = urlsplit(server.url)
    return url.port if url.port is not None else _PORTS.get(url.scheme)


def mcp_agent_url(server: HarborMCPServer) -> str | None:
    """A server's URL as an agent in the same sandbox reaches it: at 127.0.0.1."""
    if not server.is_network or not server.url:
        return None
    url, port = urlsplit(server.url), mcp_url_port(server)
    user = f"{url.netloc.rpartition('@')[0]}@" if "@" in url.netloc else ""
    return url._replace(netloc=f"{user}127.0.0.1" + (f":{port}" if port is not None else "")).geturl()


def hosts_of(servers: Iterable[HarborMCPServer]) -> list[str]:
    """The names that URLs have for the hosts of servers, but for those of the machine itself."""
    named = {urlsplit(server.url or "").hostname for server in servers}
    return sorted(name for name in named if name and name not in _LOCAL)


def without_proxy(hosts: Sequence[str], before: str | None) -> dict[str, str]:
    """Variables that keep clients from asking a proxy for some hosts: it knows no names inside of a sandbox."""
    if not hosts:
        return {}
    value = ",".join([before or ",".join(_LOCAL), *hosts])
    return {"NO_PROXY": value, "no_proxy": value}


class HarborMCPMixin:
    """Launches each network server that `mcp_launch_command` has a command for; others are as task.toml says."""

    mcp_launch_commands: Mapping[str, str]
    mcp_healthcheck: HarborMCPHealthcheck
    sandbox_client: "SandboxClient"

    async def mcp_launch_command(self, server: HarborMCPServer, state: State) -> str | None:
        """The shell command that runs a server in the sandbox; None for one that is found elsewhere."""
        return self.mcp_launch_commands.get(server.name)

    async def mcp_agent_env_vars(self, config: Mapping[str, Any], state: State) -> dict[str, str]:
        """HARBOR_MCP_NAME_URL for each network server: inside the sandbox if it is launched, else as declared."""
        variables = {}
        for server in parse_mcp_servers(config):
            if server.is_network and server.url:
                launched = await self.mcp_launch_command(server, state) is not None
                name = f"HARBOR_MCP_{server.name.upper().replace('-', '_')}_URL"
                variables[name] = (mcp_agent_url(server) if launched else None) or server.url
        return variables

    async def _unproxied(self, config: Mapping[str, Any], state: State, before: str | None) -> dict[str, str]:
        """Variables by which agents reach servers that are launched under the names that task.toml has for them."""
        servers = [each for each in _network_servers(config) if await self.mcp_launch_command(each, state) is not None]
        return without_proxy(hosts_of(servers), before)

    async def start_mcp_servers(self, sandbox_id: str, config: Mapping[str, Any], state: State) -> None:
        """Launch servers side by side and wait until all are ready.

        Raises AgentSetupError or HealthcheckError, which says what a server wrote last.
        """
        asked = {server: await self.mcp_launch_command(server, state) for server in _network_servers(config)}
        commands = {server: command for server, command in asked.items() if command is not None}
        if not commands:
            return
        await self._name_hosts(sandbox_id, commands)
        jobs: dict[str, BackgroundJob] = {}
        for server, command in commands.items():
            jobs[server.name] = await self.sandbox_client.start_background_job(sandbox_id, command)
        for server in commands:
            await self._wait_until_ready(sandbox_id, server, jobs[server.name])
        state["harbor_mcp_jobs"] = jobs

    async def _name_hosts(self, sandbox_id: str, servers: Iterable[HarborMCPServer]) -> None:
        """Let the names that task.toml has for servers lead to this sandbox."""
        hosts = hosts_of(servers)
        lines = "".join(f"127.0.0.1 {host}\n" for host in hosts)
        if not lines:
            return
        command = f"printf %s {shlex.quote(lines)} >> /etc/hosts"
        done = await self.sandbox_client.execute_command(sandbox_id, command)
        if done.exit_code:
            raise AgentSetupError(
                f"the hosts of MCP servers ({', '.join(hosts)}) cannot be named in /etc/hosts: {done.stderr.strip()}"
            )

    async def _wait_until_ready(self, sandbox_id: str, server: HarborMCPServer, job: "BackgroundJob") -> None:
        port, check, loop = mcp_url_port(server), self.mcp_healthcheck, asyncio.get_running_loop()
        if port is None:
            raise AgentSetupError(f"the MCP server {server.name!r} has no port in its URL {server.url!r}")
        began, pause = loop.time(), _FIRST_PAUSE_SEC
        while loop.time() - began <= check.seconds:
            status = await self.sandbox_client.get_background_job(sandbox_id, job)
            if status.completed:
                said = (status.stderr or status.stdout or "").strip()[-_MAX_TOLD:]
                ended = f"the MCP server {server.name!r} ended with {status.exit_code} before it was ready"
                raise AgentSetupError(f"{ended}: {said}" if said else ended)
            probe = check.probe(port)
            probed = await self.sandbox_client.execute_command(sandbox_id, probe, timeout=check.timeout_sec)
            if probed.exit_code == 0:
                return
            await asyncio.sleep(min(pause, check.interval_sec))
            pause *= 2
        raise HealthcheckError(
            f"the MCP server {server.name!r} was not ready at port {port} within {check.seconds:g} s; its command is "
            f"{job.command[:200]!r}"
        )

    async def stop_mcp_servers(self, state: State) -> None:
        """End the servers of a rollout, after its agent and before it is judged."""
        jobs, state["harbor_mcp_jobs"] = state.get("harbor_mcp_jobs") or {}, {}
        for job in jobs.values():
            try:
                await self.sandbox_client.stop_background_job(state["sandbox_id"], job)
            except SandboxError:  # it is gone, and they with it
                return


def _network_servers(config: Mapping[str, Any]) -> list[HarborMCPServer]:
    return [server for server in parse_mcp_servers(config) if server.is_network]
