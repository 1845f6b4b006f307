"""SandboxEnv: a conversation beside a sandbox, one for each rollout, in which the model runs commands by `bash`."""

import time
from contextlib import AbstractAsyncContextManager
from typing import Any

from seatrial.env.arguments import passes_on
from seatrial.env.decorators import cleanup, stop, teardown
from seatrial.env.hooks import blaming, settled
from seatrial.env.messages import Messages
from seatrial.env.monitors import OF_SANDBOXES
from seatrial.env.rollout_sandboxes import RolloutSandboxes
from seatrial.env.sandbox_settings import DEFAULT_IMAGE, WORKDIR, SandboxSettings
from seatrial.env.state import State
from seatrial.env.stateful_tool import StatefulToolEnv
from seatrial.env.tool_calls import called_tools
from seatrial.env.tool_output import readable

OF_SANDBOX = ("sandbox_id", "sandbox_state", "working_dir")
"""Arguments of tools that the environment gives."""


class SandboxEnv(StatefulToolEnv):
    """A rollout with a sandbox: made in `setup_state`, destroyed in the end whatever happens.

    What may be said about the sandbox is in SandboxSettings. The model is offered `bash`; a subclass adds tools, takes
    that one away, or says in `env_response` what else is done with what the model says. A command may take
    `timeout_per_command_seconds`, and has `state["working_dir"]` if that is set. `sandbox_name` has no effect.
    """

    @passes_on(SandboxSettings)
    def __init__(
        self,
        docker_image: str = DEFAULT_IMAGE,
        timeout_per_command_seconds: float = 30,
        *,
        sandbox_name: str = "sandbox-env",
        **kwargs: Any,
    ) -> None:
        settings = SandboxSettings.take_from(kwargs)
        super().__init__(timeout_seconds=settings.seconds_within(kwargs.pop("timeout_seconds", None)), **kwargs)
        self.docker_image = docker_image
        self.sandbox_name = sandbox_name
        self.timeout_per_command_seconds = timeout_per_command_seconds
        self.environment_vars = dict(settings.environment_vars or {})
        self._sandboxes = RolloutSandboxes(settings)
        self.sandbox_client = self._sandboxes.client
        self.add_tool(self.bash, args_to_skip=OF_SANDBOX)
        self.add_monitors(*OF_SANDBOXES)

    async def setup_state(self, state: State) -> State | None:
        """Make the sandbox, then `post_sandbox_setup`. An override calls this one first."""
        await super().setup_state(state)
        with blaming("get_docker_image"):
            docker_image = await settled(self.get_docker_image(state))
        began = time.perf_counter()
        await self._sandboxes.make(state, docker_image, WORKDIR, self.environment_vars)
        waited = time.perf_counter() - began
        state["sandbox_state"] = {"ready": True, "ready_wait_time": waited, "command_execution_times": []}
        with blaming("post_sandbox_setup"):
            await settled(self.post_sandbox_setup(state))
        return state

    async def get_docker_image(self, state: State) -> str:
        """The image of a rollout's sandbox."""
        return self.docker_image

    async def post_sandbox_setup(self, state: State) -> None:
        """After the sandbox was made and before the first turn."""

    async def bash(
        self, command: str, sandbox_id: str, sandbox_state: dict[str, Any], working_dir: str | None = None
    ) -> str:
        """Execute `command` in a shell of the sandbox, and see what it writes."""
        began = time.perf_counter()
        result = await self.sandbox_client.execute_command(
            sandbox_id, command, working_dir=working_dir, timeout=self.timeout_per_command_seconds
        )
        sandbox_state["command_execution_times"].append(time.perf_counter() - began)
        if result.timed_out:
            return f"Error: Command timed out after {self.timeout_per_command_seconds}s"
        return readable(result.stdout, result.stderr)

    def update_tool_args(
        self, tool_name: str, tool_args: dict[str, Any], messages: Messages, state: State, **kwargs: Any
    ) -> Any:
        """What the model gave, and of the sandbox what the tool does not show to it."""
        of_sandbox = {name: state.get(name) for name in OF_SANDBOX}
        hidden = self.skipped_args.get(tool_name, ())
        return {**tool_args, **{name: value for name, value in of_sandbox.items() if name in hidden}}

    async def env_response(self, messages: Messages, state: State, **kwargs: Any) -> Messages | str:
        """What the tools return. To an answer without a call of one there is nothing to say: the rollout ends."""
        if not called_tools(messages[-1]):
            state["final_env_response"] = []
        return await super().env_response(messages, state, **kwargs)

    @stop
    async def no_tools_called(self, state: State) -> bool:
        """The model has answered without calling a tool, and no `env_response` of a subclass may have an answer."""
        return type(self).env_response is SandboxEnv.env_response and await super().no_tools_called(state)

    def in_use(self) -> AbstractAsyncContextManager[object]:
        """The backend of all rollouts, open for the length of a block."""
        return self._sandboxes.in_use()

    @cleanup(priority=-100)
    async def destroy_sandbox(self, state: State) -> None:
        """Destroy the sandbox of a rollout, after all other handlers."""
        await self._sandboxes.release(state)

    @teardown(priority=-100)
    async def close_sandboxes(self) -> None:
        """Close the backend, which stays open for a moment after a rollout."""
        await self._sandboxes.close()
