"""One trial under the eyes of the watch: which shortages it lived through, and whether one was its own doing."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from seatrial.sandbox.api import Sandbox
from seatrial.sandbox.host.episode import Episode
from seatrial.sandbox.host.shortage import Resource

if TYPE_CHECKING:
    from seatrial.sandbox.host.watch import HostWatch

Room = Mapping[tuple[str, Resource], int]
"""How much is left of each resource at each place."""


@dataclass(eq=False, slots=True)
class Attendance:
    """A trial that runs. `room` is what there was of everything when it began.

    `own_doing` says so when the trial itself used something up: then it is judged as it is, and its shortage excuses
    nothing. Of each of the `episodes` it is kept whether the agent was at work when it was noticed.
    """

    watch: "HostWatch"
    trial: str
    folder: Path
    room: Room
    agent_at_work: Callable[[], bool] = lambda: False
    sandbox: Sandbox | None = None
    disk_place: str | None = None
    episodes: dict[Episode, bool] = field(default_factory=dict)
    own_doing: str | None = None

    def furnish(self, sandbox: Sandbox, places: tuple[Path, ...]) -> None:
        """The trial has its sandbox, which keeps its files in the first of `places`."""
        self.sandbox = sandbox
        names = [self.watch.include(place) for place in places]
        self.disk_place = names[0] if names else None

    def notice(self, episode: Episode) -> None:
        """Something is short while this trial runs."""
        if episode not in self.episodes:
            self.episodes[episode] = self.agent_at_work()

    async def look(self) -> None:
        """Look how things stand right now, and wait until it is known whose doing a shortage is."""
        await self.watch.look()
        for episode in list(self.episodes):
            await episode.looked_into.wait()

    @property
    def excuse(self) -> str | None:
        """What this machine was short of meanwhile, unless that was the trial's own doing."""
        if not self.episodes or self.own_doing:
            return None
        return next(iter(self.episodes)).message
