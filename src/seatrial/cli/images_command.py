"""`seatrial images pull|load|build|list|prune`: the images that sandboxes are made from."""

import asyncio
import datetime as dt
import json
import shutil
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from seatrial.cli.images_build import command as build
from seatrial.cli.images_view import parse_size, show_progress, show_size
from seatrial.cli.render import show_table
from seatrial.images.archives import load_images
from seatrial.images.config import ImageDocument
from seatrial.images.platforms import host_platform, parse_platform
from seatrial.images.progress import OnProgress
from seatrial.images.prune import Pruned, prune
from seatrial.images.pull import PullOptions, pull_image
from seatrial.images.store import Store, open_store
from seatrial.images.stored import StoredImage

T = TypeVar("T")
_SHORT = 12


@click.group("images")
def command() -> None:
    """Pull, load, build, list and prune the images that sandboxes are made from.

    They are kept in $SEATRIAL_CACHE, or `seatrial` in the user's cache directory, and shared by all runs.
    """


command.add_command(build)


@command.command("pull", short_help="Fetch images from their registries.")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--platform", metavar="OS/ARCH", help="For another machine than this one, such as linux/arm64.")
@click.option("--json", "as_json", is_flag=True, help="Print what came as JSON.")
def pull(names: Sequence[str], platform: str | None, as_json: bool) -> None:
    """Fetch images from their registries, as they are there now; what is here already is not fetched again."""
    options = PullOptions(policy="always", platform=parse_platform(platform) if platform else host_platform())

    async def work(store: Store, tell: OnProgress) -> list[StoredImage]:
        return [await pull_image(store, name, options, tell) for name in names]

    _get(work, as_json=as_json)


@command.command("load", short_help="Take images from a file or a folder.")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--tag", metavar="NAME", help="A name for the image, needed for a plain root file system.")
@click.option("--json", "as_json", is_flag=True, help="Print what came as JSON.")
def load(file: Path, tag: str | None, as_json: bool) -> None:
    """Take images from FILE: of `docker save`, an OCI layout (a directory or an archive), or a root file system.

    Archives may be compressed; `-` is standard input.
    """

    async def work(store: Store, tell: OnProgress) -> list[StoredImage]:
        return await load_images(store, _from_stdin(store) if str(file) == "-" else file, tag, tell)

    _get(work, as_json=as_json)


@command.command("list", short_help="List the images that are here.")
@click.option("--json", "as_json", is_flag=True, help="Print everything known about each image.")
def list_images(as_json: bool) -> None:
    """List the images that are here, the latest used first."""

    async def work(store: Store) -> list[dict[str, Any]]:
        return [_describe(store, image) for image in store.images()]

    images = _with_store(work)
    if as_json:
        click.echo(json.dumps(images, indent=2))
        return
    show_table("images", ("image", "digest", "platform", "layers", "size", "last used"), map(_row, images))


@command.command("prune", short_help="Remove images that were used longest ago.")
@click.option("--keep", metavar="SIZE", required=True, help="How much may stay, such as 20G; 0 removes all.")
@click.option("--json", "as_json", is_flag=True, help="Print what went as JSON.")
def prune_images(keep: str, as_json: bool) -> None:
    """Remove images until SIZE is left, those first that were used longest ago; none that is in use."""
    size = parse_size(keep)
    pruned = _with_store(lambda store: prune(store, size))
    if as_json:
        click.echo(json.dumps(_describe_pruned(pruned), indent=2))
        return
    for image in pruned.images:
        click.echo(f"removed {', '.join(named.reference for named in image.names) or image.digest}")
    click.echo(f"freed {show_size(pruned.freed)}; {show_size(pruned.left)} left, {show_size(pruned.in_use)} in use")


def _get(work: Callable[[Store, OnProgress], Awaitable[list[StoredImage]]], *, as_json: bool) -> None:
    """Have images come, with progress on standard error, and say what came."""

    async def watched(store: Store) -> list[dict[str, Any]]:
        with show_progress() as tell:
            return [_describe(store, image) for image in await work(store, tell)]

    images = _with_store(watched)
    if as_json:
        click.echo(json.dumps(images, indent=2))
        return
    for image in images:
        click.echo(
            f"{', '.join(image['references']) or '(no name)'} {image['digest']} {show_size(image['size_bytes'])}"
        )


def _with_store(work: Callable[[Store], Awaitable[T]]) -> T:
    async def run() -> T:
        async with open_store() as store:
            return await work(store)

    return asyncio.run(run())


def _from_stdin(store: Store) -> Path:
    """What comes on standard input, as a file that goes with this process."""
    path = store.session.new_folder() / "standard-input"
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file, 2**20)
    return path


def _describe(store: Store, image: StoredImage) -> dict[str, Any]:
    document: ImageDocument = image.document
    return {
        "references": [named.reference for named in image.names],
        "digest": image.digest,
        "manifests": sorted({named.manifest for named in image.names if named.manifest}),
        "platform": str(document.platform),
        "layers": list(image.layers),
        "size_bytes": store.size_of(image),
        "used_at": dt.datetime.fromtimestamp(image.used_at, dt.UTC).isoformat(timespec="seconds"),
        "config": document.config.model_dump(mode="json", by_alias=True, exclude_unset=True),
    }


def _describe_pruned(pruned: Pruned) -> dict[str, Any]:
    return {
        "images": [image.digest for image in pruned.images],
        "references": [named.reference for image in pruned.images for named in image.names],
        "layers": pruned.layers,
        "freed_bytes": pruned.freed,
        "left_bytes": pruned.left,
        "in_use_bytes": pruned.in_use,
    }


def _row(image: dict[str, Any]) -> tuple[str, ...]:
    return (
        ", ".join(image["references"]) or "-",
        image["digest"].partition(":")[2][:_SHORT],
        image["platform"],
        str(len(image["layers"])),
        show_size(image["size_bytes"]),
        image["used_at"][:16].replace("T", " "),
    )
