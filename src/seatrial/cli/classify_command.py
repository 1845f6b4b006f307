"""`seatrial classify JOB`: what agents did in each turn, by rules or by judges, and failures by a vocabulary."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from seatrial.analysis.behaviour import ClassifiedTrial, behaviour_figures, classified_trials, likeness_to_passed
from seatrial.analysis.loaded import LoadedJob, filter_job, load_job
from seatrial.analysis.tables import Table
from seatrial.cli.analysis_options import where_option
from seatrial.cli.judge_command import ASKING, LIMITS, judge_trials, options_asked
from seatrial.cli.options import OptionGroup, grouped
from seatrial.cli.screen import show_table
from seatrial.errors import JobError, SeatrialError, UsageError
from seatrial.jobs.turns import classified, read_turns
from seatrial.judge.rubric import find_vocabulary
from seatrial.model.assessment import Assessment
from seatrial.report.behaviour import LIKENESS_COLUMNS, behaviour_table, likeness_row, transitions_table
from seatrial.report.text import counted, harmless
from seatrial.stats.sequences import Likeness
from seatrial.store.index import TrialEntry

_WHAT = OptionGroup(
    "What to classify, and by whom",
    (
        click.option(
            "--judge",
            "judges",
            multiple=True,
            metavar="MODEL",
            help="A model that classifies; several are several judges.  [rules alone]",
        ),
        click.option(
            "--vocabulary",
            metavar="FILE",
            help="Have judges name the failures of trials that did not pass, by this file or one of mast, trail, …",
        ),
        where_option("Classify"),
        *ASKING,
    ),
)
_HOW = OptionGroup(
    "How",
    (
        *LIMITS,
        click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each trial."),
    ),
)
_FAILED = ("fail", "partial", "no_output", "invalid_output")
_EXAMPLES = """
seatrial classify jobs/first
seatrial classify jobs/first --judge claude-sonnet-5 --max-cost 2
seatrial classify jobs/first --vocabulary mast --judge claude-sonnet-5
"""


@click.command("classify", cls=grouped(_WHAT, _HOW), epilog=_EXAMPLES)
@click.argument("job", type=click.Path(path_type=Path))
@_WHAT
@_HOW
@click.pass_context
def command(context: click.Context, /, job: Path, **options: Any) -> None:
    """Say what agents did in each turn of the trials of the job in folder JOB.

    A turn is execution, verification, deliberation or exploration, with a confidence from 0 to 1 and a reason. Rules
    find that in the recorded calls, which is free; judges are asked with --judge. Results are kept with the job, for
    `show` and `report`. With --vocabulary, judges name the failures of trials that did not pass, as tags. Exit codes:
    as for `judge`.
    """
    found = filter_job(load_job(job), options["where"])
    if options["vocabulary"]:
        _name_failures(context, found, options)
    trials = _classify(found)
    code = (
        judge_trials(found.store, trials, options_asked(options, turns=True), is_quiet=True) if options["judges"] else 0
    )
    every = classified_trials(found.trials, found.store.behaviour())
    alike = _alike(every)
    if options["as_json"]:
        for each in every:
            click.echo(json.dumps(_document(each, alike.get((each.source, each.trial.trial_id)))))
    else:
        _show(found, every, alike)
    context.exit(code)


def _name_failures(context: click.Context, job: LoadedJob, options: dict[str, Any]) -> None:
    """Have judges answer the one question of a vocabulary, and end the command."""
    if not options["judges"]:
        raise UsageError("--vocabulary: only a judge can name failures; add --judge MODEL")
    failed = [trial for trial in job.trials if trial.outcome in _FAILED]
    if not failed:
        raise JobError(f"{job.path}: no trial failed, so there is no failure to name")
    asked = options_asked(options, find_vocabulary(options["vocabulary"]))
    context.exit(judge_trials(job.store, failed, asked, as_json=options["as_json"]))


def _classify(job: LoadedJob) -> list[TrialEntry]:
    """Classify the turns of all trials by rules, and keep what is new. Returns the trials that have any turn."""
    known, with_turns = job.store.behaviour(), list[TrialEntry]()
    for trial in job.trials:
        try:
            revisions = job.store.revisions(trial.trial_id)
        except SeatrialError as error:
            click.echo(f"Warning: {harmless(str(error))}", err=True)
            continue
        turns = read_turns(revisions[0].folder, revisions[-1].record)
        made = classified(revisions[-1].record, turns)
        if turns.turns:
            with_turns.append(trial)
            if not any(_is_same(made, each) for each in known.get(trial.trial_id, ())):
                job.store.add_behaviour(made)
    if missing := len(job.trials) - len(with_turns):
        click.echo(f"Note: {counted(missing, 'trial has', 'trials have')} no recorded turns", err=True)
    if not with_turns:
        raise JobError(f"{job.path}: no trial has recorded calls of a model, so there is nothing to classify")
    return with_turns


def _is_same(made: Assessment, known: Assessment) -> bool:
    return (made.judges, made.prompt_digest, made.evidence_digest) == (
        known.judges,
        known.prompt_digest,
        known.evidence_digest,
    )


_Alike = dict[tuple[str, str], Likeness]
"""By source and trial."""


def _alike(every: Sequence[ClassifiedTrial]) -> _Alike:
    sources = dict.fromkeys(each.source for each in every)
    return {
        (source, trial_id): alike
        for source in sources
        for trial_id, alike in likeness_to_passed([each for each in every if each.source == source]).items()
    }


def _show(job: LoadedJob, every: Sequence[ClassifiedTrial], alike: _Alike) -> None:
    rows = [likeness_row(each, alike.get((each.source, each.trial.trial_id))) for each in every]
    show_table("", Table(LIKENESS_COLUMNS, sorted(rows), names=3))
    agents = dict.fromkeys(trial.agent for trial in job.trials)
    figures = [
        found for agent in agents for found in behaviour_figures(agent, [e for e in every if e.trial.agent == agent])
    ]
    click.echo()
    show_table("behaviour by agent", behaviour_table(figures))
    for each in figures:
        click.echo()
        show_table(f"what follows what: {harmless(each.arm)}, {harmless(each.source)}", transitions_table(each))


def _document(found: ClassifiedTrial, alike: Likeness | None) -> dict[str, Any]:
    failure = found.first_failure
    return {
        "trial_id": found.trial.trial_id,
        "agent": found.trial.agent,
        "outcome": found.trial.outcome,
        "source": found.source,
        "turns": [
            {
                **(each.turn.model_dump() if each.turn else {}),
                "behaviour": each.answer,
                "confidence": each.confidence,
                "rationale": next((vote.reason for vote in each.votes if vote.answer == each.answer), None),
                "unscored": each.unscored,
            }
            for each in found.turns
        ],
        "first_failure": {**failure.turn.model_dump(), "at": failure.answer, "reason": failure.votes[0].reason}
        if failure and failure.turn
        else None,
        "likeness": asdict(alike) if alike else None,
    }
