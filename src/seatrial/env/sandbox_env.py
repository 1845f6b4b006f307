"""SandboxEnv: a conversation beside a sandbox, one for each rollout, which hooks reach by `self.sandbox_client`."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from seatrial.env.decorators import cleanup, teardown
from seatrial.env.hooks import blaming, settled
from seatrial.env.multi_turn import MultiTurnEnv
from seatrial.env.results import Results
from seatrial.env.rollout_sandboxes import RolloutSandboxes
from seatrial.env.sandbox_settings import DEFAULT_IMAGE, WORKDIR, SandboxSettings
from seatrial.env.state import State
from seatrial.model.job import ImageFallback
from seatrial.sandbox.api import SandboxBackend


class SandboxEnv(MultiTurnEnv):
    """A rollout with a sandbox: made in `setup_state`, destroyed in the end whatever happens.

    What may be said about the sandbox is as for CliAgentEnv. Subclasses say in `env_response` what is done with it.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - the names that authors of environments know
        self,
        docker_image: str = DEFAULT_IMAGE,
        start_command: str | None = None,
        cpu_cores: float | None = None,
        memory_gb: float | None = None,
        disk_size_gb: float | None = None,
        gpu_count: int = 0,
        environment_vars: Mapping[str, str] | None = None,
        labels: Sequence[str] | None = None,
        *,
        backend: str | SandboxBackend = "embedded",
        image: str = "auto",
        image_map: Mapping[str, str] | None = None,
        image_fallback: ImageFallback = "python",
        network: Literal["public", "none"] = "public",
        enforcement: Literal["required", "partial"] = "required",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        settings = SandboxSettings(
            image=image,
            image_map=image_map or {},
            image_fallback=image_fallback,
            cpu_cores=cpu_cores,
            memory_gb=memory_gb,
            disk_size_gb=disk_size_gb,
            gpu_count=gpu_count,
            network=network,
            enforcement=enforcement,
            labels=tuple(labels or ()),
        )
        self.docker_image = docker_image
        self.environment_vars = dict(environment_vars or {})
        self._sandboxes = RolloutSandboxes(settings, backend, start_command)
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

    async def generate(self, *args: Any, **kwargs: Any) -> Results:
        """Roll out each of the rows given, all on one backend; see Environment."""
        async with self._sandboxes.in_use():
            return await super().generate(*args, **kwargs)

    @cleanup(priority=-100)
    async def destroy_sandbox(self, state: State) -> None:
        """Destroy the sandbox of a rollout, after all other handlers."""
        await self._sandboxes.release(state)

    @teardown(priority=-100)
    async def close_sandboxes(self) -> None:
        """Close the backend, which stays open for a moment after a rollout."""
        await self._sandboxes.close()
