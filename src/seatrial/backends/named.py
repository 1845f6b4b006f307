"""Backends by name: those that are registered, and `auto`, which is one of them."""

from functools import partial

from seatrial.backends.api import BackendPlugin
from seatrial.backends.auto import AutoBackend
from seatrial.errors import UsageError
from seatrial.plugins import find_plugin, plugin_names
from seatrial.sandbox.api import SandboxBackend

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
            f"the plug-in {name!r} of {ENTRY_POINTS} is {plugin!r}, expected a seatrial.backends.api.BackendPlugin; "
            "tell its authors"
        )
    return plugin


def _load_backend(name: str) -> BackendPlugin:
    plugin = find_backend(name)
    if plugin is None:
        known = ", ".join(sorted({AUTO, *backend_names()}))
        raise UsageError(f"there is no sandbox backend called {name!r}; there are: {known}")
    return plugin
