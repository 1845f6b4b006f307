"""`seatrial agents list` and `seatrial agents show NAME`: the agents that are ready to run, and all about one."""

import asyncio
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from seatrial.agents.preset_agent import known_options
from seatrial.agents.preset_script import home_of
from seatrial.agents.presets import find_preset, preset_names, preset_recipe
from seatrial.cli.render import show_table
from seatrial.errors import UsageError
from seatrial.model.preset import Preset, PresetOption

_SPEAKS = {
    "anthropic": "Anthropic's messages",
    "google": "Google's generateContent",
    "openai_chat": "OpenAI's chat completions",
    "openai_responses": "OpenAI's responses",
}
FOLDER = click.option(
    "--agents-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="A folder with presets of your own (NAME.toml).  [~/.config/seatrial/agents]",
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.command("list", short_help="List the agents that are ready to run.")
@FOLDER
@_JSON
def list_agents(agents_dir: Path | None, as_json: bool) -> None:
    """List the agents that are ready to run: those that come with Seatrial, and your own."""
    presets = [_found(name, agents_dir) for name in preset_names(agents_dir)]
    if as_json:
        click.echo(json.dumps([preset.model_dump(mode="json") for preset in presets], indent=2))
        return
    baked = asyncio.run(_baked(presets))
    rows = [
        (
            *(each.name, each.version, each.dialect, _memory(each)),
            *("in the store" if each.name in baked else "not baked", each.source or "Seatrial", each.title),
        )
        for each in presets
    ]
    show_table("Agents", ("agent", "version", "dialect", "least memory", "layer", "from", "title"), rows)


@click.command("show", short_help="Show everything about one agent.")
@click.argument("name")
@FOLDER
@_JSON
def show_agent(name: str, agents_dir: Path | None, as_json: bool) -> None:
    """Show everything about the agent NAME: what it is made of, how it is run, its options, what it can use."""
    preset = _found(name, agents_dir)
    if as_json:
        click.echo(json.dumps(preset.model_dump(mode="json"), indent=2, ensure_ascii=False))
        return
    for line in described(preset):
        click.echo(line)


async def _baked(presets: Iterable[Preset]) -> set[str]:
    """The names of those whose tree, in the pinned version, is in the store."""
    from seatrial.images.baking.agent_layers import find_baked  # noqa: PLC0415 - `show` needs none of it
    from seatrial.images.store import open_store  # noqa: PLC0415 - as above

    async with open_store() as store:
        return {preset.name for preset in presets if find_baked(store, preset_recipe(preset))}


def described(preset: Preset) -> Iterator[str]:
    """All that a preset says, in plain words."""
    yield f"{preset.name}: {preset.title}. {preset.description}".rstrip()
    facts = [*_origin(preset), *_making(preset), *_running(preset), *_abilities(preset)]
    width = max(len(what) for what, _ in facts)
    yield from (f"  {what:{width}}  {text}" for what, text in facts)
    yield "options (--ak NAME=VALUE):"
    options = known_options(preset)
    names = max(map(len, options), default=0)
    yield from (f"  {name:{names}}  {_option(option)}" for name, option in options.items())
    if not options:
        yield "  none"
    yield "settings that it gets:"
    yield from (f"  {home_of(preset)}/{file.path}" for file in preset.files)
    yield from (f"  {variable}={text}" for variable, text in preset.variables.items())


def _origin(preset: Preset) -> Iterator[tuple[str, str]]:
    yield "version", f"{preset.version}, or another by -a {preset.name}@VERSION"
    if preset.aliases:
        yield "also called", ", ".join(preset.aliases)
    yield "comes from", preset.source or "Seatrial"


def _making(preset: Preset) -> Iterator[tuple[str, str]]:
    packages = preset.packages
    for registry, names in (("npm", packages.npm), ("PyPI", packages.pip)):
        if names:
            yield f"from {registry}", ", ".join(each.replace("{version}", preset.version) for each in names)
    if packages.python:
        yield "with Python", packages.python


def _running(preset: Preset) -> Iterator[tuple[str, str]]:
    yield "speaks", _SPEAKS[preset.dialect]
    yield "least memory", _memory(preset)
    yield "runs", preset.command
    if preset.arguments:
        yield 'where "$@" is', " ".join(preset.arguments)
    yield "home", f"{home_of(preset)}, kept as agent/logs/{preset.name} of each trial"
    if preset.sessions:
        yield "its own log", f"{preset.sessions} there"


def _abilities(preset: Preset) -> Iterator[tuple[str, str]]:
    yield "later steps", "goes on with its session" if preset.continued else "begins anew"
    yield "MCP servers", f"by {', '.join(preset.mcp.transports)}" if preset.mcp else "cannot use them"
    yield "skills", "can use them" if preset.skills else "cannot use them"
    yield "web tools", "off unless web_tools=on" if preset.web_off else "none to switch off"


def _option(option: PresetOption) -> str:
    kind = "a number above 0" if option.kind == "count" else ""
    expected = ", ".join(option.choices) or kind
    return f"{option.help}{f'  [{expected}]' if expected else ''}"


def _memory(preset: Preset) -> str:
    return f"{preset.least_memory_mb} MB" if preset.least_memory_mb else "not known"


def _found(name: str, folder: Path | None) -> Preset:
    preset = find_preset(name, folder)
    if preset is None:
        known = ", ".join(preset_names(folder))
        raise UsageError(f"there is no preset called {name!r}; there are: {known}")
    return preset
