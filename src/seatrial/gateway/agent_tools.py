"""How an agent knows its tools, where the model that speaks another dialect knows them by another form or name."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class KnownAs(NamedTuple):
    """What an agent calls a tool: its name, in a namespace or in none. It may want plain text for its argument."""

    name: str
    namespace: str | None = None
    freeform: bool = False


@dataclass(frozen=True, slots=True)
class AgentTools:
    """Tools by the names under which the model was offered them. Those that are not here are known as they are."""

    known: Mapping[str, KnownAs] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.known)


PLAIN_TOOLS = AgentTools()
