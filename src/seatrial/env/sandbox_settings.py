"""What environments with sandboxes may be told about them: image, machine, network."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, Literal, Self

from seatrial.errors import HostUnsupportedError, UsageError
from seatrial.images.choice import HOST, ImagePolicy
from seatrial.model.config import NetworkPolicy
from seatrial.model.job import ImageFallback, TrialOptions
from seatrial.model.record import LimitSpec
from seatrial.sandbox.api import Capabilities, Image, Network, SandboxBackend, SandboxSpec

DEFAULT_IMAGE = "python:3.11-slim"
WORKDIR = "/app"

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


@dataclass(frozen=True, slots=True)
class SandboxTimeouts:
    """How long requests to a service of sandboxes may take, in seconds. There is none here: nothing is done by it."""

    read_file: int = 10
    extract: int = 60
    poll: int = 60
    mkdir: int = 10


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """`image` and `image_map` name images, directories with a root file system, or `host`: this machine's own system.

    With the image `auto`, what a rollout asks for is looked up in the map (keys may have `*`), and `image_fallback`
    says for which images that cannot be had this machine's own system may stand in. Resources that are None are as the
    task says, or bounded by the machine. `backend` is the name of a sandbox backend, or one that is open.
    `start_command` runs in a sandbox all the time. After `timeout_minutes` a rollout ends. With
    `keep_sandbox_for_scoring` its sandbox stays until the rubric has scored. How often and after which pauses
    `with_retry` repeats something is in `max_retries` and the four after it. What else is here is taken for the sake
    of environments that were written for hosted sandboxes, and has no effect: see WITHOUT_EFFECT.
    """

    start_command: str | None = None
    cpu_cores: float | None = None
    memory_gb: float | None = None
    disk_size_gb: float | None = None
    gpu_count: int = 0
    timeout_minutes: float | None = None
    environment_vars: Mapping[str, str] | None = None
    team_id: str | None = None
    advanced_configs: Any = None
    labels: Sequence[str] | None = None
    max_retries: int = 5
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
    _: KW_ONLY
    backend: str | SandboxBackend = "embedded"
    image: str = "auto"
    image_map: Mapping[str, str] | None = None
    image_fallback: ImageFallback = "python"
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
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise UsageError(f"{name}={value}: expected more than 0, or None for what the task says")

    def seconds_within(self, seconds: float | None) -> float | None:
        """How long a rollout may take that may take so long, and no longer than its sandbox."""
        minutes = self.timeout_minutes
        known = [each for each in (seconds, None if minutes is None else 60 * minutes) if each is not None]
        return min(known, default=None)

    @property
    def limits(self) -> LimitSpec:
        """The resources that were asked for."""
        return LimitSpec(
            cpus=self.cpu_cores, memory_mb=_megabytes(self.memory_gb), storage_mb=_megabytes(self.disk_size_gb)
        )

    @property
    def policy(self) -> ImagePolicy:
        """What is said about images."""
        return ImagePolicy(self.image, self.image_map or {}, self.image_fallback)

    def stands_in(self, asked: str, used: str) -> bool:
        """Whether this machine's own system is used for an image without anybody having asked for that.

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
        """What to make for a rollout that has no task."""
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
    """Raise HostUnsupportedError for a sandbox with GPUs."""
    if count:
        raise HostUnsupportedError(f"gpu_count={count}: no sandbox here has GPUs; leave it out")


def _megabytes(gigabytes: float | None) -> int | None:
    return None if gigabytes is None else max(1, round(gigabytes * 1024))
