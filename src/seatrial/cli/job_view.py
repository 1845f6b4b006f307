"""A job on the screen: its summary and its trials; and finding the job and the trial somebody named."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import click

from seatrial.analysis.figures import Figures
from seatrial.analysis.loaded import Filter, LoadedJob, filter_job, load_job
from seatrial.analysis.summary import JobSummary
from seatrial.cli.program import command_line
from seatrial.cli.screen import OUTCOME_COLOURS, paint, show_line, show_table
from seatrial.errors import JobError, StoreError
from seatrial.report.tables import summary_table, trials_table, usage_table
from seatrial.report.text import (
    by_task,
    counted,
    doubts,
    failure_line,
    harmless,
    interval_line,
    outcome_counts,
    prices_line,
    worst_first,
)
from seatrial.store.index import TrialEntry
from seatrial.store.job_store import JobStore
from seatrial.store.records import Uncounted

_SHOWN = 40
_NAMED = 5


def show_summary(summary: JobSummary) -> None:
    """A row per agent with mean, intervals and denominators; then outcomes, doubts, what is left out, what was used."""
    show_table("", summary_table(summary.agents))
    show_intervals(summary.agents.values())
    show_beside(summary.agents)
    show_causes(summary)
    show_models(summary.agents)


def show_intervals(shown: Iterable[Figures]) -> None:
    """By what the intervals of a table were computed, if it has any."""
    if line := interval_line(shown):
        show_line(line)


def show_beside(agents: Mapping[str, Figures], more: Mapping[str, Sequence[str]] | None = None) -> None:
    """What belongs beside the means: how trials ended, doubts, and what `more` has of each agent."""
    for name, figures in agents.items():
        for line in (outcome_counts(figures), *doubts(figures), *(more or {}).get(name, ())):
            show_line(f"{harmless(name)}: {line}")


def show_causes(summary: JobSummary) -> None:
    """Which trials of a job do not count, and why."""
    if summary.broken_tasks:
        show_line(_broken(summary.broken_tasks))
    if summary.system_tasks:
        show_line(_about_system(summary.system_tasks))
    for failed in summary.failures[:_NAMED]:
        click.echo(paint(failure_line(failed), OUTCOME_COLOURS["infrastructure_error"]))
    if (others := len(summary.failures) - _NAMED) > 0:
        click.echo(f"not scored: … and {counted(others, 'other reason')}; the records name them")
    for count in summary.left_out:
        show_line(str(count))


def show_models(agents: Mapping[str, Figures]) -> None:
    table = usage_table(agents)
    if table.rows:
        show_table("models", table)
        if line := prices_line(agents.values()):
            show_line(line)


def _broken(tasks: Sequence[str]) -> str:
    have = counted(len(tasks), "task has", "tasks have")
    why = "a verifier that gives no verdict even where no agent has been; no trial there counts"
    return f"{have} {why}: {_some(tasks)}"


def _about_system(tasks: Sequence[str]) -> str:
    need = counted(len(tasks), "task needs", "tasks need")
    return f'{need} `system = "agent"` in [verifier] of task.toml, for the solution passes on no other: {_some(tasks)}'


def _some(tasks: Sequence[str]) -> str:
    return ", ".join(tasks[:_NAMED]) + (", …" if len(tasks) > _NAMED else "")


def show_trials(entries: Sequence[TrialEntry], *, everything: bool) -> None:
    """A row per trial. Of many only the worst are shown, unless everything is wanted."""
    if not entries:
        return
    long = len(entries) > _SHOWN and not everything
    chosen = worst_first(entries, _SHOWN) if long else by_task(entries)
    with_usage = any(entry.model_calls is not None for entry in entries)
    show_table("trials", trials_table(chosen, with_usage=with_usage))
    if long:
        click.echo(f"{counted(len(entries) - _SHOWN, 'more trial')}, none worse; --all shows them", err=True)


def show_uncounted(store: JobStore, found: Sequence[Uncounted], *, everything: bool) -> None:
    """What is there and does not count, a line each, with what to do about it. Of many only some are shown."""
    shown = found if everything else found[:_SHOWN]
    for each in shown:
        click.echo(f"Warning: {harmless(store.explain(each))}", err=True)
    if len(found) > len(shown):
        more = counted(len(found) - len(shown), "more trial does", "more trials do")
        click.echo(f"{more} not count; --all shows them", err=True)


def warn_of_uncounted(jobs: Iterable[LoadedJob]) -> None:
    """A line for each job with records that do not count, for commands whose numbers are without them."""
    for job in jobs:
        if job.uncounted:
            records = counted(len(job.uncounted), "record does", "records do")
            advice = f"`{command_line('show', str(job.path), '--all')}` says why"
            click.echo(f"Warning: {harmless(f'{job.path}: {records} not count; {advice}')}", err=True)


def readable_job(folder: Path, wanted: Filter) -> LoadedJob:
    """A job whose gate is asked for. Raises JobError where it cannot be read, which must not exit as a verdict does."""
    try:
        return filter_job(load_job(folder), wanted)
    except StoreError as error:
        raise JobError(str(error)) from error


def find_trial(store: JobStore, wanted: str) -> TrialEntry:
    """The trial of that id, else the only one of that task, else the only one whose id has that part.

    Raises JobError that names the candidates, StoreError with the reason for a trial that does not count.
    """
    census = store.census()
    uncounted = [found for found in census.uncounted if not found.revision]
    trials: list[TrialEntry | Uncounted] = [*census.entries, *uncounted]
    exact = [each for each in trials if each.trial_id == wanted]
    found = exact or [each for each in trials if wanted == _task_of(each)]
    found = found or [each for each in trials if wanted in each.trial_id]
    if len(found) > 1:
        listed = _names(found)
        raise JobError(f"{wanted!r} is part of {len(found)} trials of {store.path}: {listed}; give more of the name")
    if not found:
        near = difflib.get_close_matches(wanted, [each.trial_id for each in trials], n=1, cutoff=0.4)
        hint = f"did you mean {harmless(near[0])}?" if near else f"there are: {_names(trials) or 'none'}"
        raise JobError(f"{store.path} has no finished trial {wanted!r}; {hint}")
    if isinstance(found[0], Uncounted):
        raise StoreError(harmless(store.explain(found[0])))
    return found[0]


def _task_of(trial: TrialEntry | Uncounted) -> str:
    return trial.task_id if isinstance(trial, TrialEntry) else trial.trial_id.rsplit(".", 2)[0]


def _names(trials: Sequence[TrialEntry | Uncounted]) -> str:
    more = ", …" if len(trials) > _NAMED else ""
    return ", ".join(harmless(each.trial_id) for each in trials[:_NAMED]) + more
