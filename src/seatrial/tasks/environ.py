"""Environment variables that a task declares: literal, or taken from the host by `${NAME}` and `${NAME:-default}`.

A template is always the whole value. Loading a task never looks at the host; only running it does.
"""

import re
from collections.abc import Iterator, Mapping

from seatrial.errors import UsageError
from seatrial.model.config import TaskConfig

_TEMPLATE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(:-.*)?\}", re.DOTALL)


def resolve_variables(table: Mapping[str, str], host: Mapping[str, str]) -> dict[str, str]:
    """The table with its templates filled in. Raises UsageError naming every variable the host does not have."""
    if missing := list(_missing(table, host)):
        raise UsageError(f"not set on this machine: {', '.join(missing)}; export them, or give them a default")
    return {name: _resolve(value, host) for name, value in table.items()}


def missing_variables(config: TaskConfig, agent_env: Mapping[str, str], host: Mapping[str, str]) -> list[str]:
    """The host variables without which a task cannot run with an agent that takes `agent_env`, sorted."""
    tables = [agent_env, *declared_tables(config)]
    return sorted({name for table in tables for name in _missing(table, host)})


def declared_tables(config: TaskConfig) -> Iterator[Mapping[str, str]]:
    """Every table of variables that running the task resolves, whoever the agent is."""
    yield config.environment.env
    phases = [step.verifier for step in config.steps] or [config.verifier]
    for phase in phases:
        yield phase.env
        if phase.environment:
            yield phase.environment.env


def _missing(table: Mapping[str, str], host: Mapping[str, str]) -> Iterator[str]:
    for value in table.values():
        template = _TEMPLATE.fullmatch(value)
        if template and template[2] is None and template[1] not in host:
            yield template[1]


def _resolve(value: str, host: Mapping[str, str]) -> str:
    template = _TEMPLATE.fullmatch(value)
    if template is None:
        return value
    default = (template[2] or "").removeprefix(":-")
    # As in a shell, `:-` also stands in for a variable that is set to nothing.
    return host.get(template[1]) or default if template[2] is not None else host[template[1]]
