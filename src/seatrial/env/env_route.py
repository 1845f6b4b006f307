"""The way from a group of environments to the one that a row is of: names, the outermost first, in `info["env_id"]`."""

from collections.abc import Mapping
from typing import Any

from seatrial.env.rows import Row
from seatrial.env.state import read_info
from seatrial.errors import UsageError

ENV_ID = "env_id"

Route = tuple[str, ...]


def route_of(row: Mapping[str, Any]) -> Route:
    """The route of a row; empty for one that has none. Raises UsageError for what is no route."""
    found = _info(row).get(ENV_ID)
    if found is None:
        return ()
    names = [found] if isinstance(found, str) else found
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise UsageError(f"info['{ENV_ID}'] is {found!r}, expected the name of an environment or a list of names")
    return tuple(names)


def with_route(row: Mapping[str, Any], route: Route) -> Row:
    """The row with a route: a name, or a list of several. Without one it has no such key."""
    info = info_with(row, route)
    return {**row, "info": info} if info or "info" in row else dict(row)


def info_with(row: Mapping[str, Any], route: Route) -> dict[str, Any]:
    """The `info` of a row with a route, as another table."""
    info = {name: value for name, value in _info(row).items() if name != ENV_ID}
    return {**info, ENV_ID: route[0] if len(route) == 1 else list(route)} if route else info


def _info(row: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        info = read_info(row) or {}
    except ValueError as error:
        raise UsageError(f"the info of a row is not JSON: {error}") from error
    if not isinstance(info, Mapping):
        raise UsageError(f"the info of a row is of type {type(info).__name__}, expected a table")
    return info
