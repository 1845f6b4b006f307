"""Which image to use: what a task asks for against what the run says. Pure; getting it is up to `resolver.py`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from seatrial.model.job import ImageFallback

HOST = "host"
_PLAIN_PYTHON = re.compile(r"((docker\.io/)?library/)?python(:[\w.-]+)?")


@dataclass(frozen=True, slots=True)
class ImageRequest:
    """What a task asks for: an image by name, or a Dockerfile to build it from in a folder, or neither.

    With `setup`, a shell command, what that leaves behind is on top.
    """

    reference: str | None = None
    dockerfile: Path | None = None
    build_timeout_sec: float | None = None
    setup: str | None = None

    @property
    def title(self) -> str:
        """How to call it to people."""
        return self.reference or (str(self.dockerfile) if self.dockerfile else HOST)


@dataclass(frozen=True, slots=True)
class ImagePolicy:
    """What the run says: an `image` for all, or `auto` and what to use instead of some; patterns may have a `*`."""

    image: str = "auto"
    mapped: Mapping[str, str] = field(default_factory=dict, hash=False)
    fallback: ImageFallback = "python"
    build: Literal["missing", "always"] = "missing"

    def instead_of(self, name: str) -> str | None:
        """What the map has for a name."""
        return next((image for pattern, image in self.mapped.items() if fnmatchcase(name, pattern)), None)

    def may_fall_back(self, name: str) -> bool:
        """Whether this machine's own system may stand in for an image that cannot be had."""
        return self.fallback == "host" or (self.fallback == "python" and is_plain_python(name))


@dataclass(frozen=True, slots=True)
class ImagePlan:
    """How to come by an image: `name` is a reference, a directory or a Dockerfile, whatever the kind needs."""

    kind: Literal["host", "directory", "fetch", "build"]
    name: str = HOST


def plan_image(request: ImageRequest, policy: ImagePolicy) -> ImagePlan:
    """How to come by the image for a task. One that is named goes before a Dockerfile, unless all are to be built."""
    if policy.image != "auto":
        return plan_named(policy.image)
    name = request.reference
    if name and (instead := policy.instead_of(name)):
        return plan_named(instead)
    if request.dockerfile and (name is None or policy.build == "always"):
        return ImagePlan("build", str(request.dockerfile))
    return plan_named(name or HOST)


def plan_named(name: str) -> ImagePlan:
    """How to come by an image that goes by a name: `host`, an absolute path, or a reference."""
    if name == HOST:
        return ImagePlan("host")
    return ImagePlan("directory" if name.startswith("/") else "fetch", name)


def is_plain_python(reference: str) -> bool:
    """Whether an image has Python and next to nothing else."""
    return _PLAIN_PYTHON.fullmatch(reference) is not None
