"""SandboxMixin: the ways to sandboxes that hooks of environments call and override, under the names they know."""

import asyncio
import functools
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeVar

from seatrial.env.hooks import blaming, maybe_await, teardown
from seatrial.env.rollout import State
from seatrial.env.sandbox_client import BackgroundJobStatus
from seatrial.env.sandboxes import RolloutSandboxes, SandboxSettings, SandboxTimeouts
from seatrial.errors import SandboxError, UsageError
from seatrial.sandbox.transfer import pack_files, put_packed

T = TypeVar("T")

_log = logging.getLogger(__name__)


class SandboxMixin:
    """Sandboxes for an environment. One that isn't a CliAgentEnv calls `init_sandbox_client` when it is made."""

    _sandboxes: RolloutSandboxes

    def init_sandbox_client(self, **settings: Any) -> None:
        """Open the way to sandboxes; the arguments are those of SandboxSettings."""
        self._use_sandboxes(SandboxSettings(**settings))

    def _use_sandboxes(self, settings: SandboxSettings) -> None:
        self._sandboxes = RolloutSandboxes(settings)
        self.sandbox_client = self._sandboxes.client
        self.active_sandboxes: set[str] = set()
        self.timeouts = settings.timeouts if settings.timeouts is not None else SandboxTimeouts()

    def in_use(self) -> AbstractAsyncContextManager[object]:
        """The backend of all rollouts, open for the length of a block."""
        return self._sandboxes.backend.use()

    def get_sandbox_resources(self, state: State) -> dict[str, Any]:
        """The resources of a rollout's sandbox. An override may say something else for some rows."""
        return self._sandboxes.settings.resources

    async def create_sandbox(self, state: State, request: Any) -> str:
        """Make a sandbox for a rollout and have `post_sandbox_setup` furnish it; returns its id."""
        made = await self.sandbox_client.create(request)
        state["sandbox_id"] = made.id
        self.register_sandbox(made.id)
        with blaming("post_sandbox_setup"):
            await maybe_await(self.post_sandbox_setup(state))
        return made.id

    async def post_sandbox_setup(self, state: State) -> None:
        """After the sandbox was made: upload files, install what is needed."""

    async def delete_sandbox(self, sandbox_id: str) -> None:
        """Destroy a sandbox, and give back all that its rollout holds."""
        self.deregister_sandbox(sandbox_id)
        await self.sandbox_client.delete(sandbox_id)

    async def bulk_delete_sandboxes(self, sandbox_ids: Sequence[str]) -> None:
        for sandbox_id in sandbox_ids:
            await self.delete_sandbox(sandbox_id)

    def register_sandbox(self, sandbox_id: str) -> None:
        """Note a sandbox that the environment's teardown is to destroy."""
        self.active_sandboxes.add(sandbox_id)

    def deregister_sandbox(self, sandbox_id: str) -> None:
        """Leave a sandbox alone at the teardown."""
        self.active_sandboxes.discard(sandbox_id)

    async def run_background_job(
        self,
        state: State,
        command: str,
        timeout: float,  # noqa: ASYNC109 - the name that authors of environments know
        working_dir: str | None = None,
        poll_interval: float | None = None,
    ) -> BackgroundJobStatus:
        """Run a command in the sandbox of a rollout to its end. Raises SandboxError when that takes too long."""
        sandbox_id = state["sandbox_id"]
        ended = await self.sandbox_client.run_background_job(sandbox_id, command, timeout, working_dir)
        if not ended.completed:
            raise SandboxError(f"the command did not end within {timeout:g} s: {command[:200]}")
        return ended

    async def upload_file(self, sandbox_id: str, remote_path: str, local_path: str | Path) -> None:
        await self.sandbox_client.upload_file(sandbox_id, remote_path, local_path)

    async def upload_content(self, sandbox_id: str, content: str | bytes, remote_path: str) -> None:
        await self.sandbox_client.upload_content(sandbox_id, content, remote_path)

    async def upload_bundle(self, sandbox_id: str, file_map: Mapping[str, str | bytes], dest_dir: str) -> None:
        """Write several files below a directory of a sandbox, by their relative paths."""
        view = self.sandbox_client.known(sandbox_id).view
        files = {name: text.encode() if isinstance(text, str) else text for name, text in file_map.items()}
        await put_packed(view.sandbox, dest_dir, pack_files(files), phase=view.phase)

    async def read_file(
        self,
        sandbox_id: str,
        remote_path: str,
        timeout: float | None = None,  # noqa: ASYNC109 - the name that authors of environments know
    ) -> str | None:
        """The text of a file in a sandbox; None when it cannot be read, which is logged unless it is not there."""
        try:
            return await self.sandbox_client.read_file(sandbox_id, remote_path)
        except FileNotFoundError:
            return None
        except (SandboxError, OSError) as error:
            _log.warning("%s in %s cannot be read: %s", remote_path, sandbox_id, error)
            return None

    def with_retry(self, function: Callable[..., Awaitable[T]]) -> Callable[..., Coroutine[Any, Any, T]]:
        """A function that is called again when it raises, up to `max_retries` times after longer and longer pauses."""
        settings = self._sandboxes.settings

        @functools.wraps(function)
        async def again(*args: Any, **kwargs: Any) -> T:
            for number in range(settings.max_retries):
                try:
                    return await function(*args, **kwargs)
                except UsageError:
                    raise
                except Exception as error:  # noqa: BLE001 - whatever it is, another call may go well
                    _log.warning("%s failed and is tried again: %s", getattr(function, "__name__", "it"), error)
                await asyncio.sleep(_pause(settings, number))
            return await function(*args, **kwargs)

        return again

    @teardown(priority=-10)
    async def teardown_mixin_sandboxes(self) -> None:
        """Destroy the sandboxes that hooks have made and left."""
        await self.bulk_delete_sandboxes([*self.active_sandboxes])

    @teardown(priority=-100)
    async def close_sandboxes(self) -> None:
        """Close the backend, which stays open for a moment after a rollout."""
        await self._sandboxes.backend.close()


def _pause(settings: SandboxSettings, number: int) -> float:
    pause = min(settings.max_backoff_seconds, settings.base_delay * settings.backoff_factor**number)
    return pause + random.uniform(0, settings.jitter)  # noqa: S311 - a pause is no secret
