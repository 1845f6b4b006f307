"""Any command line as an agent: it finds the instruction by HARBOR_INSTRUCTION_PATH and works in AGENT_WORKDIR."""

from collections.abc import Mapping

from seatrial.agents.api import AgentContext, AgentLaunch
from seatrial.errors import UsageError
from seatrial.model.config import TaskConfig
from seatrial.model.job import AgentOptions
from seatrial.model.record import AgentRef
from seatrial.tasks.environ import resolve_variables


class CommandAgent:
    """Runs the command of its options in a shell."""

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
        """How records name it."""
        return AgentRef(name=self._options.title, command=self._command, model=self._options.model)

    def templates(self, _: TaskConfig) -> Mapping[str, str]:
        """The variables its options ask for."""
        return self._options.env

    def prepare(self, context: AgentContext) -> AgentLaunch | None:
        """The command in a shell."""
        return AgentLaunch(("/bin/sh", "-c", self._command), env=resolve_variables(self._options.env, context.host_env))
