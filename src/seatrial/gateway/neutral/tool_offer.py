"""Offer: the tools that a model is offered, when those that only the agent's own provider can run are left out."""

from collections.abc import Sequence
from typing import NamedTuple, Self

from seatrial.gateway.neutral.losses import Losses
from seatrial.gateway.neutral.types import Tool, ToolChoice

PROVIDER_RUN = "only tools that the agent runs itself can be, and that are described by a schema"


class Offer(NamedTuple):
    """The tools of a request, which of them the model has to use, and whether several at once."""

    tools: tuple[Tool, ...] | None
    choice: ToolChoice | None
    parallel: bool | None

    @classmethod
    def of(
        cls,
        found: Sequence[Tool | None] | None,
        losses: Losses,
        *,
        choice: ToolChoice | None,
        parallel: bool | None,
    ) -> Self:
        """The offer of what was found, where None stands for a tool that was left out.

        Without a tool there is nothing to choose from, and a choice of a tool that was left out is free.
        """
        if found is None or all(found):
            return cls(None if found is None else tuple(filter(None, found)), choice, parallel)
        tools = tuple(filter(None, found))
        named = choice.name if choice else None
        if named is not None and all(tool.name != named for tool in tools):
            losses.no_place("choice", "it names a tool that cannot be offered")
            choice = ToolChoice("auto")
        return cls(tools, choice, parallel) if tools else cls(None, None, None)
