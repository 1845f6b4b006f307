"""What the agent was asked to do, from the task's own folder, if that is still what it was when the job began."""

from dataclasses import dataclass
from pathlib import Path

from seatrial.errors import SeatrialError
from seatrial.tasks.instruction import strip_canary
from seatrial.view.rendering.bounded import bounded, read_bounded
from seatrial.view.rendering.show import ShownFile, show_file
from seatrial.view.trial.opened import OpenedTrial
from seatrial.view.trial.task_folder import task_trouble

INSTRUCTION = "instruction.md"


@dataclass(frozen=True, slots=True)
class ShownInstruction:
    """The instruction of a task or of a step, or why it cannot be shown."""

    step: str | None
    shown: ShownFile | None
    trouble: str = ""


def instructions_of(trial: OpenedTrial) -> list[ShownInstruction]:
    """What each round was asked to do."""
    task = trial.task
    if task is None:
        return [ShownInstruction(None, None, "The job does not say where its task is.")]
    if trouble := task_trouble(task):
        return [ShownInstruction(None, None, trouble)]
    return [_instruction(Path(task.root), step) for step in trial.rounds]


def _instruction(root: Path, step: str | None) -> ShownInstruction:
    path = Path("steps", step, INSTRUCTION) if step else Path(INSTRUCTION)
    try:
        text = strip_canary(read_bounded(path, root).text())
    except SeatrialError as error:
        return ShownInstruction(step, None, str(error))
    return ShownInstruction(step, show_file(INSTRUCTION, bounded(text.encode())))
