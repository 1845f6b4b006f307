"""`seatrial agents list|show|bake|save|load`: the agents that are ready to run, and the trees that they run from."""

import asyncio
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from seatrial.agents.preset_agent import home_of, known_options
from seatrial.agents.presets import find_preset, preset_names, preset_recipe
from seatrial.analysis.tables import Table
from seatrial.cli.options import AGENTS_DIR
from seatrial.cli.screen import show_size, show_table
from seatrial.errors import UsageError
from seatrial.model.events import Notice
from seatrial.model.job import LayerRecipe
from seatrial.model.preset import Preset, PresetOption

if TYPE_CHECKING:
    from seatrial.sandbox.trust import WayOut

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_NAME = click.argument("name", metavar="NAME[@VERSION]")


@click.group("agents")
def command() -> None:
    """List, show, bake, save and load the agents that are ready to run.

    `seatrial run -p TASKS -a NAME -m MODEL` runs one of them, from a tree of its own: baked once from packages, with a
    node or a Python, and laid over the image of every trial. Runs bake what they lack by themselves.
    """


@command.command("list", short_help="List the agents that are ready to run.")
@AGENTS_DIR
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
    columns = ("agent", "version", "dialect", "least memory", "layer", "from", "title")
    show_table("Agents", Table(columns, rows))


@command.command("show", short_help="Show everything about one agent.")
@click.argument("name")
@AGENTS_DIR
@_JSON
def show_agent(name: str, agents_dir: Path | None, as_json: bool) -> None:
    """Show everything about the agent NAME: what it is made of, how it is run, its options, what it can use."""
    preset = _found(name, agents_dir)
    if as_json:
        click.echo(json.dumps(preset.model_dump(mode="json"), indent=2, ensure_ascii=False))
        return
    for line in _described(preset):
        click.echo(line)


async def _baked(presets: Iterable[Preset]) -> set[str]:
    """The names of those whose tree, in the pinned version, is in the store."""
    from seatrial.images.baking.bake import find_baked  # noqa: PLC0415 - `show` needs none of it
    from seatrial.images.store import open_store  # noqa: PLC0415 - as above

    async with open_store() as store:
        return {preset.name for preset in presets if find_baked(store, preset_recipe(preset))}


def _described(preset: Preset) -> Iterator[str]:
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
    from seatrial.gateway.dialects import DIALECTS  # noqa: PLC0415 - `list` needs none of them

    yield "speaks", DIALECTS[preset.dialect].title
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


@command.command("bake", short_help="Make the tree of an agent from its packages.")
@_NAME
@AGENTS_DIR
@click.option(
    "-o",
    "--output",
    "target",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also write it to a file.",
)
@click.option("--ca-file", metavar="FILE", help="Certificates (PEM) to trust meanwhile.")
@click.option("--use-proxy", is_flag=True, help="Go through the proxy of this machine (HTTPS_PROXY).")
@click.option(
    "--host-settings", is_flag=True, help="Use your own settings of npm and pip, which packages then could read."
)
@click.option("--again", is_flag=True, help="Even if there is one already.")
def bake(
    name: str,
    agents_dir: Path | None,
    target: Path | None,
    ca_file: str | None,
    use_proxy: bool,
    host_settings: bool,
    again: bool,
) -> None:
    """Make the tree of an agent from its packages, in a sandbox, unless it is there already."""
    from seatrial.sandbox.trust import WayOut  # noqa: PLC0415 - help needs none of it

    recipe = _recipe_named(name, agents_dir)
    way_out = WayOut(ca_file, "host" if use_proxy else "direct")
    asyncio.run(_bake(recipe, way_out, target, host_settings=host_settings or None, again=again))


async def _bake(
    recipe: LayerRecipe, way_out: "WayOut", target: Path | None, *, host_settings: bool | None, again: bool
) -> None:
    from seatrial.images.baking.bake import bake as bake_anew  # noqa: PLC0415
    from seatrial.images.baking.bake import baked_layer, find_baked, open_bakery  # noqa: PLC0415
    from seatrial.images.baking.carrying import save_tree  # noqa: PLC0415 - as above

    async with open_bakery(way_out, host_settings=host_settings) as means:
        if again:
            await bake_anew(means, recipe)
        layer = await baked_layer(means, recipe, _print)
        click.echo(_line(recipe, layer.digest, layer.about.size))
        image = find_baked(means.store, recipe)
        if target and image:
            await save_tree(means.store, image, target)
            click.echo(_written(target))


@command.command("save", short_help="Write the tree of an agent to a file.")
@_NAME
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@AGENTS_DIR
def save(name: str, file: Path, agents_dir: Path | None) -> None:
    """Write the tree of an agent, baked before, to FILE, for machines without a registry."""
    recipe = _recipe_named(name, agents_dir)

    async def work() -> None:
        from seatrial.images.baking.bake import find_baked  # noqa: PLC0415 - as above
        from seatrial.images.baking.carrying import save_tree  # noqa: PLC0415 - as above
        from seatrial.images.store import open_store  # noqa: PLC0415 - as above

        async with open_store() as store:
            image = find_baked(store, recipe)
            if image is None:
                raise UsageError(f"{name} has not been baked here; `seatrial agents bake {name} -o {file}` does both")
            await save_tree(store, image, file)

    asyncio.run(work())
    click.echo(_written(file))


@command.command("load", short_help="Take the tree of an agent from a file.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def load(file: Path) -> None:
    """Take the tree of an agent from FILE, which `bake -o` or `save` wrote on a machine like this one."""

    async def work() -> str:
        from seatrial.images.baking.carrying import load_tree, recipe_in  # noqa: PLC0415 - as above
        from seatrial.images.store import open_store  # noqa: PLC0415 - as above

        async with open_store() as store:
            image = await load_tree(store, file)
            return _line(recipe_in(image.document), image.layers[0], store.size_of(image))

    click.echo(asyncio.run(work()))


def _recipe_named(name: str, folder: Path | None = None) -> LayerRecipe:
    """The recipe of `NAME` or `NAME@VERSION`. Raises UsageError."""
    from seatrial.agents.presets import recipe_of  # noqa: PLC0415 - help needs no agents

    agent, _, version = name.partition("@")
    return recipe_of(agent, version or None, folder)


def _line(recipe: LayerRecipe, digest: str, size: int) -> str:
    return f"{recipe.name} {recipe.version} {digest} {show_size(size)}"


def _written(file: Path) -> str:
    return f"written to {file}, {show_size(file.stat().st_size)}"


def _print(notice: Notice) -> None:
    click.echo(notice.text, err=True)
