"""TaskOutline: a task as its folder has it, before anybody has thought about what its instruction asks for.

That is all a job of thousands of tasks needs to be planned; to read every instruction would take a third of the time.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from seatrial.model.loaded_task import Problem, Task, TaskLayout, TaskStep
from seatrial.model.task import StepSpec, TaskConfig
from seatrial.tasks.expected import resolve_output, resolve_verifier


class StepOutline(NamedTuple):
    """A step with the text of its instruction."""

    spec: StepSpec
    layout: TaskLayout
    instruction: str


@dataclass(frozen=True, slots=True)
class TaskOutline:
    """A task that can be read; `schema` is the JSON Schema that it declares for its output."""

    id: str
    root: Path
    workdir: str
    config: TaskConfig
    layout: TaskLayout
    instruction: str
    schema: dict[str, Any] | None
    steps: tuple[StepOutline, ...]
    problems: tuple[Problem, ...]

    @property
    def name(self) -> str:
        """What it calls itself, else what its folder is called."""
        return self.config.package.name or self.root.name

    def task(self) -> Task:
        steps = tuple(map(self._step, self.steps))
        if steps and self.layout.instruction is None:
            output = steps[-1].output
        else:
            output = resolve_output(self.config, self.config.verifier, self.instruction, self.workdir, self.schema)
        script = self.layout.test_script or (steps[-1].layout.test_script if steps else None)
        return Task(
            id=self.id,
            name=self.name,
            root=self.root,
            workdir=self.workdir,
            config=self.config,
            layout=self.layout,
            verifier=resolve_verifier(self.config.verifier, output, script),
            output=output,
            steps=steps,
            problems=self.problems,
        )

    def _step(self, step: StepOutline) -> TaskStep:
        output = resolve_output(self.config, step.spec.verifier, step.instruction, self.workdir, None)
        verifier = resolve_verifier(step.spec.verifier, output, step.layout.test_script)
        return TaskStep(spec=step.spec, layout=step.layout, verifier=verifier, output=output)
