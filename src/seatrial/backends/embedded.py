"""Our own sandboxes as a plug-in, with images from our own store."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

from seatrial.backends.api import BackendPlugin
from seatrial.images.resolver import ImageSource
from seatrial.sandbox.api import SandboxBackend
from seatrial.sandbox.doctor import HostFinding
from seatrial.sandbox.leftovers import Cleared, look_again
from seatrial.sandbox.way_out import WayOut


def _make() -> SandboxBackend:
    from seatrial.sandbox.embedded.backend import EmbeddedBackend

    return EmbeddedBackend()


def _open_images(backend: SandboxBackend, way_out: WayOut) -> AbstractAsyncContextManager[ImageSource]:
    from seatrial.images.store_source import open_store_source

    return open_store_source(backend, way_out)


def _examine() -> AsyncIterator[HostFinding]:
    from seatrial.sandbox.embedded.doctor import examine_embedded

    return examine_embedded()


async def _sweep() -> Cleared:
    from seatrial.sandbox.embedded.leftovers import clear_sandboxes

    return await clear_sandboxes() + await _clear_store()


async def _clear_store() -> Cleared:
    """What processes were unpacking or building when they were killed."""
    from seatrial.images.cache import cache_root
    from seatrial.images.store import Store
    from seatrial.sandbox.runs import abandoned

    sessions = cache_root() / "sessions"
    if not sessions.is_dir():
        return Cleared()
    dead = list(abandoned(sessions))
    await Store().close()  # which clears away what others left, too
    return look_again(dead)


EMBEDDED = BackendPlugin(_make, _open_images, _examine, _sweep)
