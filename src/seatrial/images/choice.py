"""Which image to use: what a task asks for against what the run says. Pure; getting it is up to `resolver.py`.

A task is a stranger's: it names images by reference only. Folders and this machine's own system are for the run to say.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

from seatrial.errors import ImageError, UsageError
from seatrial.images.reference import parse_reference
from seatrial.model.job import AgentLayer, ImageFallback, LayerRecipe

HOST = "host"
# What Podman and its like take for a place of the machine, not for a name, when a colon follows.
_TRANSPORTS = frozenset(
    {"containers-storage", "dir", "docker-archive", "docker-daemon", "oci", "oci-archive", "ostree", "sif", "tarball"}
)
_PLAIN_PYTHON = re.compile(r"((docker\.io/)?library/)?python(:[\w.-]+)?")


@dataclass(frozen=True, slots=True)
class Setup:
    """How an agent gets into an image: by a layer, and on top of it by a shell command, or by one of the two."""

    command: str | None = None
    files: tuple[str, ...] = ()
    """What the agent's files, which the command finds, are known by."""
    pack: Callable[[], bytes] = field(default=bytes, compare=False)
    """Makes an archive of the files, to be unpacked at `/`; nothing at all where there are none."""
    layer: LayerRecipe | AgentLayer | None = field(default=None, hash=False)


class ImageRequest(NamedTuple):
    """What a task asks for: an image by name, or a Dockerfile to build it from in a folder, or neither.

    With `setup`, what that leaves behind is on top. Where the user's own program asks, `asked_by` says
    so: only then may the name be `host` or a folder.
    """

    reference: str | None = None
    dockerfile: Path | None = None
    build_timeout_sec: float | None = None
    setup: Setup | None = None
    asked_by: Literal["task", "user"] = "task"

    @property
    def title(self) -> str:
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


class ImagePlan(NamedTuple):
    """How to come by an image: `name` is a reference, a directory or a Dockerfile, whatever the kind needs."""

    kind: Literal["host", "directory", "fetch", "build"]
    name: str = HOST


def plan_image(request: ImageRequest, policy: ImagePolicy) -> ImagePlan:
    """How to come by the image for a task. One that is named goes before a Dockerfile, unless all are to be built.

    Raises ImageError for a name that no task may use.
    """
    if policy.image != "auto":
        return plan_named(policy.image)
    name = request.reference
    if name and (instead := policy.instead_of(name)):
        return plan_named(instead)
    if request.dockerfile and (name is None or policy.build == "always"):
        return ImagePlan("build", str(request.dockerfile))
    if name is None or request.asked_by == "user":
        return plan_named(name or HOST)
    return plan_asked(name)


def plan_asked(name: str) -> ImagePlan:
    """How to come by an image that a task or its Dockerfile names. Raises ImageError for one that none may name."""
    if reason := why_refused(name):
        raise ImageError(reason)
    return ImagePlan("fetch", name)


def plan_base(name: str, policy: ImagePolicy) -> ImagePlan:
    """How to come by an image that a Dockerfile builds on. Raises ImageError for one that none may name."""
    instead = policy.instead_of(name)
    return plan_named(instead) if instead else plan_asked(name)


@lru_cache(maxsize=1024)
def why_refused(name: str) -> str | None:
    """Why no task may use this name, and what the user can do about it; None for an ordinary reference."""
    if name == HOST:
        return _refusal(name, "this machine's own system")
    if name.startswith(("/", ".", "~")):
        return _refusal(name, "a path of this machine")
    if name.partition(":")[0] in _TRANSPORTS and ":" in name:
        return _refusal(name, "a place of this machine (for Podman)")
    try:
        parse_reference(name)
    except UsageError as error:
        return f"{error}; use another image in its place with --image-map '{name}=IMAGE'"
    return None


def _refusal(name: str, what: str) -> str:
    return (
        f"{name!r} is {what}, which no task may name; use an image or a folder in its place with "
        f"--image-map '{name}=PATH', or one for all tasks with --image"
    )


def plan_named(name: str) -> ImagePlan:
    """How to come by an image that the user names: `host`, an absolute path, or a reference."""
    if name == HOST:
        return ImagePlan("host")
    return ImagePlan("directory" if name.startswith("/") else "fetch", name)


def is_plain_python(reference: str) -> bool:
    """Whether an image has Python and next to nothing else."""
    return _PLAIN_PYTHON.fullmatch(reference) is not None
