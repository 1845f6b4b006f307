"""HarborMCPMixin: the hooks by which an environment launches the MCP servers that its tasks declare."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from seatrial.env.mcp_servers import (
    HarborMCPHealthcheck,
    HarborMCPServer,
    McpLauncher,
    hosts_of,
    mcp_agent_url,
    parse_mcp_servers,
    variable_of,
    without_proxy,
)
from seatrial.env.state import State
from seatrial.errors import SandboxError

if TYPE_CHECKING:
    from seatrial.env.sandbox_client import SandboxClient


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
                variables[variable_of(server)] = (mcp_agent_url(server) if launched else None) or server.url
        return variables

    async def _unproxied(self, config: Mapping[str, Any], state: State, before: str | None) -> dict[str, str]:
        """Variables by which agents reach servers that are launched under the names that task.toml has for them."""
        servers = [each for each in _network_servers(config) if await self.mcp_launch_command(each, state) is not None]
        return without_proxy(hosts_of(servers), before)

    async def start_mcp_servers(self, sandbox_id: str, config: Mapping[str, Any], state: State) -> None:
        """Launch servers and wait until they are ready. Raises AgentSetupError or HealthcheckError."""
        asked = {server: await self.mcp_launch_command(server, state) for server in _network_servers(config)}
        commands = {server: command for server, command in asked.items() if command is not None}
        if commands:
            launcher = McpLauncher(self.sandbox_client, sandbox_id, self.mcp_healthcheck)
            state["harbor_mcp_jobs"] = await launcher.launch(commands)

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
