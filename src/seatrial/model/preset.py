"""Preset: an agent that others made, as data: its packages, its headless command, its settings, what it can do.

A job keeps the presets of its agents, so that it means the same when it is resumed, and on every machine of a cluster.
"""

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from seatrial.model.base import JsonObject, StrictModel
from seatrial.model.trace import DialectName

McpStyle = Literal["usual", "typed", "gemini", "codex", "opencode"]
"""How an agent's own settings describe an MCP server."""

PLACEHOLDERS: dict[str, str] = {
    "model": "the model's name, without that of its provider",
    "base_url": "where the agent reaches its model, as SDKs of its dialect want it",
    "gateway_url": "the same without any path",
    "api_key": "the key for it",
    "home": "the agent's own folder, which is kept with the trial",
    "version": "the version of the agent",
    "value": "what the user gave for an option",
}
"""What may stand in braces in the arguments, variables and files of a preset."""

PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


def _stays_below(path: str) -> str:
    if any(part in ("", ".", "..") for part in path.split("/")):
        raise ValueError("expected a path below the agent's home, without '.' and '..'")
    return path


Below = Annotated[str, Field(pattern=r"^[^/\x00\n][^\x00\n]*$"), AfterValidator(_stays_below)]
"""A path below the agent's home."""
EnvName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
OptionName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]


class PresetFile(StrictModel):
    """A file of settings below the agent's home: TOML if it is called so, otherwise JSON."""

    path: Below
    content: JsonObject = Field(default_factory=dict)


class PresetAddition(StrictModel):
    """What is said to an agent: words for its command, variables, settings. Placeholders may stand in all of them."""

    arguments: tuple[str, ...] = ()
    variables: dict[EnvName, str] = Field(default_factory=dict)
    files: tuple[PresetFile, ...] = ()

    @model_validator(mode="after")
    def _knows_its_placeholders(self) -> Self:
        said = [*self.arguments, *self.variables.values(), *(file.content for file in self.files)]
        for name in (name for each in said for name in placeholders_in(each)):
            if name not in PLACEHOLDERS:
                raise ValueError(f"{{{name}}} is no placeholder; there are {', '.join(PLACEHOLDERS)}")
        return self


class PresetOption(PresetAddition):
    """Something a user may say of an agent by `--ak NAME=VALUE`, and how the agent is told."""

    help: str
    kind: Literal["text", "count"] = "text"
    choices: tuple[str, ...] = ()


class PresetMcp(PresetAddition):
    """How an agent learns of MCP servers: by a table in one of its files; the rest is said only if there are any."""

    style: McpStyle
    file: Below
    key: str = "mcpServers"
    transports: tuple[Literal["stdio", "sse", "streamable-http"], ...] = ("stdio", "sse", "streamable-http")


class PresetPackages(StrictModel):
    """What an agent is made of, `{version}` in place of its version; see LayerRecipe."""

    npm: tuple[str, ...] = ()
    pip: tuple[str, ...] = ()
    python: str | None = None
    programs: Annotated[dict[str, str], Field(min_length=1)]
    musl_programs: dict[str, str] = Field(default_factory=dict)


class Preset(PresetAddition):
    """One agent. `command` and `continued` are shell lines; what is said to the agent besides are their `"$@"`.

    `continued` is run in the later steps of a task, if one of the files that match `sessions` below its home says that
    there is a session to go on with. `web_off` is said unless the user wants web tools. `source` is the file of a
    preset that does not come with Seatrial.
    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
    title: Annotated[str, Field(min_length=1)]
    description: str = ""
    aliases: tuple[str, ...] = ()
    version: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")]
    packages: PresetPackages
    dialect: DialectName
    least_memory_mb: Annotated[int, Field(ge=1)] | None = None
    command: Annotated[str, Field(min_length=1)]
    continued: str | None = None
    sessions: Annotated[str, Field(pattern=r"^[A-Za-z0-9._*-][A-Za-z0-9._*/-]*$")] | None = None
    version_command: Annotated[str, Field(min_length=1)]
    options: dict[OptionName, PresetOption] = Field(default_factory=dict)
    web_off: PresetAddition | None = None
    mcp: PresetMcp | None = None
    skills: Below | None = None
    source: str | None = None

    @model_validator(mode="after")
    def _commands_are_plain(self) -> Self:
        for key in ("command", "continued", "version_command"):
            found = [name for name in placeholders_in(getattr(self, key) or "") if name in PLACEHOLDERS]
            if found:
                raise ValueError(
                    f"{key}: {{{found[0]}}} has no meaning in a shell line; put it into `arguments`, which are its "
                    '"$@", or into a variable'
                )
        if self.continued and not self.sessions:
            raise ValueError("sessions: expected where the agent keeps its sessions, since `continued` is given")
        return self


def placeholders_in(value: Any) -> Iterator[str]:
    """The names in braces in a text, or in all texts of a table or list."""
    if isinstance(value, str):
        yield from PLACEHOLDER.findall(value)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from placeholders_in(key)
            yield from placeholders_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from placeholders_in(item)
