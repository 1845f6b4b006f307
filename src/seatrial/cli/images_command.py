"""`seatrial images pull|load|build|list|prune`: the images that sandboxes are made from."""

import asyncio
import datetime as dt
import json
import shutil
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from seatrial.analysis.tables import Table
from seatrial.cli.options import parse_bytes
from seatrial.cli.screen import can_draw, show_size, show_table
from seatrial.errors import UsageError
from seatrial.images.archives import load_images
from seatrial.images.build import BuildMeans, BuildSpec, Built, build_image
from seatrial.images.building.step_cache import BuildEvent, StepBegan, StepEnded, StepOutput
from seatrial.images.cache import LayerProgress
from seatrial.images.config import ImageDocument, Platform, host_platform, parse_platform
from seatrial.images.prune import Pruned, prune
from seatrial.images.pull import PullOptions, pull_image
from seatrial.images.store import Store, StoredImage, open_store
from seatrial.model.events import Observer, unobserved
from seatrial.report.text import counted, format_duration, harmless, harmless_lines
from seatrial.sandbox.api import Network
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from seatrial.tasks.load import load_task

T = TypeVar("T")
_SHORT = 12


@click.group("images")
def command() -> None:
    """Pull, load, build, list and prune the images that sandboxes are made from.

    They are kept in $SEATRIAL_CACHE, or `seatrial` in the user's cache directory, and shared by all runs.
    """


@command.command("pull", short_help="Fetch images from their registries.")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--platform", metavar="OS/ARCH", help="For another machine than this one, such as linux/arm64.")
@click.option("--json", "as_json", is_flag=True, help="Print what came as JSON.")
def pull(names: Sequence[str], platform: str | None, as_json: bool) -> None:
    """Fetch images from their registries, as they are there now; what is here already is not fetched again."""
    options = PullOptions(policy="always", platform=parse_platform(platform) if platform else host_platform())

    async def work(store: Store, tell: Observer[LayerProgress]) -> list[StoredImage]:
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

    async def work(store: Store, tell: Observer[LayerProgress]) -> list[StoredImage]:
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
    columns = ("image", "digest", "platform", "layers", "size", "last used")
    show_table("images", Table(columns, [*map(_row, images)]))


@command.command("prune", short_help="Remove images that were used longest ago.")
@click.option(
    "--keep",
    "size",
    callback=parse_bytes,
    metavar="SIZE",
    required=True,
    help="How much may stay, such as 20G; 0 removes all.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what went as JSON.")
def prune_images(size: int, as_json: bool) -> None:
    """Remove images until SIZE is left, those first that were used longest ago; none that is in use."""
    pruned = _with_store(lambda store: prune(store, size))
    if as_json:
        click.echo(json.dumps(_describe_pruned(pruned), indent=2))
        return
    for image in pruned.images:
        click.echo(f"removed {', '.join(named.reference for named in image.names) or image.digest}")
    click.echo(f"freed {show_size(pruned.freed)}; {show_size(pruned.left)} left, {show_size(pruned.in_use)} in use")


def _get(work: Callable[[Store, Observer[LayerProgress]], Awaitable[list[StoredImage]]], *, as_json: bool) -> None:
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


@contextmanager
def show_progress() -> Iterator[Observer[LayerProgress]]:
    """Somebody to tell about layers on their way, who shows them on standard error."""
    if can_draw(sys.stderr):
        with _bars() as tell:
            yield tell
    else:
        yield _print_layer


def _print_layer(event: LayerProgress) -> None:
    if event.state in ("ready", "present"):
        what = "is here already" if event.state == "present" else "is ready"
        click.echo(f"{event.image}: layer {_short(event.layer)} {what} ({show_size(event.total)})", err=True)


def _short(layer: str) -> str:
    return layer.removeprefix("sha256:")[:_SHORT] if layer.startswith("sha256:") else layer


@contextmanager
def _bars() -> Iterator[Observer[LayerProgress]]:
    from rich.console import Console  # noqa: PLC0415 - slow to import, and pipes do not need it
    from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn  # noqa: PLC0415 - slow, and only a terminal needs it

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        tasks: dict[str, TaskID] = {}

        def tell(event: LayerProgress) -> None:
            if event.layer not in tasks:
                tasks[event.layer] = progress.add_task("", total=event.total or None)
            text = f"{_short(event.layer)} {event.state}"
            progress.update(tasks[event.layer], description=text, completed=event.done)

        yield tell


# `seatrial images build`: the steps of a build, with the end of what each prints.

_NETWORKS = {"public": Network("public"), "none": Network("none"), "host": Network("host")}
_SHOWN_LINES = 6
_MARKS = {"built": "done", "cached": "cached", "noted": ""}


class _BuildLines:
    """Plain lines, as they come."""

    def __init__(self) -> None:
        self._rest = ""

    def take(self, event: BuildEvent) -> None:
        if isinstance(event, StepBegan):
            click.echo(f"[{event.number}/{event.total}] {harmless(event.text)}", err=True)
        elif isinstance(event, StepOutput):
            *whole, self._rest = harmless_lines(self._rest + event.data.decode("utf-8", "replace"))
            for line in whole:
                click.echo(f"    {line}", err=True)
        else:
            if self._rest:
                click.echo(f"    {self._rest}", err=True)
            self._rest = ""
            if word := ending(event):
                click.echo(f"    {word}", err=True)


class _BuildDisplay:
    """The steps that are done, one line each; below them the one that runs, with the end of what it says."""

    def __init__(self) -> None:
        from rich.console import Console  # noqa: PLC0415 - slow to import, and pipes do not need it
        from rich.live import Live  # noqa: PLC0415 - slow, and only a terminal needs it

        self._step: StepBegan | None = None
        self._lines: deque[str] = deque(maxlen=_SHOWN_LINES)
        self._rest = ""
        self._console = Console(stderr=True)
        self._live = Live(get_renderable=self._render, console=self._console, refresh_per_second=8, transient=True)

    def __enter__(self) -> "_BuildDisplay":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def take(self, event: BuildEvent) -> None:
        from rich.spinner import Spinner  # noqa: PLC0415 - as above
        from rich.text import Text  # noqa: PLC0415 - slow, and only a terminal needs it

        if isinstance(event, StepBegan):
            self._step, self._rest = event, ""
            self._lines.clear()
            title = f"[{event.number}/{event.total}] {harmless(event.text)}"
            self._spinner = Spinner("dots", Text(title, overflow="ellipsis", no_wrap=True))
        elif isinstance(event, StepOutput):
            *whole, self._rest = harmless_lines(self._rest + event.data.decode("utf-8", "replace"))
            self._lines.extend(whole)
        elif self._step is not None:
            title = f"[{self._step.number}/{self._step.total}] {harmless(self._step.text)}"
            line = Text.assemble(title, ("  " + ending(event), "green" if event.how == "built" else "dim"))
            self._console.print(line, overflow="ellipsis", no_wrap=True)
            self._step = None

    def _render(self) -> Any:
        from rich.console import Group  # noqa: PLC0415 - as above
        from rich.text import Text  # noqa: PLC0415 - slow, and only a terminal needs it

        if self._step is None:
            return Text("")
        shown = [Text(f"    {line}", style="dim", overflow="ellipsis", no_wrap=True) for line in list(self._lines)]
        return Group(self._spinner, *shown)


@command.command("build", short_help="Build an image from a Dockerfile, without Docker.")
@click.argument("folder", metavar="TASK_OR_DIR", type=click.Path(path_type=Path))
@click.option(
    "-f", "--file", "dockerfile", type=click.Path(path_type=Path), help="The Dockerfile, if not the usual one."
)
@click.option("-t", "--tag", "tags", metavar="NAME", multiple=True, help="A name for the image; may be repeated.")
@click.option("--build-arg", "arguments", metavar="NAME=VALUE", multiple=True, help="A value for an ARG.")
@click.option("--target", metavar="STAGE", help="The stage to build, if not the last.")
@click.option("--platform", metavar="OS/ARCH", help="For another machine than this one.")
@click.option("--network", type=click.Choice(sorted(_NETWORKS)), default="public", help="What RUN may reach.")
@click.option("--timeout", type=float, metavar="SECONDS", help="For the whole build; a task says 600 if nothing else.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but the digest of the image.")
@click.option("--json", "as_json", is_flag=True, help="Print what came of it as JSON.")
def build(folder: Path, arguments: Sequence[str], quiet: bool, as_json: bool, **options: Any) -> None:
    """Build an image from the Dockerfile of a task (its `environment` folder) or of any other folder.

    No Docker is needed. Steps that were done before, in any build, are not done again.
    """
    spec = _make_spec(folder, _parse_arguments(arguments), options)
    with _show_build(quiet=quiet) as observer:
        built = asyncio.run(_build(spec, observer))
    if as_json:
        click.echo(json.dumps(_describe_built(built, spec), indent=2))
        return
    if not quiet:
        click.echo(f"{counted(built.steps, 'step')}, {built.cached} of them from the cache; log: {built.log}", err=True)
    click.echo(" ".join([*spec.tags, str(built.image.digest)]) if not quiet else built.image.digest)


def _make_spec(folder: Path, arguments: dict[str, str], options: dict[str, Any]) -> BuildSpec:
    context, timeout = folder, options["timeout"]
    if (folder / "task.toml").exists():
        task = load_task(folder)
        context = folder / "environment"
        timeout = timeout or task.config.environment.build_timeout_sec
        if options["dockerfile"] is None and task.layout.dockerfile is None:
            image = task.config.environment.docker_image
            other = f"it uses {image}: `seatrial images pull {image}`" if image else "nor does it name an image"
            raise UsageError(f"{folder} has no environment/Dockerfile; {other}")
    return BuildSpec(
        context=context,
        dockerfile=options["dockerfile"],
        arguments=arguments,
        tags=tuple(options["tags"]),
        target=options["target"],
        platform=parse_platform(options["platform"]) if options["platform"] else host_platform(),
        network=_NETWORKS[options["network"]],
        timeout_sec=timeout,
    )


def _parse_arguments(words: Sequence[str]) -> dict[str, str]:
    # Bytes that are no text have no place in a configuration.
    pairs = [word.encode("utf-8", "surrogateescape").decode("utf-8", "replace").partition("=") for word in words]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise UsageError(f"--build-arg takes NAME=VALUE, not {name!r}")
    return {name: value for name, _, value in pairs}


async def _build(spec: BuildSpec, observer: Observer[BuildEvent]) -> Built:
    async with open_store() as store:

        def tell(progress: LayerProgress) -> None:
            if progress.state in ("ready", "present") or not progress.done:
                layer = progress.layer.removeprefix("sha256:")[:_SHORT]
                line = f"layer {layer} {progress.state} ({show_size(progress.total)})\n"
                observer(StepOutput(line.encode()))

        async def resolve(name: str, platform: Platform) -> StoredImage:
            return await pull_image(store, name, PullOptions(platform=platform), tell)

        return await build_image(spec, BuildMeans(store, resolve, EmbeddedBackend, observer))


def _describe_built(built: Built, spec: BuildSpec) -> dict[str, Any]:
    return {
        "digest": built.image.digest,
        "references": list(spec.tags),
        "layers": list(built.stored.layers) if built.stored else [],
        "steps": built.steps,
        "cached": built.cached,
        "log": str(built.log),
    }


@contextmanager
def _show_build(*, quiet: bool) -> Iterator[Observer[BuildEvent]]:
    """Somebody to tell about a build, who shows it."""
    if quiet:
        yield unobserved
    elif can_draw(sys.stderr):
        with _BuildDisplay() as display:
            yield display.take
    else:
        yield _BuildLines().take


def ending(event: StepEnded) -> str:
    return f"{_MARKS[event.how]} {format_duration(event.seconds)}" if event.how == "built" else _MARKS[event.how]
