"""`seatrial agents list|show|bake|save|load`: the agents that are ready to run, and the trees that they run from."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from seatrial.cli.agents_view import FOLDER, list_agents, show_agent
from seatrial.cli.images_view import show_size
from seatrial.errors import UsageError
from seatrial.model.job import LayerRecipe

if TYPE_CHECKING:
    from seatrial.sandbox.way_out import WayOut

_NAME = click.argument("name", metavar="NAME[@VERSION]")


@click.group("agents")
def command() -> None:
    """List, show, bake, save and load the agents that are ready to run.

    `seatrial run -p TASKS -a NAME -m MODEL` runs one of them, from a tree of its own: baked once from packages, with a
    node or a Python, and laid over the image of every trial. Runs bake what they lack by themselves.
    """


command.add_command(list_agents)
command.add_command(show_agent)


@command.command("bake", short_help="Make the tree of an agent from its packages.")
@_NAME
@FOLDER
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
def bake(  # noqa: PLR0913, PLR0917 - one for each option
    name: str,
    agents_dir: Path | None,
    target: Path | None,
    ca_file: str | None,
    use_proxy: bool,
    host_settings: bool,
    again: bool,
) -> None:
    """Make the tree of an agent from its packages, in a sandbox, unless it is there already."""
    from seatrial.sandbox.way_out import WayOut  # noqa: PLC0415 - help needs none of it

    recipe = recipe_named(name, agents_dir)
    way_out = WayOut(ca_file, "host" if use_proxy else "direct")
    asyncio.run(_bake(recipe, way_out, target, host_settings=host_settings or None, again=again))


async def _bake(
    recipe: LayerRecipe, way_out: "WayOut", target: Path | None, *, host_settings: bool | None, again: bool
) -> None:
    from seatrial.images.baking.agent_layers import baked_layer, find_baked, open_bakery  # noqa: PLC0415 - as above
    from seatrial.images.baking.bake import bake as bake_anew  # noqa: PLC0415 - as above
    from seatrial.images.baking.carrying import save_tree  # noqa: PLC0415 - as above

    async with open_bakery(way_out, host_settings=host_settings) as means:
        if again:
            await bake_anew(means, recipe)
        layer = await baked_layer(means, recipe, _say)
        click.echo(_line(recipe, layer.digest, layer.about.size))
        image = find_baked(means.store, recipe)
        if target and image:
            await save_tree(means.store, image, target)
            click.echo(_written(target))


@command.command("save", short_help="Write the tree of an agent to a file.")
@_NAME
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@FOLDER
def save(name: str, file: Path, agents_dir: Path | None) -> None:
    """Write the tree of an agent, baked before, to FILE, for machines without a registry."""
    recipe = recipe_named(name, agents_dir)

    async def work() -> None:
        from seatrial.images.baking.agent_layers import find_baked  # noqa: PLC0415 - as above
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


def recipe_named(name: str, folder: Path | None = None) -> LayerRecipe:
    """The recipe of `NAME` or `NAME@VERSION`. Raises UsageError."""
    from seatrial.agents.presets import recipe_of  # noqa: PLC0415 - help needs no agents

    agent, _, version = name.partition("@")
    return recipe_of(agent, version or None, folder)


def _line(recipe: LayerRecipe, digest: str, size: int) -> str:
    return f"{recipe.name} {recipe.version} {digest} {show_size(size)}"


def _written(file: Path) -> str:
    return f"written to {file}, {show_size(file.stat().st_size)}"


def _say(line: str) -> None:
    click.echo(line, err=True)
