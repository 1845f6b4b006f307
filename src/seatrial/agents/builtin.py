"""The agents that are always there: any command line, one that does nothing, and one that knows the answer."""

from collections.abc import Mapping

from seatrial.agents.api import AgentContext, AgentLaunch
from seatrial.errors import AgentSetupError, UsageError
from seatrial.model.job import AgentOptions
from seatrial.model.record import AgentRef
from seatrial.model.task import TaskConfig
from seatrial.tasks.outline import TaskOutline
from seatrial.tasks.variables import resolve_variables

_SOLUTION_DIR = "/solution"


class CommandAgent:
    """Runs the command of its options in a shell, which finds HARBOR_INSTRUCTION_PATH and works in AGENT_WORKDIR."""

    def __init__(self, options: AgentOptions) -> None:
        if not options.command or not options.command.strip():
            raise UsageError(
                f"the agent {options.name!r} needs a command: --command 'python agent.py', or `command = …`"
            )
        if options.options or options.version:
            raise UsageError(
                f"the agent {options.title!r} is a command, which has no version and no options (--ak); put them into "
                "the command, or into a variable with --ae"
            )
        self._options = options
        self._command = options.command

    @property
    def ref(self) -> AgentRef:
        return AgentRef(name=self._options.title, command=self._command, model=self._options.model)

    def templates(self, _: TaskConfig) -> Mapping[str, str]:
        return self._options.env

    def prepare(self, context: AgentContext) -> AgentLaunch | None:
        return AgentLaunch(("/bin/sh", "-c", self._command), env=resolve_variables(self._options.env, context.host_env))


class NoopAgent:
    """Does nothing. A task on which it earns a reward has a verifier that gives rewards away."""

    is_reference = True

    def __init__(self, options: AgentOptions) -> None:
        if options.command is not None:
            raise UsageError(f"the agent {options.name!r} runs nothing, so it takes no command")
        self._options = options

    @property
    def ref(self) -> AgentRef:
        return AgentRef(name=self._options.title, model=self._options.model)

    def templates(self, _: TaskConfig) -> Mapping[str, str]:
        return {}

    def prepare(self, _: AgentContext) -> AgentLaunch | None:
        return None


class OracleAgent:
    """Lays out solution/ and runs its solve.sh or solve.py. A task on which it fails is broken.

    Nobody else ever sees that folder.
    """

    is_reference = True

    def __init__(self, options: AgentOptions) -> None:
        if options.command is not None:
            raise UsageError(f"the agent {options.name!r} runs the task's own solution, so it takes no command")
        self._options = options

    @property
    def ref(self) -> AgentRef:
        return AgentRef(name=self._options.title)

    def templates(self, config: TaskConfig) -> Mapping[str, str]:
        return config.solution_env

    def declines(self, task: TaskOutline) -> str | None:
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
