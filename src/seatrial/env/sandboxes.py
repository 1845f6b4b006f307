"""The sandboxes of an environment's rollouts: their settings, the backend that makes them, and who holds which.

All rollouts share one backend with its images. To open it takes longer than a small rollout, so it stays open for a
moment after the last one. An environment may be used from several event loops, one after the other or in threads; a
backend belongs to one. What hooks do in a sandbox is in `sandbox_client`.
"""

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from seatrial.backends.named import check_backend
from seatrial.concurrency import finish
from seatrial.env.rollout import State, rollout_of
from seatrial.env.sandbox_client import LoopResource, SandboxClient, SandboxView
from seatrial.errors import HookError, HostUnsupportedError, SandboxError, UsageError
from seatrial.images.choice import HOST, ImagePolicy, ImageRequest, is_plain_python
from seatrial.model.arguments import as_names, as_table, one_of, positive
from seatrial.model.job import ImageFallback, TrialOptions
from seatrial.model.record import LimitSpec
from seatrial.model.task import NetworkPolicy
from seatrial.sandbox.api import (
    DEFAULT_PATH,
    Capabilities,
    Image,
    Network,
    Sandbox,
    SandboxBackend,
    SandboxSpec,
    open_sandbox,
)
from seatrial.sandbox.transfer import put_file

if TYPE_CHECKING:  # everything a trial needs: the first rollout imports it
    from seatrial.images.resolver import ResolvedImage
    from seatrial.trial.spec import Machinery

DEFAULT_IMAGE = "python:3.11-slim"
WORKDIR = "/app"
_LIMITS = ("cpu_cores", "memory_gb", "disk_size_gb")
_LINGER_SEC = 2.0
_IDLE = "tail -f /dev/null"
"""What keeps containers alive; sandboxes here live without."""

_PYTHON = b'#!/bin/sh\nexec python3 "$@"\n'
"""Images of Python have it under this name too; many systems do not."""

_NO_SERVICE = "sandboxes are made on this machine, without an account or a service"
_NO_CONNECTIONS = "there are no connections to a service of sandboxes"
WITHOUT_EFFECT: Mapping[str, str] = {
    "interception_url": "agents find the model inside their sandbox, and no tunnel leads there",
    "team_id": _NO_SERVICE,
    "advanced_configs": _NO_SERVICE,
    "labels": "sandboxes here have no labels",
    "sandbox_client_max_workers": "the client needs no threads",
    "sandbox_client_max_connections": _NO_CONNECTIONS,
    "sandbox_client_max_keepalive_connections": _NO_CONNECTIONS,
    "sandbox_wait_for_creation_max_attempts": "a sandbox that is made is ready",
    "sandbox_creations_per_minute": "rollouts wait for room on this machine instead",
    "timeouts": "they are those of requests to a service of sandboxes",
}
"""Arguments that are taken and kept, and why they change nothing."""

_log = logging.getLogger(__name__)


# Settings.


@dataclass(frozen=True, slots=True)
class SandboxTimeouts:
    """How long requests to a service of sandboxes may take, in seconds. There is none here: nothing is done by it."""

    read_file: int = 10
    extract: int = 60
    poll: int = 60
    mkdir: int = 10


_CHOICES = {
    "network": ("public", "none"),
    "enforcement": ("required", "partial"),
    "image_fallback": get_args(ImageFallback),
}


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """What may be said about the sandboxes of an environment.

    Resources that are None are as the task says, or bounded by the machine. What has no effect is taken for the sake of
    environments that were written for hosted sandboxes: see WITHOUT_EFFECT.
    """

    start_command: str | None = None
    """Runs in a sandbox all the time."""
    cpu_cores: float | None = None
    memory_gb: float | None = None
    disk_size_gb: float | None = None
    gpu_count: int = 0
    timeout_minutes: float | None = None
    """After this time a rollout ends."""
    environment_vars: Mapping[str, str] | None = None
    team_id: str | None = None
    advanced_configs: Any = None
    labels: Sequence[str] | None = None
    max_retries: int = 5
    """How often `with_retry` repeats something; after which pauses is in the four fields below."""
    base_delay: float = 0.5
    backoff_factor: float = 2.0
    max_backoff_seconds: float = 30.0
    jitter: float = 1e-3
    sandbox_client_max_workers: int | None = None
    sandbox_client_max_connections: int | None = None
    sandbox_client_max_keepalive_connections: int | None = None
    sandbox_wait_for_creation_max_attempts: int | None = None
    sandbox_creations_per_minute: float | None = None
    timeouts: Any = SandboxTimeouts()
    keep_sandbox_for_scoring: bool = False
    """Whether the sandbox of a rollout stays until the rubric has scored."""
    _: KW_ONLY
    backend: str | SandboxBackend = "embedded"
    """The name of a sandbox backend, or one that is open."""
    image: str = "auto"
    """An image, a directory with a root file system, or `host`: this machine's own system. With `auto`, what a rollout
    asks for is looked up in the map."""
    image_map: Mapping[str, str] | None = None
    """Images by the names that rollouts ask for; keys may have `*`."""
    image_fallback: ImageFallback = "python"
    """For which images that cannot be had this machine's own system may stand in."""
    network: Literal["public", "none"] = "public"
    enforcement: Literal["required", "partial"] = "required"

    @classmethod
    def take_from(cls, arguments: dict[str, Any]) -> Self:
        """What the arguments of an environment say about its sandboxes; they are no longer among them then."""
        names = [each.name for each in fields(cls)]
        return cls(**{name: arguments.pop(name) for name in names if name in arguments})

    def __post_init__(self) -> None:
        refuse_gpus(self.gpu_count)
        for name in ("cpu_cores", "memory_gb", "disk_size_gb"):
            positive(name, getattr(self, name), "what the task says")
        positive("timeout_minutes", self.timeout_minutes, "no such limit")
        for name, known in _CHOICES.items():
            one_of(name, getattr(self, name), known)
        for name in ("environment_vars", "image_map"):
            as_table(name, getattr(self, name))
        as_names("labels", self.labels or ())
        if not isinstance(self.backend, str) and not hasattr(self.backend, "probe"):
            raise UsageError(f"backend is {self.backend!r:.80}, expected the name of one, or one that is open")

    def seconds_within(self, seconds: float | None) -> float | None:
        """How long a rollout may take that may take so long, and no longer than its sandbox."""
        minutes = self.timeout_minutes
        known = [each for each in (seconds, None if minutes is None else 60 * minutes) if each is not None]
        return min(known, default=None)

    @property
    def limits(self) -> LimitSpec:
        return LimitSpec(
            cpus=self.cpu_cores, memory_mb=_megabytes(self.memory_gb), storage_mb=_megabytes(self.disk_size_gb)
        )

    @property
    def resources(self) -> dict[str, Any]:
        """What an environment says for all its sandboxes; None is as the task says, or bounded by the machine."""
        return {
            **{name: getattr(self, name) for name in _LIMITS},
            "gpu_count": self.gpu_count,
            "gpu_type": None,
            "vm": False,
            "timeout_minutes": self.timeout_minutes,
        }

    def with_resources(self, resources: Mapping[str, Any]) -> Self:
        """The settings with the limits that a hook names. Raises UsageError, or HookError for no table."""
        if not isinstance(resources, Mapping):
            raise HookError(f"get_sandbox_resources returned {type(resources).__name__}, expected a table of resources")
        refuse_gpus(resources.get("gpu_count") or 0)
        given = {name: resources[name] for name in _LIMITS if resources.get(name) is not None}
        return replace(self, **given) if given else self

    def for_request(self, request: Any) -> Self:
        """The settings with the limits that a request for a sandbox names, whichever class it is of."""
        return self.with_resources({name: getattr(request, name, None) for name in (*_LIMITS, "gpu_count")})

    @property
    def policy(self) -> ImagePolicy:
        return ImagePolicy(self.image, self.image_map or {}, self.image_fallback)

    def stands_in(self, asked: str, used: str) -> bool:
        """Whether this machine's own system is used for an image although that was not asked for.

        Raises HostUnsupportedError where that is not allowed.
        """
        if used != HOST or asked == HOST or self.image != "auto" or self.policy.instead_of(asked) is not None:
            return False
        if not self.policy.may_fall_back(asked):
            raise HostUnsupportedError(
                f"the image {asked} cannot be had here; say image_map={{{asked!r}: IMAGE}} to use another one instead, "
                "image_fallback='host' to run on this machine's own system where one cannot be had, or image='host' to "
                "run all rollouts there"
            )
        return True

    def sandbox_spec(
        self, image: Image, capabilities: Capabilities, workdir: str, env: Mapping[str, str]
    ) -> SandboxSpec:
        from seatrial.trial.place import limits_to_set  # noqa: PLC0415 - much, and only for the first rollout

        return SandboxSpec(
            image=image,
            limits=limits_to_set(self.limits, capabilities),
            enforcement=self.enforcement,
            workdir=workdir,
            env=env,
        )

    def reach(self, capabilities: Capabilities) -> Network:
        """Whom commands of a rollout that has no task may reach. Raises HostUnsupportedError."""
        from seatrial.trial.place import choose_network  # noqa: PLC0415 - much, and only for the first rollout

        policy = NetworkPolicy(mode="public" if self.network == "public" else "no-network")
        return choose_network(policy, TrialOptions(enforcement=self.enforcement), capabilities)


def refuse_gpus(count: int) -> None:
    if count:
        raise HostUnsupportedError(f"gpu_count={count}: no sandbox here has GPUs; leave it out")


def _megabytes(gigabytes: float | None) -> int | None:
    return None if gigabytes is None else max(1, round(gigabytes * 1024))


# The backend, shared by the rollouts of one event loop.


@dataclass(eq=False, slots=True)
class _OpenBackend:
    """The backend of one event loop, and how many use it."""

    ready: "asyncio.Future[Machinery]"
    users: int = 0
    closing: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def change(self, users: int) -> None:
        self.users += users
        self.changed.set()

    async def until_unwanted(self) -> None:
        """Wait until it has been unused for a moment, or is unused and to be closed."""
        while self.users or not self.closing:
            self.changed.clear()
            try:
                await asyncio.wait_for(self.changed.wait(), None if self.users else _LINGER_SEC)
            except TimeoutError:
                self.closing = True
            except asyncio.CancelledError:  # the event loop ends; those who still use it are ending too
                self.closing = True
                await finish(self.until_unwanted())
                raise


class SharedBackend:
    """A backend by name, opened for the first who uses it and closed after the last; or an open one of the caller's.

    What is worth telling of its images is logged. Raises UsageError for a name that there is not.
    """

    def __init__(self, given: str | SandboxBackend) -> None:
        if isinstance(given, str):
            check_backend(given)
        self._given = given
        self._kept: dict[asyncio.AbstractEventLoop, _OpenBackend] = {}
        self._keepers: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def use(self) -> AsyncIterator["Machinery"]:
        """The backend, open at least as long as the block lasts. Raises HostUnsupportedError or SandboxError."""
        loop = asyncio.get_running_loop()
        kept = self._kept.get(loop)
        if kept is None:
            kept = self._kept[loop] = _OpenBackend(loop.create_future())
            # It outlives its last user; the end of the event loop ends it too.
            keeper = asyncio.create_task(self._keep(kept))
            self._keepers.add(keeper)
            keeper.add_done_callback(self._keepers.discard)
        kept.change(+1)
        try:
            yield await asyncio.shield(kept.ready)
        finally:
            kept.change(-1)

    async def close(self) -> None:
        """Close the backend of this event loop as soon as it is unused; waits for that unless it is in use."""
        kept = self._kept.get(asyncio.get_running_loop())
        if kept is not None:
            kept.closing = True
            kept.change(0)
            if not kept.users:
                await asyncio.wait([keeper for keeper in self._keepers if keeper.get_loop() is kept.ready.get_loop()])

    async def _keep(self, kept: _OpenBackend) -> None:
        try:
            async with AsyncExitStack() as stack:
                kept.ready.set_result(await self._open(stack))
                try:
                    await kept.until_unwanted()
                finally:
                    self._forget(kept)  # before it closes: the next user opens another one
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            self._forget(kept)
            if kept.ready.done():
                _log.exception("the backend %s did not close as it should", self._given)
            else:
                kept.ready.set_exception(error)
                kept.ready.exception()  # seen: perhaps no user is left to raise it

    async def _open(self, stack: AsyncExitStack) -> "Machinery":
        from seatrial.jobs.machinery import open_machinery  # noqa: PLC0415 - much, and only needed to run something

        opening = open_machinery(self._given, observe=lambda notice: _log.warning("%s", notice.text))
        return await stack.enter_async_context(opening)

    def _forget(self, kept: _OpenBackend) -> None:
        if self._kept.get(kept.ready.get_loop()) is kept:
            del self._kept[kept.ready.get_loop()]


# The sandboxes that rollouts hold.


class RolloutSandboxes:
    """What environments with sandboxes have in common. What a rollout holds is on a stack that `release` unwinds.

    Sent to another process, it opens a backend of the same name there.
    """

    def __init__(self, settings: SandboxSettings, client: SandboxClient | None = None) -> None:
        self.settings = settings
        self.client = client or SandboxClient()
        self.client.opens = self._open
        self.backend = SharedBackend(settings.backend)
        self._replaced: set[str] = set()
        self._states: dict[str, State] = {}

    def __reduce__(self) -> tuple[type[Self], tuple[SandboxSettings, SandboxClient]]:
        if not isinstance(self.settings.backend, str):
            raise UsageError(
                "an environment with a backend that is open cannot be sent to another process; name one, as in "
                "backend='embedded'"
            )
        return type(self), (self.settings, self.client)

    async def machinery(self, state: State) -> "Machinery":
        return await rollout_of(state).resources.enter_async_context(self.backend.use())

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

    def note_image(self, state: State, asked: str, resolved: "ResolvedImage") -> None:
        """Note on the state what was asked for and what is used. Warn, once, of what was not asked for.

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
        settings = self.settings.for_request(request)
        image = getattr(request, "docker_image", None) or DEFAULT_IMAGE
        env = dict(getattr(request, "environment_vars", None) or {})
        async with self.backend.use() as machinery:
            resolved = await machinery.images.resolve(ImageRequest(image, asked_by="user"), settings.policy)
            capabilities = await machinery.backend.probe()
            spec = settings.sandbox_spec(resolved.image, capabilities, WORKDIR, env)
            async with open_sandbox(machinery.backend, spec) as sandbox:
                yield SandboxView(sandbox, network=settings.reach(capabilities), env=env)

    async def release(self, state: State) -> None:
        """Give back everything a rollout holds, and destroy its sandbox."""
        await rollout_of(state).resources.aclose()

    async def keep(self, state: State) -> None:
        """Leave a rollout its sandbox until it is released, or the event loop ends."""
        rollout = rollout_of(state)
        held = LoopResource(rollout.resources)
        rollout.resources, rollout.kept = AsyncExitStack(), True
        rollout.resources.push_async_callback(held.close)
        await held.open()


def _lacks_python(state: State) -> bool:
    """Whether this machine stands in for an image of Python and has none under that name."""
    stands_in = state["image_used"] == HOST and is_plain_python(state["docker_image"])
    return stands_in and shutil.which("python", path=DEFAULT_PATH) is None
