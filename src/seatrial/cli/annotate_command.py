"""`seatrial annotate JOB TRIAL`: a reviewer's verdict, kept beside the reward and never in its place."""

import datetime as dt
from pathlib import Path
from typing import Any, get_args

import click
from pydantic import ValidationError

from seatrial.cli.job_view import find_trial
from seatrial.cli.trial_view import show_annotations
from seatrial.errors import UsageError
from seatrial.model.evaluation import Annotation, Judgment, category_slug
from seatrial.model.outcome import format_reward
from seatrial.model.review import ReviewEntry, ReviewRole, new_entry_id
from seatrial.report.text import harmless
from seatrial.review.verdicts import context_of, moment_after
from seatrial.store.job_store import JobStore


@click.command("annotate")
@click.argument("job", type=click.Path(path_type=Path))
@click.argument("trial")
@click.option(
    "--judgment", type=click.Choice([verdict.value for verdict in Judgment]), required=True, help="The verdict."
)
@click.option("--reviewer", required=True, metavar="ID", help="Who says so.")
@click.option("--discipline", help="The reviewer's field.")
@click.option("--category", "categories", multiple=True, help="What went wrong, in a word; may be given several times.")
@click.option("--notes", help="Why.")
@click.option(
    "--role",
    type=click.Choice(get_args(ReviewRole)),
    default="first",
    show_default=True,
    help="A verdict of one's own; one after others were known; one that settles a dispute; one known to be right.",
)
def command(job: Path, trial: str, judgment: str, role: ReviewRole, **said: Any) -> None:
    """Add a verdict on TRIAL of the job in folder JOB, then show all there are. The reward stays as it is."""
    store = JobStore.open(job)
    entry = find_trial(store, trial)
    annotation = _annotation(judgment, said, moment_after(store.reviews().get(entry.trial_id, ())))
    context = context_of(store.revisions(entry.trial_id)[-1].record)
    store.add_reviews(
        ReviewEntry(id=new_entry_id(), trial_id=entry.trial_id, annotation=annotation, role=role, context=context)
    )
    click.echo(f"{harmless(entry.trial_id)}: {entry.outcome}, reward {format_reward(entry.reward)}")
    show_annotations(store.annotations_of(entry.trial_id))


def _annotation(judgment: str, said: dict[str, Any], moment: dt.datetime) -> Annotation:
    values = {
        "reviewer_id": said["reviewer"].strip(),
        "reviewer_discipline": said["discipline"],
        "timestamp": moment,
        "judgment": judgment,
        "categories": [*dict.fromkeys(filter(None, map(category_slug, said["categories"])))],
        "notes": said["notes"],
    }
    try:
        return Annotation.model_validate(values)
    except ValidationError as error:
        problem = error.errors()[0]
        raise UsageError(f"{problem['loc'][0]}: {problem['msg']}, found {problem['input']!r}") from error
