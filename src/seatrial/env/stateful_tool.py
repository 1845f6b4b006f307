"""StatefulToolEnv: tools with arguments that the environment gives and the model does not see."""

from abc import abstractmethod
from collections.abc import Collection
from functools import cached_property
from typing import Any

from seatrial.env.hooks import blaming, settled
from seatrial.env.messages import Messages
from seatrial.env.state import State
from seatrial.env.tool_calls import CalledTool
from seatrial.env.tool_env import ToolEnv
from seatrial.env.tool_schema import Tool, tool_name, tool_table


class StatefulToolEnv(ToolEnv):
    """A ToolEnv whose `update_tool_args` says what a tool is really called with, knowing the rollout.

    Arguments that `add_tool` skips are not in what the model is told, and what it gives for them is dropped.
    """

    @cached_property
    def skipped_args(self) -> dict[str, list[str]]:
        """The arguments of each tool that the model does not see."""
        return {}

    def add_tool(self, tool: Tool, args_to_skip: Collection[str] = ()) -> None:
        """Offer another tool, without the arguments to skip. Raises UsageError for one that cannot be offered."""
        self._offer_tool(tool, tool_table(tool, args_to_skip))
        self.skipped_args[tool_name(tool)] = list(args_to_skip)

    def remove_tool(self, tool: Tool) -> None:
        """Offer a tool no longer."""
        super().remove_tool(tool)
        self.skipped_args.pop(tool_name(tool), None)

    @abstractmethod
    def update_tool_args(
        self, tool_name: str, tool_args: dict[str, Any], messages: Messages, state: State, **kwargs: Any
    ) -> Any:
        """What a tool is called with, from what the model gave: a table, or a coroutine of one."""

    async def prepare_args(self, call: CalledTool, arguments: dict[str, Any], **context: Any) -> dict[str, Any]:
        """What `update_tool_args` makes of what the model gave."""
        hidden = self.skipped_args.get(call.name, ())
        shown = {name: value for name, value in arguments.items() if name not in hidden}
        with blaming("update_tool_args"):
            updated = await settled(self.update_tool_args(call.name, shown, **context))
            return dict(updated)
