"""`seatrial show JOB [TRIAL]`: what a job amounts to, or everything about one of its trials."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from seatrial.cli.job_view import find_trial, show_summary, show_trials, show_uncounted
from seatrial.cli.program import command_line
from seatrial.cli.render import show_json
from seatrial.cli.trial_view import show_trial
from seatrial.model.record import TrialRecord
from seatrial.report.summary import summarise_job, summary_json
from seatrial.report.text import counted, harmless
from seatrial.store.annotations import read_annotations
from seatrial.store.job_store import JobStore


@click.command("show")
@click.argument("job", type=click.Path(path_type=Path))
@click.argument("trial", required=False)
@click.option("--all", "everything", is_flag=True, help="Show every trial, however many there are.")
@click.option("--json", "as_json", is_flag=True, help="Print the job, or the trial's record, as one JSON object.")
def command(job: Path, trial: str | None, everything: bool, as_json: bool) -> None:
    """Show the job in folder JOB, or one TRIAL of it, named by its id or by any part that no other has."""
    store = JobStore.open(job)
    if trial is None:
        _show_job(store, everything=everything, as_json=as_json)
        return
    revisions = store.revisions(find_trial(store, trial).trial_id)
    if as_json:
        _show_as_json([each.record for each in revisions])
        return
    said = read_annotations(store, damaged=_warn).get(revisions[0].record.trial_id, [])
    show_trial(revisions, said, store.file.seatrial_version)


def _show_as_json(records: Sequence[TrialRecord]) -> None:
    """The record that counts; where the trial was judged again, with all of them, the first one first."""
    if len(records) == 1:
        show_json(records[0])
        return
    every = [record.model_dump(mode="json") for record in records]
    click.echo(json.dumps({**every[-1], "revisions": every}, indent=2))


def _show_job(store: JobStore, *, everything: bool, as_json: bool) -> None:
    census = store.census()
    entries = census.entries
    summary = summarise_job(entries, store.file)
    if as_json:
        document = {
            "folder": str(store.path),
            "job": store.file.model_dump(mode="json"),
            "summary": summary_json(summary),
            "trials": [entry._asdict() for entry in entries],
            "uncounted": [asdict(found) for found in census.uncounted],
        }
        click.echo(json.dumps(document, indent=2))
        return
    spec = store.file.spec
    created = store.file.created_at.isoformat(sep=" ", timespec="seconds")
    agents = ", ".join(harmless(agent.title) for agent in spec.agents)
    parts = (counted(len(store.file.tasks), "task"), counted(spec.attempts, "attempt"), f"agents {agents}")
    click.echo(" · ".join((spec.name, *parts, f"begun {created}")))
    show_summary(summary)
    show_trials(entries, everything=everything)
    show_uncounted(store, census.uncounted, everything=everything)
    if summary.total.open:
        click.echo(_how_to_continue(store, summary.total.open), err=True)


def _how_to_continue(store: JobStore, left: int) -> str:
    trials = counted(left, "trial has", "trials have")
    if store.file.driver == "environment":
        return f"{trials} no record yet. Continue with: evaluate(…, resume=True)"
    return f"{trials} not run yet. Continue with: {command_line('resume', str(store.path))}"


def _warn(message: str) -> None:
    click.echo(f"Warning: {harmless(message)}", err=True)
