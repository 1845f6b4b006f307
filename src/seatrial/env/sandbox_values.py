"""What goes into a SandboxClient and comes out of it: requests for sandboxes, files, commands and background jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class SandboxRequest:
    """A sandbox that is wanted. What is None is as the task says, or bounded by the machine.

    Of the fields that hosted services know, `team_id`, `advanced_configs`, `labels` and `vm` have no effect.
    """

    name: str = ""
    docker_image: str | None = None
    start_command: str | None = None
    cpu_cores: float | None = None
    memory_gb: float | None = None
    disk_size_gb: float | None = None
    gpu_count: int = 0
    gpu_type: str | None = None
    vm: bool = False
    timeout_minutes: float | None = None
    environment_vars: Mapping[str, str] | None = None
    team_id: str | None = None
    advanced_configs: Any = None
    labels: Sequence[str] = field(default_factory=tuple)


@dataclass(frozen=True, slots=True)
class SandboxInfo:
    """A sandbox that is there."""

    id: str
    name: str = ""
    docker_image: str = ""
    status: str = "RUNNING"


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command ended. `exit_code` is None when its time ran out, negative for a signal."""

    stdout: str
    stderr: str
    exit_code: int | None

    @property
    def timed_out(self) -> bool:
        """Whether the command was ended because its time was over."""
        return self.exit_code is None


class FileText(str):
    """The text of a file. Clients of hosted sandboxes give an object with its `content`: so does this one."""

    __slots__ = ()

    @property
    def content(self) -> str:
        """The text itself."""
        return str(self)

    @property
    def size(self) -> int:
        """How many bytes it takes as UTF-8."""
        return len(self.encode())


@dataclass(frozen=True, slots=True)
class BackgroundJob:
    """A command that runs on while others do."""

    job_id: str
    sandbox_id: str
    command: str


@dataclass(frozen=True, slots=True)
class BackgroundJobStatus:
    """How far a background job has come; what it wrote and how it ended is known once it is completed."""

    job_id: str
    completed: bool
    exit_code: int | None = None
    stdout: str | None = None
    stderr: str | None = None


def image_name(given: Any) -> str:
    """The image that a hook names. Raises TypeError for what is no name."""
    if not isinstance(given, str) or not given:
        raise TypeError(f"it gave {given!r}, expected the name of an image")
    return given


def variables_for(given: Any) -> dict[str, str]:
    """The variables that a hook gives an agent. Raises TypeError for what no process can have."""
    if not isinstance(given, Mapping):
        raise TypeError(f"it gave {given!r}, expected a table of variables")
    for name, value in given.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"it gave {name!r} the value {value!r}, expected text")
    return dict(given)
