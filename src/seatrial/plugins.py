"""Plug-ins by entry point. Built-ins register in the same way as those of other packages."""

import sys
from functools import lru_cache
from importlib.metadata import EntryPoints, entry_points
from typing import Any, cast

from seatrial.errors import UsageError


def plugin_names(group: str) -> list[str]:
    """The names that are registered in a group such as `seatrial.agents`."""
    return sorted({entry.name for entry in _entry_points(tuple(sys.path)).select(group=group)})


def load_plugin(group: str, name: str) -> Any:
    """The object registered under a name. Raises UsageError that lists the names there are."""
    found = find_plugin(group, name)
    if found is None:
        known = ", ".join(plugin_names(group)) or "none"
        raise UsageError(f"there is no {group.rpartition('.')[2].rstrip('s')} called {name!r}; there are: {known}")
    return found


@lru_cache(maxsize=1)
def _entry_points(_: tuple[str, ...]) -> EntryPoints:
    """Those of all packages that are installed where Python looks for them: to look takes milliseconds each time."""
    return cast("EntryPoints", entry_points())  # in Python 3.11, another type that can be selected from


@lru_cache
def find_plugin(group: str, name: str) -> Any | None:
    """The object registered under a name, None if there is none. Raises UsageError when it cannot be loaded."""
    for entry in _entry_points(tuple(sys.path)).select(group=group, name=name):
        try:
            return entry.load()
        except (Exception, SystemExit) as error:  # a stranger's module may fail in any way while it is imported
            raise UsageError(f"the plug-in {name!r} of {group} cannot be loaded: {error}") from error
    return None
