"""The agent that knows the answer: runs the task's own solution. A task on which it fails is broken."""

from collections.abc import Mapping

from seatrial.agents.api import AgentContext, AgentLaunch
from seatrial.errors import AgentSetupError, UsageError
from seatrial.model.config import TaskConfig
from seatrial.model.job import AgentOptions
from seatrial.model.record import AgentRef
from seatrial.tasks.environ import resolve_variables
from seatrial.tasks.outline import TaskOutline

_SOLUTION_DIR = "/solution"


class OracleAgent:
    """Lays out solution/ and runs its solve.sh or solve.py. Nobody else ever sees that folder."""

    is_reference = True

    def __init__(self, options: AgentOptions) -> None:
        if options.command is not None:
            raise UsageError(f"the agent {options.name!r} runs the task's own solution, so it takes no command")
        self._options = options

    @property
    def ref(self) -> AgentRef:
        """How records name it."""
        return AgentRef(name=self._options.title)

    def templates(self, config: TaskConfig) -> Mapping[str, str]:
        """What `[solution] env` asks for."""
        return config.solution_env

    def declines(self, task: TaskOutline) -> str | None:
        """A task without a solution, or with a step that has none."""
        if not task.steps:
            return None if task.layout.solution_script else "no solution"
        return None if all(step.layout.solution_script for step in task.steps) else "a step without a solution"

    def prepare(self, context: AgentContext) -> AgentLaunch | None:
        """The solution script. Raises AgentSetupError for a task that has none."""
        layout = context.step.layout if context.step else context.task.layout
        if layout.solution_script is None:
            place = f"step {context.step.spec.name!r}" if context.step else "the task"
            raise AgentSetupError(f"{place} has no solution/solve.sh or solution/solve.py for the oracle to run")
        folder, _, script = layout.solution_script.rpartition("/")
        path = f'"${{SANDBOX_ROOT:-}}{_SOLUTION_DIR}/{script}"'
        command = f"python3 {path}" if script.endswith(".py") else path
        return AgentLaunch(
            ("/bin/sh", "-c", command),
            env=resolve_variables(context.task.config.solution_env, context.allowed_env),
            trees={_SOLUTION_DIR: context.task.root / folder},
        )
