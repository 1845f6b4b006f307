"""ToolEnv: a conversation in which the model calls Python functions and reads what they return.

StatefulToolEnv is one whose tools have arguments that the environment gives. How a function becomes a table for the
model is in `tool_tables`.
"""

import inspect
import json
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Literal

from seatrial.env.hooks import blaming, in_daemon_thread, is_of_hook, maybe_await, stop
from seatrial.env.messages import Message, Messages, ToolCall, as_messages, called_tools
from seatrial.env.monitors import ToolMonitorRubric
from seatrial.env.rollout import State
from seatrial.env.tool_tables import Tool, ToolTable, tool_name, tool_table
from seatrial.env.turns import MultiTurnEnv
from seatrial.errors import InfraError, ModelError, ToolCallError, ToolError, ToolParseError, UsageError

_PARTS = frozenset({"text", "image_url"})


class NoSuchToolError(KeyError):
    """The model called a tool that there is not."""

    def __str__(self) -> str:
        return str(self.args[0])


class ToolEnv(MultiTurnEnv):
    """The model is offered `tools`; a rollout ends when it answers without calling one.

    What a tool raises, arguments that cannot be read and tools that there are not become messages that the model can
    read, in the words of `error_formatter`. An error of a type among `stop_errors` ends the rollout with a ToolError
    instead; one of the sandbox or of this machine always ends it, as what it is. Plain functions run in threads, so
    they may wait; with `sync_tools="loop"` they run one at a time on the event loop, and all rollouts wait for them.
    """

    def __init__(
        self,
        tools: Sequence[Tool] | None = None,
        max_turns: int = 10,
        error_formatter: Callable[[Exception], str] = str,
        stop_errors: Sequence[type[Exception]] | None = None,
        *,
        sync_tools: Literal["thread", "loop"] = "thread",
        **kwargs: Any,
    ) -> None:
        if given := {"tool_defs", "oai_tools"} & kwargs.keys():
            raise UsageError(f"{type(self).__name__} makes {min(given)} itself, from `tools`: leave it out")
        super().__init__(max_turns=max_turns, **kwargs)
        if sync_tools not in ("thread", "loop"):
            raise UsageError(f"sync_tools is {sync_tools!r}, expected 'thread' or 'loop'")
        self.error_formatter = error_formatter
        self.stop_errors = list(stop_errors or ())
        self.sync_tools = sync_tools
        self.tools: list[Tool] = []
        self.tool_map: dict[str, Tool] = {}
        self.tool_defs: list[ToolTable] = []
        self.tool_monitor_rubric = ToolMonitorRubric()
        self.add_rubric(self.tool_monitor_rubric)
        for tool in tools or ():
            self._offer_tool(tool, tool_table(tool))

    def add_tool(self, tool: Tool) -> None:
        """Offer another tool, to rollouts that begin from now on. Raises UsageError for one that cannot be offered."""
        self._offer_tool(tool, tool_table(tool))

    def remove_tool(self, tool: Tool) -> None:
        """Offer a tool no longer. Raises UsageError when it is not offered."""
        name = tool_name(tool)
        if name not in self.tool_map:
            raise UsageError(f"{type(self).__name__} has no tool {name}; {self._tool_names()}")
        self.tools = [each for each in self.tools if tool_name(each) != name]
        self.tool_defs = [each for each in self.tool_defs if each["function"]["name"] != name]
        del self.tool_map[name]
        self.tool_monitor_rubric.remove_tool_metric(name)

    def _offer_tool(self, tool: Tool, table: ToolTable) -> None:
        name = tool_name(tool)
        if name in self.tool_map:
            raise UsageError(f"{type(self).__name__} has two tools called {name}: give one of them another __name__")
        self.tools.append(tool)
        self.tool_map[name] = tool
        self.tool_defs.append(table)
        self.tool_monitor_rubric.add_tool_metric(name)

    @stop
    async def no_tools_called(self, state: State) -> bool:
        last = state["trajectory"][-1]["completion"][-1] if state["trajectory"] else None
        return last is not None and last["role"] == "assistant" and not called_tools(last)

    async def env_response(self, messages: Messages, state: State, **kwargs: Any) -> Messages | str:
        """What the tools return that the model's last message calls, one after the other in the order of the calls."""
        answers: Messages = []
        for call in called_tools(messages[-1]):
            answers.extend(await self._answer_call(call, messages, state, **kwargs))
        return answers

    async def call_tool(
        self, tool_name: str, tool_args: dict[str, Any], tool_call_id: str, **kwargs: Any
    ) -> Message | Any:
        """The message with what a tool returns. Raises whatever the tool does."""
        tool = self.tool_map.get(tool_name)
        if tool is None:
            raise NoSuchToolError(f"there is no tool {tool_name!r}; {self._tool_names()}")
        content = as_content(await self._run_tool(tool, tool_args))
        return {"role": "tool", "content": content, "tool_call_id": tool_call_id}

    async def prepare_args(self, call: ToolCall, arguments: dict[str, Any], **_: Any) -> dict[str, Any]:
        """What a tool is called with, from what the model gave: just that."""
        return arguments

    async def _answer_call(self, call: ToolCall, messages: Messages, state: State, **kwargs: Any) -> Messages:
        try:
            given = _read_arguments(call)
        except Exception as error:  # noqa: BLE001 - the model hears of it
            return [self._tool_failure(call, error, ToolParseError)]
        arguments = await self.prepare_args(call, given, messages=messages, state=state, **kwargs)
        try:
            return as_messages(await maybe_await(self.call_tool(call.name, arguments, call.id)))
        except (InfraError, ModelError):  # says nothing of the model
            raise
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            if not is_of_hook(error):
                raise
            return [self._tool_failure(call, error, ToolCallError)]

    def _tool_failure(self, call: ToolCall, error: BaseException, kind: type[ToolError]) -> Message:
        """The message that tells the model what went wrong. Raises it where it is to end the rollout."""
        exits = RuntimeError(f"the tool wanted to exit: {error}".removesuffix(": "))
        known = error if isinstance(error, Exception) else exits
        if isinstance(known, tuple(self.stop_errors)):
            raise kind(f"the tool {call.name}: {type(known).__name__}: {known}") from error
        with blaming("error_formatter"):
            content = as_content(self.error_formatter(known))
        return {"role": "tool", "content": content, "tool_call_id": call.id}

    async def _run_tool(self, tool: Tool, arguments: Mapping[str, Any]) -> Any:
        if inspect.iscoroutinefunction(tool) or self.sync_tools == "loop":
            return await maybe_await(tool(**arguments))
        return await maybe_await(await in_daemon_thread(partial(tool, **arguments)))

    def _tool_names(self) -> str:
        return f"there are {', '.join(self.tool_map)}" if self.tool_map else "there are none"


def as_content(result: Any) -> Any:
    """What a tool returned, as the content of a message: text, unless it is a list of parts of text and images."""
    is_parts = isinstance(result, list) and bool(result)
    if is_parts and all(isinstance(part, Mapping) and part.get("type") in _PARTS for part in result):
        return result
    return str(result).encode(errors="replace").decode()  # halves of characters cannot be sent


def _read_arguments(call: ToolCall) -> dict[str, Any]:
    given = call.arguments if isinstance(call.arguments, Mapping) else json.loads(call.arguments)
    if not isinstance(given, Mapping):
        raise TypeError(f"the arguments of {call.name} are {repr(given)[:200]}, expected a table of names and values")
    return dict(given)


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
        super().remove_tool(tool)
        self.skipped_args.pop(tool_name(tool), None)

    @abstractmethod
    def update_tool_args(
        self, tool_name: str, tool_args: dict[str, Any], messages: Messages, state: State, **kwargs: Any
    ) -> Any:
        """What a tool is called with, from what the model gave: a table, or a coroutine of one."""

    async def prepare_args(self, call: ToolCall, arguments: dict[str, Any], **context: Any) -> dict[str, Any]:
        hidden = self.skipped_args.get(call.name, ())
        shown = {name: value for name, value in arguments.items() if name not in hidden}
        with blaming("update_tool_args"):
            updated = await maybe_await(self.update_tool_args(call.name, shown, **context))
            return dict(updated)
