"""What environments with sandboxes may be told about them: image, machine, network."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from seatrial.errors import HostUnsupportedError, UsageError
from seatrial.images.choice import HOST, ImagePolicy
from seatrial.model.config import NetworkPolicy
from seatrial.model.job import ImageFallback, TrialOptions
from seatrial.model.record import LimitSpec
from seatrial.sandbox.api import Capabilities, Image, Network, SandboxSpec

DEFAULT_IMAGE = "python:3.11-slim"
WORKDIR = "/app"


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """`image` and `image_map` name images, directories with a root file system, or `host`: this machine's own system.

    With the image `auto`, what a rollout asks for is looked up in the map (keys may have `*`), and `image_fallback`
    says for which images that cannot be had this machine's own system may stand in. Resources that are None are as the
    task says, or bounded by the machine.
    """

    image: str = "auto"
    image_map: Mapping[str, str] = field(default_factory=dict)
    image_fallback: ImageFallback = "python"
    cpu_cores: float | None = None
    memory_gb: float | None = None
    disk_size_gb: float | None = None
    gpu_count: int = 0
    network: Literal["public", "none"] = "public"
    enforcement: Literal["required", "partial"] = "required"
    labels: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.gpu_count:
            raise HostUnsupportedError(f"gpu_count={self.gpu_count}: no sandbox here has GPUs; leave it out")
        for name in ("cpu_cores", "memory_gb", "disk_size_gb"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise UsageError(f"{name}={value}: expected more than 0, or None for what the task says")

    @property
    def limits(self) -> LimitSpec:
        """The resources that were asked for."""
        return LimitSpec(
            cpus=self.cpu_cores, memory_mb=_megabytes(self.memory_gb), storage_mb=_megabytes(self.disk_size_gb)
        )

    @property
    def policy(self) -> ImagePolicy:
        """What is said about images."""
        return ImagePolicy(self.image, self.image_map, self.image_fallback)

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


def _megabytes(gigabytes: float | None) -> int | None:
    return None if gigabytes is None else max(1, round(gigabytes * 1024))
