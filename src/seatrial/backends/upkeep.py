"""What `seatrial doctor` and `seatrial gc` do: they go through every backend that is registered, ours or not.

A broken one is reported, and the others are still examined and swept.
"""

from collections.abc import AsyncIterator, Iterator

from seatrial.backends.api import BackendPlugin
from seatrial.backends.named import backend_names, find_backend
from seatrial.errors import UsageError
from seatrial.sandbox.doctor import HostFinding
from seatrial.sandbox.leftovers import Cleared
from seatrial.sandbox.scratch import sweep_scratch

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
