"""`seatrial images build TASK`: an image from a Dockerfile, with what each step says and how long it takes."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import click

from seatrial.cli.build_view import show_build
from seatrial.cli.images_view import show_size
from seatrial.errors import UsageError
from seatrial.images.build import BuildMeans, BuildSpec, Built, build_image
from seatrial.images.building.events import Observer, StepOutput
from seatrial.images.building.handover import Program
from seatrial.images.platforms import Platform, host_platform, parse_platform
from seatrial.images.progress import LayerProgress
from seatrial.images.pull import PullOptions, pull_image
from seatrial.images.store import open_store
from seatrial.images.stored import StoredImage
from seatrial.report.text import counted
from seatrial.sandbox.api import Network
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from seatrial.tasks.load import load_task

_SHORT = 12
_NETWORKS = {"public": Network("public"), "none": Network("none"), "host": Network("host")}


@click.command("build", short_help="Build an image from a Dockerfile, without Docker.")
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
@click.option(
    "--builder",
    type=click.Choice(["embedded", *get_args(Program)]),
    default="embedded",
    help="Another program to build with, for what ours does not know.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but the digest of the image.")
@click.option("--json", "as_json", is_flag=True, help="Print what came of it as JSON.")
def command(folder: Path, arguments: Sequence[str], quiet: bool, as_json: bool, **options: Any) -> None:
    """Build an image from the Dockerfile of a task (its `environment` folder) or of any other folder.

    No Docker is needed. Steps that were done before, in any build, are not done again.
    """
    spec = _make_spec(folder, _parse_arguments(arguments), options)
    with show_build(quiet=quiet) as observer:
        built = asyncio.run(_build(spec, observer))
    if as_json:
        click.echo(json.dumps(_describe(built, spec), indent=2))
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
        builder=options["builder"],
    )


def _parse_arguments(words: Sequence[str]) -> dict[str, str]:
    # Bytes that are no text have no place in a configuration.
    pairs = [word.encode("utf-8", "surrogateescape").decode("utf-8", "replace").partition("=") for word in words]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise UsageError(f"--build-arg takes NAME=VALUE, not {name!r}")
    return {name: value for name, _, value in pairs}


async def _build(spec: BuildSpec, observer: Observer) -> Built:
    async with open_store() as store:

        def tell(progress: LayerProgress) -> None:
            if progress.state in ("ready", "present") or not progress.done:
                layer = progress.layer.removeprefix("sha256:")[:_SHORT]
                line = f"layer {layer} {progress.state} ({show_size(progress.total)})\n"
                observer(StepOutput(line.encode()))

        async def resolve(name: str, platform: Platform) -> StoredImage:
            return await pull_image(store, name, PullOptions(platform=platform), tell)

        return await build_image(spec, BuildMeans(store, resolve, EmbeddedBackend, observer))


def _describe(built: Built, spec: BuildSpec) -> dict[str, Any]:
    return {
        "digest": built.image.digest,
        "references": list(spec.tags),
        "layers": list(built.stored.layers) if built.stored else [],
        "steps": built.steps,
        "cached": built.cached,
        "log": str(built.log),
    }
