"""Plain processes as a plug-in. What they leave when a run is killed lies in scratch folders, which all kinds have."""

from seatrial.backends.api import BackendPlugin
from seatrial.sandbox.api import SandboxBackend


def _make() -> SandboxBackend:
    from seatrial.sandbox.local import LocalBackend

    return LocalBackend()


LOCAL = BackendPlugin(_make)
