"""`seatrial gc [JOB...]`: remove what runs left behind that were killed before they could tidy up."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import click

from seatrial.errors import JobError
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from seatrial.sandbox.embedded.cgroups import BASE, Hierarchy
from seatrial.sandbox.embedded.runs import RunDirectory, state_root
from seatrial.store.job_store import JobStore

_DRAFTS = ".drafts"


@click.command("gc")
@click.argument("jobs", metavar="[JOB]...", nargs=-1, type=click.Path(path_type=Path))
@click.pass_context
def command(context: click.Context, jobs: Sequence[Path]) -> None:
    """Remove sandboxes of runs that are no more, and half-written trials from the job folders JOB.

    What a living run uses is left alone. Exits with 1 when something could not be removed.
    """
    stores = [JobStore.open(job) for job in jobs]
    cleared = [_clear_drafts(store) for store in stores]
    context.exit(0 if all([*cleared, _clear_sandboxes()]) else 1)


def _clear_drafts(store: JobStore) -> bool:
    drafts = store.path / _DRAFTS
    found = len(list(drafts.iterdir())) if drafts.is_dir() else 0
    try:
        with store.lock():  # taking the lock is what clears them
            click.echo(f"{store.path}: removed {found} half-written trials")
    except JobError as error:
        click.echo(f"{error}; nothing removed from it")
    return True


def _clear_sandboxes() -> bool:
    root = state_root()
    dead = _dead_runs(root)
    groups = [group for run in dead for group in _groups(run.name)]
    asyncio.run(_open_once())
    left = {path for path in (*dead, *groups) if path.exists()}
    for path in (*dead, *groups):
        click.echo(f"{path}: could not be removed" if path in left else f"removed {path}", err=path in left)
    runs, controls = len(set(dead) - left), len(set(groups) - left)
    click.echo(f"{root}: removed {runs} runs and {controls} control groups")
    return not left


def _dead_runs(root: Path) -> list[Path]:
    """The directories of runs nobody holds the lock of."""
    own = RunDirectory(root)
    try:
        with closing(own.abandoned()) as abandoned:
            return list(abandoned)
    finally:
        own.path.rmdir()
        own.release()


def _groups(run: str) -> list[Path]:
    """The control groups of a run, in every hierarchy and wherever it was started."""
    return [
        Path(top, run)
        for mount in Hierarchy.here().mounts
        for top, children, _ in os.walk(mount.parents[-1])
        if Path(top).name == BASE and run in children
    ]


async def _open_once() -> None:
    async with EmbeddedBackend():  # entering clears away what is left of dead runs
        pass
