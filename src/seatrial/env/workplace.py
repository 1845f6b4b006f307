"""Where a rollout's agent works: a sandbox, its way to the model, and how its command is run there."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from seatrial.agents.api import AgentLaunch
from seatrial.model.agent import AgentResult
from seatrial.sandbox.api import ExecSpec, Network, Sandbox

if TYPE_CHECKING:  # an HTTP server and client; like all that only rollouts need, they are imported by the first one
    from seatrial.gateway.access import ModelAccess, OpenAccess
    from seatrial.gateway.session import Keys


class Workplace(Protocol):
    """What CliAgentEnv needs of a place; `folder` is where the agent's files on this machine are."""

    @property
    def folder(self) -> Path:
        """The rollout's own directory on this machine."""
        ...

    def open_model(self, port: int) -> "AbstractAsyncContextManager[OpenAccess | None]":
        """The agent's way to its model, by a listener inside the sandbox; port 0 takes a free one."""
        ...

    async def run(self, launch: AgentLaunch, access: "OpenAccess | None") -> AgentResult:
        """Run the agent's command to its end. Raises TrialError when the machinery fails."""
        ...


@dataclass(frozen=True, slots=True)
class PlainWorkplace:
    """A sandbox for an agent that has no task."""

    sandbox: Sandbox
    network: Network
    folder: Path
    model: "ModelAccess"
    model_name: str | None
    keys: "Keys" = "own"

    @asynccontextmanager
    async def open_model(self, port: int) -> AsyncIterator["OpenAccess | None"]:
        """The way to the model; its calls go to a file in the folder."""
        listener = await self.sandbox.listen(port)
        async with self.model.open(listener, self.folder, self.model_name, keys=self.keys) as access:
            yield access

    async def run(self, launch: AgentLaunch, access: "OpenAccess | None") -> AgentResult:
        """Run the command; its output goes to files in the folder."""
        from seatrial.trial.work import agent_result  # noqa: PLC0415 - see the top

        logs = self.folder / "agent"
        logs.mkdir(exist_ok=True)
        ended = await self.sandbox.exec(
            ExecSpec(
                launch.argv,
                env=launch.env,
                cwd=launch.cwd,
                network=self.network,
                stdout_path=logs / "stdout.txt",
                stderr_path=logs / "stderr.txt",
            )
        )
        if access is not None:
            await access.session.check_end(timed_out=ended.timed_out)
        return agent_result(ended)
