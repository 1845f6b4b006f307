"""Environment variables that a task declares: literal, or taken from the host by `${NAME}` and `${NAME:-default}`.

A template is always the whole value. Loading a task never looks at the host; only running it does, and then a task gets
what `allowed.py` lets it have.
"""

import re
from collections.abc import Iterator, Mapping

from seatrial.errors import UsageError
from seatrial.model.config import TaskConfig

_TEMPLATE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(:-.*)?\}", re.DOTALL)


def resolve_variables(table: Mapping[str, str], host: Mapping[str, str]) -> dict[str, str]:
    """The table with its templates filled in. Raises UsageError naming every variable the host does not have."""
    if missing := list(missing_in(table, host)):
        raise UsageError(f"not set on this machine: {', '.join(missing)}; export them, or give them a default")
    return {name: _resolve(value, host) for name, value in table.items()}


def declared_tables(config: TaskConfig) -> Iterator[Mapping[str, str]]:
    """Every table of variables that running the task resolves, whoever the agent is."""
    yield config.environment.env
    for server in config.environment.mcp_servers:
        yield server.headers
    phases = [step.verifier for step in config.steps] or [config.verifier]
    for phase in phases:
        yield phase.env
        if phase.environment:
            yield phase.environment.env


def missing_in(table: Mapping[str, str], host: Mapping[str, str]) -> Iterator[str]:
    """The variables that a table cannot do without and the host does not have."""
    return (name for name, default in templates_in(table) if default is None and name not in host)


def templates_in(table: Mapping[str, str]) -> Iterator[tuple[str, str | None]]:
    """The variables that a table takes from the host, each with its default, None where it has none."""
    for value in table.values():
        if template := _TEMPLATE.fullmatch(value):
            yield template[1], None if template[2] is None else template[2].removeprefix(":-")


def _resolve(value: str, host: Mapping[str, str]) -> str:
    template = _TEMPLATE.fullmatch(value)
    if template is None:
        return value
    default = (template[2] or "").removeprefix(":-")
    # As in a shell, `:-` also stands in for a variable that is set to nothing.
    return host.get(template[1]) or default if template[2] is not None else host[template[1]]
