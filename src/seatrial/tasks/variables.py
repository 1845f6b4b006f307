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
    """Every table of variables that running the task resolves, whoever the agent is, without those of its verifiers."""
    yield config.environment.env
    for server in config.environment.mcp_servers:
        yield server.headers


def verifier_tables(config: TaskConfig) -> Iterator[Mapping[str, str]]:
    """The tables of variables that its verifiers resolve."""
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


def keys_of(*upstreams: str | None) -> frozenset[str]:
    """The variables that upstreams, as a job names them, take their keys from."""
    return frozenset(name for upstream in upstreams for name in _UPSTREAM_KEY.findall(upstream or ""))


def denied_defaults(
    tables: Iterable[Mapping[str, str]], allowed: Collection[str], host: Mapping[str, str]
) -> Iterator[str]:
    """The variables that are set here, and that tasks with a default for them go without."""
    may_have = allowed_variables(allowed, host)
    for table in tables:
        for name, default in templates_in(table):
            if default is not None and host.get(name) and name not in may_have:
                yield name


# The model that a verifier asks. Its keys and addresses are those of a session of the gateway, whoever the task means.

_JUDGES = ("LLM", "VLM", "JUDGE", "GRADER", "EVAL", "EVALUATOR", "VERIFIER", "RUBRIC", "MODEL")
_JUDGE_NAME = "|".join((*_PROVIDERS, *(f"(?:[A-Z0-9]+_)*{each}(?:_MODEL)?" for each in _JUDGES)))
_JUDGE_KEY = re.compile(rf"(?:{_JUDGE_NAME})_(?:API_?)?(?:AUTH_?)?(?:KEY|TOKEN)S?")
_JUDGE_URL = re.compile(rf"(?:{_JUDGE_NAME})_(?:API_?)?(?:BASE_?URL|BASE|URL|ENDPOINT)")
_ANY_KEY, _ANY_URL = "LLM_API_KEY", "LLM_BASE_URL"


def is_provider_key(name: str) -> bool:
    """Whether a variable has the name of a provider's key."""
    return _KEY_NAME.fullmatch(name.upper()) is not None


def for_session(table: Mapping[str, str], session: Mapping[str, str]) -> dict[str, str]:
    """A verifier's table in which templates of keys and addresses of models are filled in from its session.

    `session` has the variables by which clients find it. What the task says literally stays.
    """
    filled = {}
    for name, value in table.items():
        template = _TEMPLATE.fullmatch(value)
        usual = _of_session(template[1]) if template else None
        filled[name] = value if usual is None else session.get(template[1] if template else "", session.get(usual, ""))
    return filled


def without_judges(table: Mapping[str, str]) -> dict[str, str]:
    """What of a verifier's table is not filled in from its session."""
    return {name: value for name, value in table.items() if not any(_of_session(each) for each in _names_in(value))}


def _names_in(value: str) -> list[str]:
    return [name for name, _ in templates_in({"": value})]


def _of_session(name: str) -> str | None:
    """What stands for a variable in a session that has none of its name; None where it is no key and no address."""
    name = name.upper()
    return _ANY_KEY if _JUDGE_KEY.fullmatch(name) else _ANY_URL if _JUDGE_URL.fullmatch(name) else None


def with_variables(servers: Iterable[McpServerSpec], allowed_env: Mapping[str, str]) -> tuple[McpServerSpec, ...]:
    """The servers of a task, with what the user allowed in the place of templates. Raises UsageError for others."""
    return tuple(
        server.model_copy(update={"headers": resolve_variables(server.headers, allowed_env)}) for server in servers
    )
