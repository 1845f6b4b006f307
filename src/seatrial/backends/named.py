"""Backends by name: the plug-in that each kind of sandbox registers, finding one, and `auto`, the first that works.

The built-in ones are made here of their parts: sandboxes, images, steps of the doctor, and tidying up.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self

from seatrial.errors import HostUnsupportedError, UsageError
from seatrial.images.resolver import ImageSource
from seatrial.plugins import find_plugin, plugin_names
from seatrial.sandbox.api import Capabilities, Sandbox, SandboxBackend, SandboxSpec
from seatrial.sandbox.doctor import HostFinding
from seatrial.sandbox.runs import Cleared, abandoned, look_again, sweep_scratch
from seatrial.sandbox.trust import WayOut

if TYPE_CHECKING:
    from seatrial.sandbox.engine.client import Engine


OpenImages = Callable[[SandboxBackend, WayOut], "AbstractAsyncContextManager[ImageSource]"]
"""Opens where the images of an open backend come from; the way out is what builds and set-ups reach."""


@dataclass(frozen=True, slots=True)
class BackendPlugin:
    """One kind of sandbox, as an object of the entry points `seatrial.backends`: how it is made, and what it brings.

    The `probe` of what it makes gives as `backend` the name under which this is registered. To look a backend up is to
    import the module that this is in, so the functions import what they need.
    """

    make: Callable[[], SandboxBackend]
    """A new backend, not entered yet."""

    open_images: OpenImages | None = None
    """None for one that makes no images: its sandboxes have this machine's own system, or a directory."""

    examine: Callable[[], AsyncIterator[HostFinding]] | None = None
    """What of it works on this machine, found out by doing it, for `seatrial doctor`."""

    sweep: Callable[[], Awaitable[Cleared]] | None = None
    """Removes what killed runs left on this machine and nothing that a living one uses, for `seatrial gc`."""


ENTRY_POINTS = "seatrial.backends"
AUTO = "auto"
_CANDIDATES = ("embedded", "docker", "podman")  # of `auto`, in this order; never one without isolation


def make_backend(name: str) -> SandboxBackend:
    """A new backend, not entered yet. Raises UsageError that lists the names there are."""
    if name == AUTO:
        return AutoBackend({each: partial(make_backend, each) for each in _CANDIDATES})
    plugin = _load_backend(name)
    try:
        made = plugin.make()
    except UsageError:
        raise
    except (Exception, SystemExit) as error:  # a stranger's plug-in may fail in any way
        raise UsageError(f"the backend {name!r} cannot be made: {type(error).__name__}: {error}") from error
    if not callable(getattr(made, "create", None)):
        raise UsageError(f"the backend {name!r} is {made!r}, expected a seatrial.sandbox.api.SandboxBackend")
    return made


def check_backend(name: str) -> None:
    """Raise UsageError that lists the names there are unless this is one of them."""
    if name != AUTO:
        _load_backend(name)


def backend_names() -> list[str]:
    """The names of all that are registered, those that `auto` would choose first, and then by the alphabet."""
    names = plugin_names(ENTRY_POINTS)
    return [*(name for name in _CANDIDATES if name in names), *(name for name in names if name not in _CANDIDATES)]


def find_backend(name: str) -> BackendPlugin | None:
    """The backend that is registered under a name, None if none is. Raises UsageError if it cannot be loaded."""
    plugin = find_plugin(ENTRY_POINTS, name)
    if plugin is not None and not isinstance(plugin, BackendPlugin):
        raise UsageError(
            f"the plug-in {name!r} of {ENTRY_POINTS} is {plugin!r}, expected a seatrial.backends.named.BackendPlugin; "
            "tell its authors"
        )
    return plugin


def _load_backend(name: str) -> BackendPlugin:
    plugin = find_backend(name)
    if plugin is None:
        known = ", ".join(sorted({AUTO, *backend_names()}))
        raise UsageError(f"there is no sandbox backend called {name!r}; there are: {known}")
    return plugin


class AutoBackend:
    """The first of some candidates, given by name, that works here."""

    def __init__(self, candidates: Mapping[str, Callable[[], SandboxBackend]]) -> None:
        self._candidates = candidates
        self._chosen: SandboxBackend | None = None

    async def __aenter__(self) -> Self:
        """Raises HostUnsupportedError that says of each backend what stands in its way."""
        reasons = []
        for name, make in self._candidates.items():
            backend = make()
            try:
                self._chosen = await backend.__aenter__()
            except HostUnsupportedError as error:
                reasons.append(f"  {name}: {error}")
            else:
                return self
        raise HostUnsupportedError(
            "\n".join(["no kind of sandbox works on this machine; make one of them work:", *reasons])
        )

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.chosen.__aexit__(kind, error, trace)

    @property
    def chosen(self) -> SandboxBackend:
        """The backend that works. Raises UsageError before it has been found."""
        if self._chosen is None:
            raise UsageError("a backend is used inside its `async with` block")
        return self._chosen

    async def probe(self) -> Capabilities:
        return await self.chosen.probe()

    async def create(self, spec: SandboxSpec) -> Sandbox:
        return await self.chosen.create(spec)


# For `seatrial doctor` and `seatrial gc`: a broken plug-in is reported, and the others are still examined and swept.

_FIX = "update or uninstall the package that it comes from"


async def examine() -> AsyncIterator[HostFinding]:
    """What works on this machine, one finding after the other, backend by backend."""
    for name, plugin in _registered():
        if isinstance(plugin, UsageError):
            yield HostFinding(name, "missing", str(plugin), _FIX)
        elif plugin.examine is not None:
            try:
                async for finding in plugin.examine():
                    if not isinstance(finding, HostFinding):
                        raise TypeError(f"it found {finding!r}, expected a seatrial.sandbox.doctor.HostFinding")  # noqa: TRY301
                    yield finding
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a stranger's plug-in may fail in any way
                yield HostFinding(name, "fails", f"its own steps failed: {_described(error)}", _FIX)


async def sweep() -> Cleared:
    """Remove what killed runs left on this machine, whatever their backend was, and temporary files.

    Raises UsageError when a setting of this user makes it impossible to know where to look.
    """
    cleared = Cleared()
    for name, plugin in _registered():
        if isinstance(plugin, UsageError):
            cleared += Cleared(problems=(str(plugin),))
        elif plugin.sweep is not None:
            try:
                cleared += await plugin.sweep()
            except UsageError:  # a setting of this user's is wrong, such as the directory for sandboxes
                raise
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a stranger's plug-in may fail in any way
                cleared += Cleared(problems=(f"the backend {name!r} failed to tidy up: {_described(error)}",))
    return cleared + Cleared(tuple(map(str, await sweep_scratch())))


def _registered() -> Iterator[tuple[str, BackendPlugin | UsageError]]:
    """All backends by name; in place of one that cannot be loaded, why."""
    for name in backend_names():
        try:
            plugin = find_backend(name)
        except UsageError as error:
            yield name, error
            continue
        if plugin is not None:
            yield name, plugin


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


# Docker and Podman. Their daemons pull and build the images.


def _open_engine_images(backend: SandboxBackend, way_out: WayOut) -> AbstractAsyncContextManager[ImageSource]:
    from seatrial.images.sources import open_engine_source
    from seatrial.sandbox.engine.backend import EngineBackend

    assert isinstance(backend, EngineBackend)  # noqa: S101 - by its name
    return open_engine_source(backend.client, way_out)


def _engine_plugin(engine: "Engine") -> BackendPlugin:
    def make() -> SandboxBackend:
        from seatrial.sandbox.engine.backend import EngineBackend

        return EngineBackend(engine)

    async def examine() -> AsyncIterator[HostFinding]:
        from seatrial.sandbox.engine.backend import examine_engine

        yield await examine_engine(engine)

    async def sweep() -> Cleared:
        from seatrial.sandbox.engine.container import clear_engine

        return await clear_engine(engine)

    return BackendPlugin(make, _open_engine_images, examine, sweep)


DOCKER = _engine_plugin("docker")
PODMAN = _engine_plugin("podman")


# Embedded sandboxes, with images from our own store


def _make_embedded() -> SandboxBackend:
    from seatrial.sandbox.embedded.backend import EmbeddedBackend

    return EmbeddedBackend()


def _open_embedded_images(backend: SandboxBackend, way_out: WayOut) -> AbstractAsyncContextManager[ImageSource]:
    from seatrial.images.sources import open_store_source

    return open_store_source(backend, way_out)


def _examine_embedded() -> AsyncIterator[HostFinding]:
    from seatrial.sandbox.embedded.doctor import examine_embedded

    return examine_embedded()


async def _sweep_embedded() -> Cleared:
    from seatrial.sandbox.embedded.doctor import clear_sandboxes

    return await clear_sandboxes() + await _clear_store()


async def _clear_store() -> Cleared:
    from seatrial.images.cache import cache_root
    from seatrial.images.store import Store

    sessions = cache_root() / "sessions"
    if not sessions.is_dir():
        return Cleared()
    dead = list(abandoned(sessions))
    await Store().close()  # which clears away what others left, too
    return look_again(dead)


EMBEDDED = BackendPlugin(_make_embedded, _open_embedded_images, _examine_embedded, _sweep_embedded)


# Plain processes. What they leave when a run is killed lies in scratch folders, which all kinds have.


def _make_local() -> SandboxBackend:
    from seatrial.sandbox.local import LocalBackend

    return LocalBackend()


LOCAL = BackendPlugin(_make_local)
