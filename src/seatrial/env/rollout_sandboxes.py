"""The sandboxes of an environment's rollouts: made for one, reached by hooks through the client, gone when it ends."""

import logging
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Self

from seatrial.env.kept_open import KeptOpen
from seatrial.env.known_sandbox import SandboxView
from seatrial.env.sandbox_client import SandboxClient
from seatrial.env.sandbox_resources import vars_of, with_resources
from seatrial.env.sandbox_settings import DEFAULT_IMAGE, WORKDIR, SandboxSettings
from seatrial.env.shared_backend import SharedBackend
from seatrial.env.state import State, rollout_of
from seatrial.errors import SandboxError, UsageError
from seatrial.images.choice import HOST, ImageRequest, is_plain_python
from seatrial.images.resolver import ResolvedImage
from seatrial.sandbox.api import DEFAULT_PATH, Network, Sandbox
from seatrial.sandbox.session import open_sandbox
from seatrial.sandbox.transfer import put_file

if TYPE_CHECKING:  # everything a trial needs, which nobody needs before the first rollout
    from seatrial.trial.machinery import Machinery

_log = logging.getLogger(__name__)

_IDLE = "tail -f /dev/null"
"""What keeps containers alive; sandboxes here live without."""

_PYTHON = b'#!/bin/sh\nexec python3 "$@"\n'
"""Images of Python have it under this name too; many systems do not."""


class RolloutSandboxes:
    """What environments with sandboxes have in common. What a rollout holds is on a stack that `release` unwinds.

    Sent to another process, it opens a backend of the same name there.
    """

    def __init__(self, settings: SandboxSettings, client: SandboxClient | None = None) -> None:
        self.settings = settings
        self.client = client or SandboxClient()
        self.client.opens = self._open
        self._backend = SharedBackend(settings.backend)
        self._replaced: set[str] = set()
        self._states: dict[str, State] = {}

    def __reduce__(self) -> tuple[type[Self], tuple[SandboxSettings, SandboxClient]]:
        if not isinstance(self.settings.backend, str):
            raise UsageError(
                "an environment with a backend that is open cannot be sent to another process; name one, as in "
                "backend='embedded'"
            )
        return type(self), (self.settings, self.client)

    def in_use(self) -> "AbstractAsyncContextManager[Machinery]":
        """The backend for the length of a block, open until nobody uses it any more."""
        return self._backend.use()

    async def close(self) -> None:
        """Close what is kept open for rollouts to come."""
        await self._backend.close()

    async def machinery(self, state: State) -> "Machinery":
        """The backend and its images, open until the rollout ends."""
        return await rollout_of(state).resources.enter_async_context(self._backend.use())

    def state_of(self, sandbox_id: str) -> State:
        """The rollout that a sandbox is of. Raises SandboxError for one that is of none, or gone."""
        self.client.known(sandbox_id)
        if sandbox_id not in self._states:
            raise SandboxError(f"the sandbox {sandbox_id} is not that of a rollout: a hook has made it")
        return self._states[sandbox_id]

    async def make(
        self,
        state: State,
        docker_image: str,
        workdir: str,
        env: Mapping[str, str],
        settings: SandboxSettings | None = None,
    ) -> tuple[Sandbox, Network]:
        """A sandbox for a rollout without a task, and whom it may reach. Raises TrialError or UsageError."""
        settings = settings or self.settings
        machinery = await self.machinery(state)
        resolved = await machinery.images.resolve(ImageRequest(docker_image, asked_by="user"), settings.policy)
        self.note_image(state, docker_image, resolved)
        capabilities = await machinery.backend.probe()
        network = settings.reach(capabilities)
        spec = settings.sandbox_spec(resolved.image, capabilities, workdir, env)
        sandbox = await rollout_of(state).resources.enter_async_context(open_sandbox(machinery.backend, spec))
        await self.introduce(state, sandbox, network)
        return sandbox, network

    def note_image(self, state: State, asked: str, resolved: ResolvedImage) -> None:
        """Say on the state what was asked for and what is used. What nobody asked for is warned of, once.

        Raises HostUnsupportedError where this machine must not stand in for an image.
        """
        image = resolved.image
        used = image.digest or asked if resolved.how == "build" else image.reference
        state["docker_image"], state["image_used"] = asked, used
        if self.settings.stands_in(asked, used) and asked not in self._replaced:
            self._replaced.add(asked)
            _log.warning("the image %s is not here: rollouts run on this machine's own system (host) instead", asked)

    async def introduce(self, state: State, sandbox: Sandbox, network: Network) -> None:
        """Let hooks reach the sandbox of a rollout, and start what is to run in it all the time."""
        state["sandbox_id"] = sandbox_id = self.client.add(sandbox, network, release=lambda: self.release(state))
        self._states[sandbox_id] = state
        rollout_of(state).resources.push_async_callback(self._forget, sandbox_id)
        if _lacks_python(state):
            await self._give_python(sandbox)
        command = self.settings.start_command
        if command and command != _IDLE:
            await self.client.start_background_job(sandbox_id, command)

    async def _give_python(self, sandbox: Sandbox) -> None:
        """An ordinary user's sandboxes cannot take it where /usr of this machine is read-only; that is said once."""
        try:
            await put_file(sandbox, "/usr/local/bin/python", _PYTHON, mode=0o755)
        except SandboxError as error:
            if HOST not in self._replaced:
                self._replaced.add(HOST)
                _log.warning(
                    "no command is called python in these sandboxes, only python3, and none could be added (%s);"
                    " install one on this machine: apt-get install python-is-python3",
                    error,
                )

    async def _forget(self, sandbox_id: str) -> None:
        self._states.pop(sandbox_id, None)
        await self.client.remove(sandbox_id)

    @asynccontextmanager
    async def _open(self, request: Any) -> AsyncIterator[SandboxView]:
        """A sandbox that a hook asks for, of no rollout."""
        settings = with_resources(self.settings, vars_of(request))
        image = getattr(request, "docker_image", None) or DEFAULT_IMAGE
        env = dict(getattr(request, "environment_vars", None) or {})
        async with self._backend.use() as machinery:
            resolved = await machinery.images.resolve(ImageRequest(image, asked_by="user"), settings.policy)
            capabilities = await machinery.backend.probe()
            spec = settings.sandbox_spec(resolved.image, capabilities, WORKDIR, env)
            async with open_sandbox(machinery.backend, spec) as sandbox:
                yield SandboxView(sandbox, network=settings.reach(capabilities), env=env)

    async def release(self, state: State) -> None:
        """Give back everything a rollout holds, and destroy its sandbox."""
        await rollout_of(state).resources.aclose()

    async def keep(self, state: State) -> None:
        """Leave a rollout its sandbox until somebody releases it, or the event loop ends."""
        rollout = rollout_of(state)
        held = KeptOpen(rollout.resources)
        rollout.resources, rollout.kept = AsyncExitStack(), True
        rollout.resources.push_async_callback(held.close)
        await held.open()


def _lacks_python(state: State) -> bool:
    """Whether this machine stands in for an image of Python and has none under that name."""
    stands_in = state["image_used"] == HOST and is_plain_python(state["docker_image"])
    return stands_in and shutil.which("python", path=DEFAULT_PATH) is None
