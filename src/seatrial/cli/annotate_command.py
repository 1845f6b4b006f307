"""`seatrial annotate JOB TRIAL`: a reviewer's verdict, kept beside the reward and never in its place."""

import datetime as dt
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError

from seatrial.cli.job_view import find_trial
from seatrial.cli.trial_view import show_annotations
from seatrial.errors import UsageError
from seatrial.model.annotation import Annotation, Judgment
from seatrial.report.text import format_reward, harmless
from seatrial.store.annotations import append_annotation, read_annotations
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
def command(job: Path, trial: str, judgment: str, reviewer: str, **said: Any) -> None:
    """Add a verdict on TRIAL of the job in folder JOB, then show all there are. The reward stays as it is."""
    store = JobStore.open(job)
    entry = find_trial(store, trial)
    append_annotation(store, entry.trial_id, _annotation(judgment, reviewer, said))
    click.echo(f"{harmless(entry.trial_id)}: {entry.outcome}, reward {format_reward(entry.reward)}")
    show_annotations(read_annotations(store)[entry.trial_id])


def _annotation(judgment: str, reviewer: str, said: dict[str, Any]) -> Annotation:
    values = {
        "reviewer_id": reviewer.strip(),
        "reviewer_discipline": said["discipline"],
        "timestamp": dt.datetime.now(dt.UTC),
        "judgment": judgment,
        "categories": list(said["categories"]),
        "notes": said["notes"],
    }
    try:
        return Annotation.model_validate(values)
    except ValidationError as error:
        problem = error.errors()[0]
        raise UsageError(f"{problem['loc'][0]}: {problem['msg']}, found {problem['input']!r}") from error
