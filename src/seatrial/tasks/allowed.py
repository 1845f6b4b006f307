"""Which variables of the host a task may have: those the user allowed by name, and never the key of a model provider.

A task is a stranger's file. Whatever it gets, it can print, store, or send wherever its network reaches.
"""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from seatrial.errors import UsageError
from seatrial.tasks.environ import missing_in, resolve_variables, templates_in

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
    """What of the host's variables a task may have."""
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
