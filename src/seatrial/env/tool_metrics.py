"""Metrics of tools: how often a model called any of them, and each."""

from collections.abc import Sequence
from typing import Any

from seatrial.env.messages import Messages
from seatrial.env.monitors import MonitorRubric
from seatrial.env.tool_calls import called_tools


class ToolMonitorRubric(MonitorRubric):
    """Counts calls: `total_tool_calls`, and for each tool that it knows `NAME_calls`."""

    def __init__(self, tool_names: Sequence[str] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.tool_names: list[str] = []
        self.add_metric(self.total_tool_calls)
        for name in tool_names or ():
            self.add_tool_metric(name)

    async def total_tool_calls(self, completion: Messages) -> float:
        """How many calls there were."""
        return float(sum(len(called_tools(message)) for message in completion))

    def add_tool_metric(self, name: str) -> None:
        """Count the calls of a tool; once is enough."""
        if name not in self.tool_names:
            self.tool_names.append(name)
            self.add_metric(_CallsOf(name))

    def remove_tool_metric(self, name: str) -> None:
        """Count the calls of a tool no longer."""
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
