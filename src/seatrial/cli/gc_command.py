"""`seatrial gc [JOB...]`: remove what runs left behind that were killed before they could tidy up."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import click

from seatrial.backends.named import sweep
from seatrial.errors import JobError
from seatrial.report.text import counted
from seatrial.store.job_store import JobStore

_DRAFTS = ".drafts"


@click.command("gc")
@click.argument("jobs", metavar="[JOB]...", nargs=-1, type=click.Path(path_type=Path))
@click.pass_context
def command(context: click.Context, jobs: Sequence[Path]) -> None:
    """Remove what runs left that are no more, and half-written trials from the job folders JOB.

    That is: sandboxes and their control groups, containers and volumes of Docker and Podman, what plug-ins know of, and
    temporary files. What a living run uses is left alone. Exits with 1 when something could not be removed.
    """
    stores = [JobStore.open(job) for job in jobs]
    for store in stores:
        _clear_drafts(store)
    cleared = asyncio.run(sweep())
    for line in cleared.removed:
        click.echo(f"removed {line}")
    for line in cleared.left:
        click.echo(f"{line}: could not be removed", err=True)
    for problem in cleared.problems:
        click.echo(problem, err=True)
    click.echo(f"{counted(len(cleared.removed), 'leftover')} of dead runs removed from this machine")
    context.exit(1 if cleared.left or cleared.problems else 0)


def _clear_drafts(store: JobStore) -> None:
    drafts = store.path / _DRAFTS
    found = len(list(drafts.iterdir())) if drafts.is_dir() else 0
    try:
        with store.lock():  # taking the lock is what clears them
            click.echo(f"{store.path}: removed {counted(found, 'half-written trial')}")
    except JobError as error:
        click.echo(f"{error}; nothing removed from it")
