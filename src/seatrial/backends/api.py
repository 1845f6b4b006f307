"""What a kind of sandbox registers to be found by its name: how to make it, and what else it brings along.

Plug-ins of the entry points `seatrial.backends` are objects of this type, ours as well as those of strangers.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from seatrial.images.resolver import ImageSource
from seatrial.sandbox.api import SandboxBackend
from seatrial.sandbox.doctor import HostFinding
from seatrial.sandbox.leftovers import Cleared
from seatrial.sandbox.way_out import WayOut

OpenImages = Callable[[SandboxBackend, WayOut], AbstractAsyncContextManager[ImageSource]]
"""Opens where the images of an open backend come from; the way out is what builds and set-ups reach."""


@dataclass(frozen=True, slots=True)
class BackendPlugin:
    """One kind of sandbox. Its `probe` gives as `backend` the name under which this is registered.

    Everybody who looks for a backend imports the module that this is in, so the functions import what they need.
    """

    make: Callable[[], SandboxBackend]
    """A new backend, not entered yet."""

    open_images: OpenImages | None = None
    """None for one that makes no images: its sandboxes have this machine's own system, or a directory."""

    examine: Callable[[], AsyncIterator[HostFinding]] | None = None
    """What of it works on this machine, found out by doing it, for `seatrial doctor`."""

    sweep: Callable[[], Awaitable[Cleared]] | None = None
    """Removes what killed runs left on this machine and nothing that a living one uses, for `seatrial gc`."""
