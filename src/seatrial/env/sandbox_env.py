"""SandboxEnv: a conversation beside a sandbox, one for each rollout, which hooks reach by `self.sandbox_client`."""

from contextlib import AbstractAsyncContextManager
from typing import Any

from seatrial.env.arguments import passes_on
from seatrial.env.decorators import cleanup, teardown
from seatrial.env.hooks import blaming, settled
from seatrial.env.multi_turn import MultiTurnEnv
from seatrial.env.rollout_sandboxes import RolloutSandboxes
from seatrial.env.sandbox_settings import DEFAULT_IMAGE, WORKDIR, SandboxSettings
from seatrial.env.state import State


class SandboxEnv(MultiTurnEnv):
    """A rollout with a sandbox: made in `setup_state`, destroyed in the end whatever happens.

    What may be said about the sandbox is in SandboxSettings. Subclasses say in `env_response` what is done with it.
    """

    @passes_on(SandboxSettings)
    def __init__(self, docker_image: str = DEFAULT_IMAGE, **kwargs: Any) -> None:
        settings = SandboxSettings.take_from(kwargs)
        super().__init__(timeout_seconds=settings.seconds_within(kwargs.pop("timeout_seconds", None)), **kwargs)
        self.docker_image = docker_image
        self.environment_vars = dict(settings.environment_vars or {})
        self._sandboxes = RolloutSandboxes(settings)
        self.sandbox_client = self._sandboxes.client

    async def setup_state(self, state: State) -> State | None:
        """Make the sandbox, then `post_sandbox_setup`. An override calls this one first."""
        await super().setup_state(state)
        with blaming("get_docker_image"):
            docker_image = await settled(self.get_docker_image(state))
        await self._sandboxes.make(state, docker_image, WORKDIR, self.environment_vars)
        with blaming("post_sandbox_setup"):
            await settled(self.post_sandbox_setup(state))
        return state

    async def get_docker_image(self, state: State) -> str:
        """The image of a rollout's sandbox."""
        return self.docker_image

    async def post_sandbox_setup(self, state: State) -> None:
        """After the sandbox was made and before the first turn."""

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
