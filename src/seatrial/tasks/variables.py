"""Environment variables that a task declares: literal, or taken from the host by `${NAME}` and `${NAME:-default}`.

A template is always the whole value. Loading a task never looks at the host; only running it does, and then a task gets
what `task_variables` lets it have.
"""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from seatrial.errors import UsageError
from seatrial.model.task import McpServerSpec, TaskConfig

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


# What a task may have: variables that the user allowed by name, and never the key of a model provider. Whatever an
# untrusted task gets, it can print, store, or send wherever its network reaches.

_PROVIDERS = (
    *("AI21", "ANTHROPIC", "ANYSCALE", "AZURE", "AZURE_AI", "AZURE_OPENAI", "CEREBRAS", "CLAUDE", "COHERE"),
    *("DASHSCOPE", "DATABRICKS", "DEEPINFRA", "DEEPSEEK", "FIREWORKS", "FIREWORKS_AI", "GEMINI", "GOOGLE"),
    *("GOOGLE_GENERATIVE_AI", "GROQ", "HYPERBOLIC", "LITELLM", "MINIMAX", "MISTRAL", "MOONSHOT", "NEBIUS", "NVIDIA"),
    *("NVIDIA_NIM", "OPENAI", "OPENROUTER", "PERPLEXITY", "REPLICATE", "SAMBANOVA", "TOGETHER", "TOGETHERAI"),
    *("VOYAGE", "XAI", "ZAI", "ZHIPUAI"),
)
_KEY_NAME = re.compile(rf"(?:{'|'.join(_PROVIDERS)})_(?:API_?)?(?:AUTH_?)?(?:OAUTH_?)?(?:ADMIN_?)?(?:KEY|TOKEN)S?")
_KEY_VALUE = re.compile(r"sk-[\w-]{16,}|gsk_\w{16,}|xai-\w{16,}|AIza[\w-]{30,}")
_UPSTREAM_KEY = re.compile(r",\s*key=([^,\s]+)")


def task_variables(
    table: Mapping[str, str], allowed: Collection[str], host: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """A table of a task with its templates filled in from what the user allowed.

    Raises UsageError naming every variable that it cannot do without and does not get.
    """
    may_have = allowed_variables(allowed, host)
    if missing := list(dict.fromkeys(missing_in(table, may_have))):
        raise UsageError(
            f"the task needs variables of this machine that are not set or not allowed: {', '.join(missing)}; allow "
            "them by name (--allow-env NAME, `allow_env`), or give them a default in task.toml"
        )
    return resolve_variables(table, may_have)


def allowed_variables(allowed: Collection[str], host: Mapping[str, str] = os.environ) -> dict[str, str]:
    return {name: host[name] for name in allowed if name in host and why_never(name, host) is None}


def why_never(name: str, host: Mapping[str, str], keys: Collection[str] = ()) -> str | None:
    """Why no task gets a variable even if it is allowed, None for one that may be; `keys` are known to be keys."""
    if name in keys or _KEY_NAME.fullmatch(name.upper()):
        return f"{name} is the key of a model provider, which no task gets"
    if _KEY_VALUE.fullmatch(host.get(name, "").strip()):
        return f"{name} holds what looks like the key of a model provider, which no task gets"
    return None


def keys_of(upstream: str | None) -> frozenset[str]:
    """The variables that an upstream, as a job names it, takes its keys from."""
    return frozenset(_UPSTREAM_KEY.findall(upstream or ""))


def denied_defaults(
    tables: Iterable[Mapping[str, str]], allowed: Collection[str], host: Mapping[str, str]
) -> Iterator[str]:
    """The variables that are set here, and that tasks with a default for them go without."""
    may_have = allowed_variables(allowed, host)
    for table in tables:
        for name, default in templates_in(table):
            if default is not None and host.get(name) and name not in may_have:
                yield name


def with_variables(servers: Iterable[McpServerSpec], allowed_env: Mapping[str, str]) -> tuple[McpServerSpec, ...]:
    """The servers of a task, with what the user allowed in the place of templates. Raises UsageError for others."""
    return tuple(
        server.model_copy(update={"headers": resolve_variables(server.headers, allowed_env)}) for server in servers
    )
