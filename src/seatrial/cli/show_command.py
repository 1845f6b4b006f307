"""`seatrial show JOB... [TRIAL]`: what jobs amount to, or everything about one trial of a job."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from seatrial.analysis.figures_json import arms_json, groups_json, heat_json
from seatrial.analysis.heat import heat_map
from seatrial.analysis.loaded import LoadedJob, load_jobs
from seatrial.analysis.reviewed import reviewed_in
from seatrial.analysis.summary import summary_json
from seatrial.analysis.taxonomy import taxonomy_of
from seatrial.cli.job_view import find_trial
from seatrial.cli.jobs_view import JobsShown, examine, show_jobs
from seatrial.cli.render import show_warning
from seatrial.cli.show_options import ShowOptions, show_options
from seatrial.cli.show_words import NamedJobs, is_evaluation, open_with_trial, read_words
from seatrial.cli.trial_json import annotations_json, show_trial_json
from seatrial.cli.trial_view import show_trial
from seatrial.report.text import harmless


@click.command("show")
@click.argument("words", nargs=-1, required=True, metavar="JOB... [TRIAL]")
@show_options
@click.option("--json", "as_json", is_flag=True, help="Print all of it, or the trial's record, as one JSON object.")
def command(words: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Show the jobs in folders JOB, or one TRIAL of a job, named by its id or by any part that no other has.

    A folder of `seatrial eval` whose rollouts are no trials, or of verifiers, shows what its rollouts amount to.

    \b
    seatrial show jobs/mine                       the summary and the worst trials
    seatrial show jobs/a jobs/b --by category     a row per category and agent
    seatrial show jobs/mine --where outcome=fail  only trials that failed
    seatrial show jobs/mine crc                   everything about one trial
    """
    if all(is_evaluation(word) for word in words):
        _show_evaluations([Path(word) for word in words], as_json=as_json)
        return
    named, asked = read_words(words), ShowOptions(**options)
    if named.trial is not None:
        _show_trial(named, as_json=as_json)
        return
    jobs = load_jobs(named.jobs, asked.where)
    shown = examine(jobs, asked)
    if as_json:
        click.echo(json.dumps(_document(shown), indent=2))
    else:
        show_jobs(shown)


def _show_evaluations(folders: list[Path], *, as_json: bool) -> None:
    """Rollouts of `seatrial eval`, or of verifiers, that are no trials of a job."""
    from seatrial.cli.eval_view import (  # noqa: PLC0415 - jobs need none of it
        figures_json,
        show_evaluation,
        stored_figures,
    )

    if as_json:
        found = [{"folder": str(folder), **figures_json(stored_figures(folder))} for folder in folders]
        click.echo(json.dumps(found[0] if len(found) == 1 else {"evaluations": found}, indent=2))
        return
    for folder in folders:
        click.echo(harmless(str(folder)))
        show_evaluation(folder)


def _show_trial(named: NamedJobs, *, as_json: bool) -> None:
    store, trial_id = open_with_trial(named, lambda store, word: find_trial(store, word).trial_id)
    revisions, said = store.revisions(trial_id), store.annotations_of(trial_id, show_warning)
    record = reviewed_in(revisions[-1].record, store.reviews())
    if as_json:
        show_trial_json(record, [each.record for each in revisions], said)
        return
    show_trial(record, revisions, said, store.file.seatrial_version)


def _document(shown: JobsShown) -> dict[str, Any]:
    """One job as one object; several as a list of such under `jobs`. What is about all of them is beside it."""
    jobs = [_job_document(job) for job in shown.jobs]
    document: dict[str, Any] = jobs[0] if len(jobs) == 1 else {"jobs": jobs}
    document["arms"] = arms_json(shown.arms, shown.figures)
    document["failures"] = asdict(taxonomy_of(shown.arms))
    if shown.options.by:
        document["grouped"] = groups_json(shown.options.by, shown.groups(shown.options.by))
    if shown.options.heat:
        document["heat"] = heat_json(heat_map(shown.arms))
    return document


def _job_document(job: LoadedJob) -> dict[str, Any]:
    return {
        "folder": str(job.path),
        "job": job.file.model_dump(mode="json"),
        "summary": summary_json(job.summary),
        "where": str(job.filter) or None,
        "trials": [entry._asdict() for entry in job.trials],
        "annotations": annotations_json(job.store.annotations(show_warning)),
        "uncounted": [asdict(found) for found in job.uncounted],
    }
