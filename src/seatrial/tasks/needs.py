"""What a task asks for that no sandbox here has: refused with the reason before its first trial, never left away.

Everything is known when a job is planned: task.toml, the folder's layout, and the compose file where there is one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

from seatrial.model.config import EnvironmentSpec, VerifierPhaseSpec
from seatrial.model.task import Task, TaskLayout, TaskStep
from seatrial.tasks.compose import MAX_COMPOSE_BYTES, compose_asks, is_meant
from seatrial.tasks.compose_service import Machine, quoted
from seatrial.tasks.layout import TaskFiles, read_file
from seatrial.tasks.machine import is_on_windows
from seatrial.tasks.outline import StepOutline, TaskOutline
from seatrial.tasks.toml import TASK_TOML

NeedCode = Literal["needs-windows", "needs-gpu", "needs-tpu", "needs-compose", "needs-environment"]

REASONS: dict[NeedCode, str] = {
    "needs-windows": "no sandbox here has Windows",
    "needs-gpu": "no sandbox here has GPUs",
    "needs-tpu": "no sandbox here has TPUs",
    "needs-compose": "a compose file asks for more than the Dockerfile gives",
    "needs-environment": "another kind of machine is needed",
}
"""Why a task is left out, in the words by which such tasks are counted."""

_FIXES: dict[NeedCode, str] = {
    "needs-windows": "run it where there are Windows containers",
    "needs-gpu": "run it elsewhere, or without them with --allow-partial-limits",
    "needs-tpu": "run it elsewhere, or without them with --allow-partial-limits",
    "needs-compose": "put it into the Dockerfile or task.toml, or run without it with --force",
    "needs-environment": "run it elsewhere, or in an ordinary sandbox with --force",
}
_ORDINARY_TYPES = frozenset({"docker", "container", "dockerfile", "image", "linux", "sandbox"})


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that cannot be had; `code` is stable, `what` is for the message."""

    code: NeedCode
    what: str
    file: str = "task.toml"
    key: str | None = None

    @property
    def fix(self) -> str:
        """What to do about it."""
        return _FIXES[self.code]

    def __str__(self) -> str:
        return f"{self.what} ({self.key or self.file})"


def needs_of(task: Task | TaskOutline, files: TaskFiles | None = None) -> tuple[Need, ...]:
    """Everything a task asks for and cannot get here, in a stable order. Never raises on its content.

    Whoever has just listed the folder can say which `files` it holds, and learns what was read of them.
    """
    config = task.config
    found = [*_of_machine(config.environment, "environment", config.extra), *_of_workdir(task)]
    if task.layout.compose_file:
        found += _of_compose(task, task.layout.compose_file, _agent_machine(task), files)
    found += _of_services(task)
    for key, phase, layout in _phases(task):
        found += _of_verifier(task, key, phase, layout, files)
    return tuple(dict.fromkeys(found))


def _of_machine(environment: EnvironmentSpec, key: str, extra: dict[str, Any]) -> Iterator[Need]:
    if environment.os == "windows":
        yield Need("needs-windows", "Windows", key=f"{key}.os")
    if environment.gpus:
        yield Need("needs-gpu", "a GPU" if environment.gpus == 1 else f"{environment.gpus} GPUs", key=f"{key}.gpus")
    if environment.tpu:
        yield Need("needs-tpu", f"a TPU of type {quoted(environment.tpu.type)}", key=f"{key}.tpu")
    kind = extra.get(f"{key}.type")
    if kind is not None and str(kind).lower() not in _ORDINARY_TYPES:
        yield Need("needs-environment", f"an environment of type {quoted(str(kind))}", key=f"{key}.type")
    if backend := extra.get(f"{key}.vm_backend"):
        yield Need("needs-environment", f"a virtual machine by {quoted(str(backend))}", key=f"{key}.vm_backend")
    nodes = extra.get(f"{key}.nodes")
    if (len(nodes) if isinstance(nodes, list | dict) else nodes) not in (None, 0, 1):
        yield Need("needs-environment", "several machines", key=f"{key}.nodes")


def _of_workdir(task: Task | TaskOutline) -> Iterator[Need]:
    environment = task.config.environment
    if environment.os != "windows" and is_on_windows(task.workdir):
        declared, file = environment.workdir is not None, task.layout.dockerfile or TASK_TOML
        what = f"Windows, for the folder {quoted(task.workdir)}"
        yield Need("needs-windows", what, TASK_TOML if declared else file, "environment.workdir" if declared else None)


def _of_compose(task: Task | TaskOutline, file: str, machine: Machine, files: TaskFiles | None) -> list[Need]:
    if not is_meant(file, has_image=machine.dockerfile or machine.image is not None):
        return []
    try:
        content, executable = read_file(f"{task.root}/{file}", MAX_COMPOSE_BYTES)
    except ValueError as error:
        return [Need("needs-compose", f"a compose file that cannot be read: {error}", file)]
    if files is not None:
        files.read[file] = executable, sha256(content).digest()
    return [Need("needs-compose", ask, file) for ask in compose_asks(content, machine)]


def _agent_machine(task: Task | TaskOutline) -> Machine:
    config = task.config
    environment, user = config.environment, config.agent.user
    return Machine(
        dockerfile=task.layout.dockerfile is not None,
        image=environment.docker_image,
        workdir=task.workdir,
        user=None if user is None else str(user),
        env=tuple(sorted(environment.env.items())),
        network=(config.agent.network or environment.network).mode,
        healthcheck=environment.healthcheck is not None,
    )


def _of_services(task: Task | TaskOutline) -> Iterator[Need]:
    """Hooks and artifacts of services that no compose file here brings up."""
    config = task.config
    phases = [("", config.verifier, config.artifacts)]
    phases += [(f"steps[{n}].", step.verifier, step.artifacts) for n, step in enumerate(config.steps)]
    for prefix, verifier, artifacts in phases:
        named: list[tuple[str, str | None]] = [(f"{prefix}verifier.collect", hook.service) for hook in verifier.collect]
        named += [(f"{prefix}artifacts", artifact.service) for artifact in artifacts]
        for key, service in named:
            if service not in (None, "main"):
                yield Need("needs-compose", f"the service {quoted(str(service))}", key=key)


def _phases(task: Task | TaskOutline) -> Iterator[tuple[str, VerifierPhaseSpec, TaskLayout]]:
    if not task.steps:
        yield "verifier.environment", task.config.verifier, task.layout
    steps: Sequence[TaskStep | StepOutline] = task.steps
    for index, step in enumerate(steps):
        yield f"steps[{index}].verifier.environment", step.spec.verifier, step.layout


def _of_verifier(
    task: Task | TaskOutline, key: str, phase: VerifierPhaseSpec, layout: TaskLayout, files: TaskFiles | None
) -> Iterator[Need]:
    """What a separate verifier asks for; one that shares the agent's sandbox has no machine of its own."""
    shared = task.config.verifier
    if "separate" not in (phase.environment_mode, shared.environment_mode):
        return
    environment = phase.environment or shared.environment
    if environment:
        yield from _of_machine(environment, key, task.config.extra)
    if layout.verifier_compose_file:
        machine = Machine(
            dockerfile=layout.verifier_dockerfile is not None,
            image=environment.docker_image if environment else None,
            env=tuple(sorted(environment.env.items())) if environment else (),
            network=(phase.network or (environment or task.config.environment).network).mode,
            user=None if phase.user is None else str(phase.user),
        )
        yield from _of_compose(task, layout.verifier_compose_file, machine, files)
