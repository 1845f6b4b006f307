"""A task as loaded: its configuration, the files that matter, its verifier, and what looked odd about it."""

from pathlib import Path
from typing import Literal

from seatrial.model.base import StrictModel
from seatrial.model.output import OutputSpec, VerifierSpec
from seatrial.model.task import StepSpec, TaskConfig

Severity = Literal["error", "warning", "note"]


class Problem(StrictModel):
    """Something wrong or odd about a task; `code` is stable, `fix` says what to do."""

    code: str
    severity: Severity
    message: str
    file: str
    key: str | None = None
    fix: str | None = None

    def __str__(self) -> str:
        where = f"{self.file}: {self.key}" if self.key else self.file
        return f"{where}: {self.message}"


class TaskLayout(StrictModel):
    """Which of the files a task may bring are there, as paths relative to its folder."""

    instruction: str | None = None
    test_script: str | None = None
    solution_script: str | None = None
    dockerfile: str | None = None
    compose_file: str | None = None
    verifier_dockerfile: str | None = None
    verifier_compose_file: str | None = None
    trajectory: str | None = None
    rubric: str | None = None
    environment_files: bool = False


class TaskStep(StrictModel):
    """One step of a multi-step task with its own instruction, tests and expected output."""

    spec: StepSpec
    layout: TaskLayout
    verifier: VerifierSpec
    output: OutputSpec


class Task(StrictModel):
    """One loaded task. `id` is its path within the dataset, unique there; file contents are read when needed."""

    id: str
    name: str
    root: Path
    workdir: str
    config: TaskConfig
    layout: TaskLayout
    verifier: VerifierSpec
    output: OutputSpec
    steps: tuple[TaskStep, ...] = ()
    problems: tuple[Problem, ...] = ()


class BrokenTask(StrictModel):
    """A folder that was meant as a task and cannot be read as one."""

    id: str
    root: Path
    problems: tuple[Problem, ...]


class SkippedFolder(StrictModel):
    """A folder discovery passed over on purpose."""

    path: Path
    reason: str
