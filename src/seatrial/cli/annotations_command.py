"""`seatrial annotations export|import|merge|undo`: what reviewers said, out of a job's journal and into it.

The journal only grows: to take a verdict back is to add that it is taken back.
"""

import datetime as dt
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from seatrial.cli.job_view import find_trial
from seatrial.cli.screen import show_warning
from seatrial.cli.trial_view import show_annotations
from seatrial.errors import UsageError
from seatrial.model.review import Retraction, ReviewEntry, new_entry_id, not_taken_back
from seatrial.report.text import counted, harmless
from seatrial.review.exchange import FORMATS, format_of, merge_reviews, sort_out
from seatrial.store.job_store import JobStore

_NAMED = 20
_JOB = click.argument("job", type=click.Path(path_type=Path))


def _format_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--format", "kind", type=click.Choice([*FORMATS]), help="The format; by default what the file's name says."
    )(function)


@click.group("annotations")
def command() -> None:
    """Export, import, merge and take back what reviewers said. Rewards stay as they are."""


@command.command("export", short_help="Write all reviews of a job to a file.")
@_JOB
@click.option(
    *("-o", "--output", "target"),
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="The file to write.",
)
@_format_option
def export_reviews(job: Path, target: Path, kind: str | None) -> None:
    """Write all reviews of the job in folder JOB to a file, those that were taken back too."""
    reviews = JobStore.open(job).reviews(show_warning)
    entries = [entry for trial in sorted(reviews) for entry in reviews[trial]]
    content = format_of(kind, target).write(entries)
    try:
        with target.open("xb") as file:
            file.write(content)
    except FileExistsError:
        raise UsageError(f"{target} is there already, and is not replaced; name another with -o") from None
    click.echo(f"{counted(len(entries), 'review')} of {counted(len(reviews), 'trial')} written to {target}")


@command.command("import", short_help="Add the reviews in a file to a job.")
@_JOB
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@_format_option
@click.option("--skip-bad", is_flag=True, help="Add what is sound even if something else in the file is not.")
def import_reviews(job: Path, file: Path, kind: str | None, skip_bad: bool) -> None:
    """Add the reviews in FILE to the job in folder JOB. Nothing is added unless all of it can be."""
    store, chosen = JobStore.open(job), format_of(kind, file)
    found = sort_out(store, chosen.read(file.read_bytes()))
    _complain(file, found.problems)
    if found.problems and not skip_bad:
        wrong = counted(len(found.problems), "piece cannot be added", "pieces cannot be added")
        raise UsageError(f"{file}: {wrong}, so nothing was; mend them, or give --skip-bad to add the other reviews")
    _add(store, found.sound)
    click.echo(f"{counted(len(found.sound), 'review')} added to {store.path}")


@command.command("merge", short_help="Add the reviews in copies of a job.")
@_JOB
@click.argument("others", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="OTHER_JOB...")
def merge(job: Path, others: tuple[Path, ...]) -> None:
    """Add to the job in folder JOB what reviewers said in copies of that folder. Twice is the same as once."""
    store = JobStore.open(job)
    for other in [JobStore.open(folder) for folder in others]:
        merged = merge_reviews(store, other, show_warning)
        people = ", ".join(sorted({harmless(entry.reviewer_id) for entry in merged.added}))
        by = f" by {people}" if people else ""
        click.echo(
            f"{other.path}: {counted(len(merged.added), 'review')} added{by}, {merged.known:,} were there already"
        )
        for trial in merged.unknown_trials[:_NAMED]:
            show_warning(f"{trial} has no result in {store.path}; its reviews were left out")


@command.command("undo", short_help="Take back the last verdict of a reviewer.")
@_JOB
@click.argument("trial")
@click.option("--reviewer", required=True, metavar="ID", help="Whose verdict.")
def undo(job: Path, trial: str, reviewer: str) -> None:
    """Take back what a reviewer said last of TRIAL in folder JOB. What they said before stands again."""
    store = JobStore.open(job)
    trial_id = find_trial(store, trial).trial_id
    own = [each for each in not_taken_back(store.reviews().get(trial_id, ())) if each.reviewer_id == reviewer]
    if not own:
        raise UsageError(f"{harmless(trial_id)}: {harmless(reviewer)!r} has no verdict on it to be taken back")
    taken = Retraction(entry=own[-1].key, reviewer_id=reviewer, timestamp=dt.datetime.now(dt.UTC))
    store.add_reviews(ReviewEntry(id=new_entry_id(), trial_id=trial_id, retraction=taken))
    click.echo(f"{harmless(trial_id)}: taken back; what stands:")
    show_annotations(store.annotations_of(trial_id))


def _add(store: JobStore, entries: Sequence[ReviewEntry]) -> None:
    if entries:
        store.add_reviews(*entries)


def _complain(file: Path, problems: Sequence[str]) -> None:
    for problem in problems[:_NAMED]:
        click.echo(f"{file}, {harmless(problem)}", err=True)
    if len(problems) > _NAMED:
        click.echo(f"{file}: and {len(problems) - _NAMED:,} more like these", err=True)
