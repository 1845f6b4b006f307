"""AgentHooks: what authors of environments override in how an agent's requests are read, and when it has ended."""

from typing import TYPE_CHECKING, Any

from seatrial.env.agent_state import agent_of
from seatrial.env.messages import Messages, as_messages
from seatrial.env.response import Response
from seatrial.env.state import State

if TYPE_CHECKING:
    from seatrial.env.sandbox_client import SandboxClient


class AgentHooks:
    """The usual ways: requests and answers are as they come, and an agent has ended when its command has."""

    sandbox_client: "SandboxClient"

    async def check_agent_completed(self, state: State) -> bool:
        """Whether the agent has ended. An override may say so of one that still runs: then its rollout ends."""
        return bool(state.get("agent_completed"))

    async def wait_for_completion(self, state: State) -> None:
        """Wait until the agent has ended. Nobody needs to: the rollout ends with it."""
        agent = agent_of(state)
        agent.adopt(state, self.sandbox_client)
        if agent.run is not None:
            await agent.run.ended()

    async def poll_job_completion(self, state: State, sandbox_id: str, background_job: Any) -> None:
        """Wait until a background job has ended, and note on the state how; nothing is polled."""
        ended = await self.sandbox_client.wait_for_background_job(sandbox_id, background_job)
        state.update(agent_exit_code=ended.exit_code, agent_stdout=ended.stdout, agent_stderr=ended.stderr)

    async def normalize_intercepted_messages(self, intercepted_messages: Any) -> Messages:
        """The messages of a request as the model is to get them: as they came, in the form of chat completions."""
        return as_messages(intercepted_messages)

    def normalize_intercepted_tools(self, intercept_tools: Any) -> list[Any] | None:
        """The tools of a request as the model is to get them: as they came, in the form of chat completions."""
        if not isinstance(intercept_tools, list):
            raise TypeError(f"the tools of a request are a list, not {type(intercept_tools).__name__}")
        return intercept_tools

    async def normalize_response(self, response: Response) -> Response | Any:
        """An answer as the trajectory is to have it; the agent gets it as the model gave it."""
        return response
