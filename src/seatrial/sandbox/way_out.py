"""How builds and set-ups get out of here: whose certificates they trust, and by whose proxy they go."""

from dataclasses import dataclass

from seatrial.sandbox.api import Network, ProxyUse
from seatrial.sandbox.ca_file import read_ca


@dataclass(frozen=True, slots=True)
class WayOut:
    """What a user says about the network of this machine."""

    ca_file: str | None = None
    proxy: ProxyUse = "direct"

    @property
    def ca(self) -> bytes | None:
        """The certificates to trust; None where this says nothing about them. Raises JobError."""
        return read_ca(self.ca_file) if self.ca_file else None

    @property
    def network(self) -> Network:
        """Every public address."""
        return Network("public", proxy=self.proxy)


STRAIGHT = WayOut()
