"""The agent that does nothing. A task on which it earns a reward has a verifier that gives rewards away."""

from collections.abc import Mapping

from seatrial.agents.api import AgentContext, AgentLaunch
from seatrial.errors import UsageError
from seatrial.model.config import TaskConfig
from seatrial.model.job import AgentOptions
from seatrial.model.record import AgentRef


class NoopAgent:
    """Leaves the sandbox as it finds it."""

    is_reference = True

    def __init__(self, options: AgentOptions) -> None:
        if options.command is not None:
            raise UsageError(f"the agent {options.name!r} runs nothing, so it takes no command")
        self._options = options

    @property
    def ref(self) -> AgentRef:
        """How records name it."""
        return AgentRef(name=self._options.title, model=self._options.model)

    def templates(self, _: TaskConfig) -> Mapping[str, str]:
        """Nothing of the host's."""
        return {}

    def prepare(self, _: AgentContext) -> AgentLaunch | None:
        """Nothing to run."""
        return None
