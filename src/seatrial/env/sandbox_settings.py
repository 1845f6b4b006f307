"""What environments with sandboxes may be told about them: image, machine, network. And which image is really used.

That decision is made here and nowhere else. An image that cannot be had is replaced only where that is allowed, with a
warning, and the rollout says what it ran in.
"""

import fnmatch
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from seatrial.errors import HostUnsupportedError, UsageError
from seatrial.model.config import NetworkPolicy
from seatrial.model.job import TrialOptions
from seatrial.model.record import LimitSpec
from seatrial.sandbox.api import HOST_IMAGE, Capabilities, Image, Network, SandboxSpec
from seatrial.trial.place import choose_network, limits_to_set

ImageFallback = Literal["python", "host", "refuse"]
"""For which images this machine's own system stands in: for those that only have Python, for all, for none."""

DEFAULT_IMAGE = "python:3.11-slim"
WORKDIR = "/app"
_PLAIN_PYTHON = re.compile(r"((docker\.io/)?library/)?python(:[\w.-]+)?")


def is_plain_python(image: str) -> bool:
    """Whether an image has Python and nothing else that a task could count on."""
    return _PLAIN_PYTHON.fullmatch(image) is not None


@dataclass(frozen=True, slots=True)
class ImageChoice:
    """The image to use, `host` or a directory with a root file system, and what made it so."""

    image: str
    by: Literal["asked", "setting", "fallback"]


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """`image` and `image_map` name a directory with a root file system, or `host` for this machine's own system.

    With the image `auto`, what a rollout asks for is looked up in the map (keys may have `*`), and `image_fallback`
    says what happens to the others. Resources that are None are as the task says, or bounded by the machine.
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

    def choose_image(self, asked: str) -> "ImageChoice":
        """What to use for the image that a rollout asks for. Raises HostUnsupportedError."""
        if self.image != "auto":
            return ImageChoice(self.image, "setting")
        if asked == "host" or Path(asked).is_absolute():
            return ImageChoice(asked, "asked")
        for pattern, mapped in self.image_map.items():
            if fnmatch.fnmatchcase(asked, pattern):
                return ImageChoice(mapped, "setting")
        if self.image_fallback == "host" or (self.image_fallback == "python" and is_plain_python(asked)):
            return ImageChoice("host", "fallback")
        raise HostUnsupportedError(
            f"the image {asked} is not here and cannot be fetched yet; say image_map={{{asked!r}: DIRECTORY}} for a "
            "root file system of yours, image_fallback='host' to run on this machine's own system, or image='host' "
            "to run all rollouts there"
        )

    def sandbox_spec(self, image: str, capabilities: Capabilities, workdir: str, env: Mapping[str, str]) -> SandboxSpec:
        """What to make for a rollout that has no task."""
        return SandboxSpec(
            image=HOST_IMAGE if image == "host" else Image(image, layers=(Path(image).resolve(),)),
            limits=limits_to_set(self.limits, capabilities),
            enforcement=self.enforcement,
            workdir=workdir,
            env=env,
        )

    def reach(self, capabilities: Capabilities) -> Network:
        """Whom commands of a rollout that has no task may reach. Raises HostUnsupportedError."""
        policy = NetworkPolicy(mode="public" if self.network == "public" else "no-network")
        return choose_network(policy, TrialOptions(enforcement=self.enforcement), capabilities)


def _megabytes(gigabytes: float | None) -> int | None:
    return None if gigabytes is None else max(1, round(gigabytes * 1024))
