"""One time at which this machine was short of something: since when, whose doing, and who was there."""

import asyncio
from dataclasses import dataclass, field

from seatrial.sandbox.host.shortage import Shortage


@dataclass(eq=False, slots=True)
class Episode:
    """A shortage from when it was noticed until it is over. `whose` is found out a moment later."""

    shortage: Shortage
    whose: str = ""
    inquired: bool = False
    looked_into: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def message(self) -> str:
        """What was short, and whose doing that was as far as it is known."""
        return f"{self.shortage.message}{f'; {self.whose}' if self.whose else ''}"
