"""Which jobs somebody wants to see in the list: read from an address, and decided job by job."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

from seatrial.view.cards import JobCard, RunState

STATES: tuple[RunState, ...] = get_args(RunState)


@dataclass(frozen=True, slots=True)
class JobQuery:
    """What an address asks for. Empty texts ask for nothing."""

    find: str = ""
    state: str = ""

    @property
    def is_narrowed(self) -> bool:
        """Whether some jobs may be left out."""
        return bool(self.find or self.state)

    def fits(self, key: str, card: JobCard, state: RunState) -> bool:
        """Whether a job is asked for: every word occurs in its name, its folder or the name of an agent."""
        text = "\n".join((key, card.name, str(card.folder), *card.agents)).casefold()
        return self.state in ("", state) and all(word in text for word in self.find.casefold().split())


def read_job_query(asked: Mapping[str, str]) -> JobQuery:
    """The query of an address. A state that there is not is left alone: it may be somebody's old bookmark."""
    state = asked.get("state", "")
    return JobQuery(asked.get("find", "").strip(), state if state in STATES else "")
