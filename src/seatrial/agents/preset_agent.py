"""An agent that a preset describes: its options checked, its settings, and the script that starts it.

Where presets come from is in `presets`.
"""

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from seatrial.agents.api import AgentContext, AgentLaunch, AgentSetup
from seatrial.agents.environ import server_table
from seatrial.agents.presets import preset_recipe
from seatrial.errors import AgentSetupError, UsageError
from seatrial.model.base import plain_name
from seatrial.model.job import AgentOptions
from seatrial.model.preset import PLACEHOLDER, Preset, PresetAddition, PresetOption, placeholders_in
from seatrial.model.record import AgentRef
from seatrial.model.task import McpServerSpec, TaskConfig
from seatrial.tasks.variables import resolve_variables, with_variables

AGENTS_DIR = "/opt/seatrial/agents"
_WEB = PresetOption(help="Let it search and read the web.", choices=("on", "off"))
_SESSION = PresetOption(help="What it does in later steps of a task.", choices=("continue", "fresh"))
_SYNONYMS = {"reasoning_effort": "effort"}  # as Harbor calls it
Values = Mapping[str, str | int]


class PresetAgent:
    """Runs what a preset says. It cannot do without a model."""

    needs_model = True

    def __init__(self, options: AgentOptions, preset: Preset) -> None:
        if options.command is not None:
            raise UsageError(
                f"the agent {options.title!r} has a command of its own; give --command without -a {options.name}"
            )
        self.preset = preset
        self._options = options
        self._given = {_SYNONYMS.get(name, name): value for name, value in options.options.items()}
        _check_options(self._given, preset)

    @property
    def ref(self) -> AgentRef:
        """How records name it; its version is known when it has been asked."""
        return AgentRef(name=self._options.title, model=self._options.model)

    @property
    def setup(self) -> AgentSetup:
        return AgentSetup(recipe=preset_recipe(self.preset, self._options.version))

    def templates(self, _: TaskConfig) -> Mapping[str, str]:
        return self._options.env

    def prepare(self, context: AgentContext) -> AgentLaunch | None:
        """Its command, complete as soon as the way to its model is known."""
        preset, given = self.preset, self._given
        servers = with_variables(context.task.config.environment.mcp_servers, context.allowed_env)
        steps = context.task.steps
        first = context.step is None or context.step.spec.name == steps[0].spec.name
        later = not first and given.get("session") != "fresh"
        own = resolve_variables(self._options.env, context.host_env)

        def complete(variables: Mapping[str, str]) -> AgentLaunch:
            values = {**self._known(), **_reached(preset, variables, self._options.title)}
            additions = list(_additions(preset, given, servers))
            arguments = [word for each, more in additions for word in _texts(each.arguments, {**values, **more})]
            said = {
                name: str(fill(text, {**values, **more}))
                for each, more in additions
                for name, text in each.variables.items()
            }
            texts = _files(preset, additions, values, servers)
            script = start_script(preset, texts, later=later)
            return AgentLaunch(("/bin/sh", "-c", script, preset.name, *arguments), env={**said, **own})

        known = self._known()
        env = {name: str(fill(text, known)) for name, text in preset.variables.items() if _is_known(text, known)}
        version = ("/bin/sh", "-c", version_script(preset))
        return AgentLaunch(
            (*version[:2], preset.command, preset.name), {**env, **own}, version=version, finish=complete
        )

    def _known(self) -> Values:
        model = self._options.model
        named = {"model": plain_name(model)} if model else {}
        return {**named, "home": home_of(self.preset), "version": self._options.version or self.preset.version}


def fill(value: Any, values: Values) -> Any:
    """A text, table or list with its placeholders filled in, once. One that is the whole text may become a number."""
    if isinstance(value, str):
        whole = PLACEHOLDER.fullmatch(value)
        if whole and whole[1] in values:
            return values[whole[1]]
        return PLACEHOLDER.sub(lambda found: str(values.get(found[1], found[0])), value)
    if isinstance(value, dict):
        return {str(fill(key, values)): fill(item, values) for key, item in value.items()}
    return [fill(item, values) for item in value] if isinstance(value, list) else value


def known_options(preset: Preset) -> dict[str, PresetOption]:
    """Every option of a preset, those that many have included."""
    web = {"web_tools": _WEB} if preset.web_off else {}
    return {**preset.options, **web, **({"session": _SESSION} if preset.continued else {})}


def _check_options(given: Mapping[str, str], preset: Preset) -> None:
    known = known_options(preset)
    for name, value in given.items():
        option = known.get(name)
        if option is None:
            listed = ", ".join(known) or "none"
            raise UsageError(f"--ak {name}={value}: the agent {preset.name!r} has no option {name!r}; it has: {listed}")
        expected = _mismatch(option, value)
        if expected:
            raise UsageError(f"--ak {name}={value}: found {value!r}, expected {expected}")


def _mismatch(option: PresetOption, value: str) -> str | None:
    if option.choices and value not in option.choices:
        return f"one of {', '.join(option.choices)}"
    if option.kind == "count" and not (value.isascii() and value.isdigit() and 0 < int(value[:12]) == int(value)):
        return "a whole number above 0"
    return "some text" if not value or "\0" in value else None


def _reached(preset: Preset, variables: Mapping[str, str], title: str) -> Values:
    if "ANTHROPIC_BASE_URL" not in variables:
        raise AgentSetupError(f"the agent {title!r} needs a model; add -m MODEL and --upstream")
    root = variables["ANTHROPIC_BASE_URL"]
    base = f"{root}/v1" if preset.dialect.startswith("openai") else root
    return {"gateway_url": root, "base_url": base, "api_key": variables["ANTHROPIC_API_KEY"]}


def _additions(
    preset: Preset, given: Mapping[str, str], servers: Iterable[McpServerSpec]
) -> Iterator[tuple[PresetAddition, Values]]:
    """All that is said to the agent, each with the value that a user gave for it."""
    yield preset, {}
    if preset.web_off and given.get("web_tools") != "on":
        yield preset.web_off, {}
    if preset.mcp and servers:
        yield preset.mcp, {}
    for name, value in given.items():
        if option := preset.options.get(name):
            yield option, {"value": int(value) if option.kind == "count" else value}


def _files(
    preset: Preset,
    additions: Iterable[tuple[PresetAddition, Values]],
    values: Values,
    servers: tuple[McpServerSpec, ...],
) -> dict[str, str]:
    contents: dict[str, dict[str, Any]] = {}
    for each, more in additions:
        for file in each.files:
            filled = fill(file.content, {**values, **more})
            contents[file.path] = merged(contents.get(file.path, {}), filled)
    if preset.mcp and (offered := [server for server in servers if server.transport in preset.mcp.transports]):
        table = {preset.mcp.key: server_table(offered, preset.mcp.style)}
        contents[preset.mcp.file] = merged(contents.get(preset.mcp.file, {}), table)
    return {path: settings_text(path, content) for path, content in contents.items()}


def _texts(words: Iterable[str], values: Values) -> list[str]:
    return [str(fill(word, values)) for word in words]


def _is_known(text: str, known: Values) -> bool:
    return all(name in known for name in placeholders_in(text))


# The shell script that starts a preset: its settings are written by the user it runs as, then its command is run. What
# comes from users, tasks and models only ever stands in it as a quoted word; the command gets it by `"$@"` and by
# variables, which a shell does not read again.


def home_of(preset: Preset) -> str:
    """The agent's own folder, which is kept with the trial."""
    return f"/logs/agent/{preset.name}"


def start_script(preset: Preset, files: Mapping[str, str], *, later: bool) -> str:
    """The script for a step; `files` are texts by their paths below the home. A `later` step goes on with a session."""
    home = home_of(preset)
    lines = [_path(preset.name), f"mkdir -p {shlex.quote(home)}"]
    for path, text in files.items():
        whole = f"{home}/{path}"
        lines += [f"mkdir -p {shlex.quote(whole.rpartition('/')[0])}"]
        lines += [f"printf %s {shlex.quote(text)} >{shlex.quote(whole)}"]
    if preset.skills:
        skills = shlex.quote(f"{home}/{preset.skills}")
        copy = f'mkdir -p {skills} && cp -R "$HARBOR_SKILLS_DIR"/. {skills}/'
        lines += [f'if [ -d "${{HARBOR_SKILLS_DIR:-}}" ]; then {copy}; fi']
    if not (later and preset.continued and preset.sessions):
        return "\n".join([*lines, preset.command])
    return "\n".join(
        [
            *lines,
            'any_of() { for file in "$@"; do if [ -e "$file" ]; then return 0; fi; done; return 1; }',
            f"if any_of {shlex.quote(home)}/{preset.sessions}; then",
            preset.continued,
            "else",
            preset.command,
            "fi",
        ]
    )


def version_script(preset: Preset) -> str:
    return f"{_path(preset.name)}\n{preset.version_command}"


def _path(name: str) -> str:
    """The agent's own programs come first. Which version is there only its layer knows, and a set-up needs none."""
    return f'for bin in {AGENTS_DIR}/{name}/*/bin; do if [ -d "$bin" ]; then export PATH="$bin:$PATH"; fi; done'


# Settings as the text of a file, which is JSON or TOML.


def settings_text(path: str, content: Mapping[str, Any]) -> str:
    """The text of a file: TOML if its path says so, otherwise JSON, which is YAML too."""
    if not path.endswith(".toml"):
        return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    import tomlkit  # noqa: PLC0415 - slow to import, and few agents have such a file

    return tomlkit.dumps(_stated(content))


def merged(settings: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with others laid over them: tables are merged, everything else is replaced."""
    result = dict(settings)
    for key, value in others.items():
        below = result.get(key)
        result[key] = merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return result


def _stated(value: Any) -> Any:
    """The same without what is nothing, for which TOML has no word."""
    if isinstance(value, Mapping):
        return {key: _stated(item) for key, item in value.items() if item is not None}
    return [_stated(item) for item in value] if isinstance(value, list | tuple) else value
