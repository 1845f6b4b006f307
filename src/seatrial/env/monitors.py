"""How a rollout went, as metrics that environments report by themselves beside their rewards."""

from collections.abc import Sequence
from typing import Any

from seatrial.env.messages import Messages, called_tools
from seatrial.env.rollout import State
from seatrial.env.rubric import Rubric


class MonitorRubric(Rubric):
    """A rubric of metrics only. The reward is not its concern, also where nothing else sets it."""

    async def score_rollout(self, state: State) -> None:
        reward = state["reward"]
        await super().score_rollout(state)
        state["reward"] = reward


class StepMonitorRubric(MonitorRubric):
    """Reports `STEP/NAME` for each number that is known of a step; of steps that were not played, there is none."""

    async def score_rollout(self, state: State) -> None:
        steps = state.get("step_metrics") or {}
        state["metrics"] = {f"{step}/{name}": value for step, known in steps.items() for name, value in known.items()}


async def num_turns(state: State) -> float:
    return float(len(state["trajectory"]))


async def agent_timeout(state: State) -> float:
    return float(bool(state.get("agent_timed_out")))


async def agent_error(state: State) -> float:
    """Whether the agent ended with an exit code other than 0."""
    return float(bool(state.get("agent_exit_code")))


async def sandbox_oom(state: State) -> float:
    """Whether something in the sandbox was ended for want of memory."""
    return float(bool(state.get("sandbox_oom")))


async def sandbox_timeout(state: State) -> float:
    """Whether the time of the sandbox itself ran out; the rollout's own time ends first."""
    return float(bool(state.get("sandbox_timeout")))


async def sandbox_ready_wait_time(state: State) -> float:
    return float(_known(state, "sandbox_state").get("ready_wait_time", 0.0))


async def sandbox_command_execution_time(state: State) -> float:
    """How many seconds a command of the model's took on average; 0 without any."""
    seconds = _known(state, "sandbox_state").get("command_execution_times")
    return sum(seconds) / len(seconds) if seconds else 0.0


async def python_ready_wait_time(state: State) -> float:
    """How many seconds it took to start the interpreters of a rollout; 0 if the model ran no code."""
    return float(_known(state, "python_state").get("ready_wait_time", 0.0))


OF_AGENTS = (sandbox_oom, sandbox_timeout, agent_timeout, agent_error)
OF_SANDBOXES = (sandbox_ready_wait_time, sandbox_command_execution_time)


def _known(state: State, name: str) -> dict[str, Any]:
    """What an environment keeps of a rollout under a name; a subclass may have put something else there."""
    table = state.get(name)
    return table if isinstance(table, dict) else {}


# Calls of tools.


class ToolMonitorRubric(MonitorRubric):
    """Counts calls: `total_tool_calls`, and for each tool that it knows `NAME_calls`."""

    def __init__(self, tool_names: Sequence[str] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.tool_names: list[str] = []
        self.add_metric(self.total_tool_calls)
        for name in tool_names or ():
            self.add_tool_metric(name)

    async def total_tool_calls(self, completion: Messages) -> float:
        return float(sum(len(called_tools(message)) for message in completion))

    def add_tool_metric(self, name: str) -> None:
        if name not in self.tool_names:
            self.tool_names.append(name)
            self.add_metric(_CallsOf(name))

    def remove_tool_metric(self, name: str) -> None:
        if name in self.tool_names:
            at = self.tool_names.index(name) + 1  # behind the total
            del self.tool_names[at - 1], self.funcs[at], self.weights[at]


class _CallsOf:
    """Counts the calls of one tool; not a closure, so that environments can be sent to another process."""

    def __init__(self, tool: str) -> None:
        self.tool = tool
        self.__name__ = f"{tool}_calls"

    async def __call__(self, completion: Messages) -> float:
        return float(sum(call.name == self.tool for message in completion for call in called_tools(message)))
