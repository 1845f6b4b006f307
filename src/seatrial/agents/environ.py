"""The environment variables every agent finds, whichever it is."""

from collections.abc import Mapping

from seatrial.model.task import Task

TASK_DIR = "/task"
INSTRUCTION_PATH = f"{TASK_DIR}/instruction.md"


def agent_variables(task: Task, workdir: str, model: str | None) -> Mapping[str, str]:
    """What names the task, its instruction, the place to work in, and the model if one was chosen."""
    named = {
        "HARBOR_TASK_NAME": task.id.rpartition("/")[2],  # its folder may be called otherwise on another machine
        "HARBOR_TASK_DIR": TASK_DIR,
        "HARBOR_INSTRUCTION_PATH": INSTRUCTION_PATH,
        "AGENT_WORKDIR": workdir,
    }
    return {**named, "OPENAI_MODEL": model} if model else named
