"""A job on the screen: its summary and its trials; and finding the job and the trial somebody named."""

import difflib
from collections.abc import Sequence
from pathlib import Path

import click

from seatrial.cli.colours import OUTCOME_COLOURS, paint
from seatrial.cli.render import show_table
from seatrial.errors import JobError
from seatrial.report.summary import JobSummary
from seatrial.report.text import (
    SUMMARY_COLUMNS,
    TRIAL_COLUMNS,
    USAGE_COLUMNS,
    USED_COLUMNS,
    by_task,
    counted,
    doubts,
    failure_line,
    harmless,
    summary_rows,
    trial_row,
    usage_rows,
    used_cells,
    worst_first,
)
from seatrial.store.index import TrialEntry

_SHOWN = 40
_NAMED = 5


def show_summary(summary: JobSummary) -> None:
    """A row per agent with mean, interval, denominators and outcomes; then doubts, what is left out, what was used."""
    show_table("", SUMMARY_COLUMNS, summary_rows(summary))
    for name, tally in summary.agents.items():
        for line in doubts(tally):
            click.echo(f"{harmless(name)}: {line}")
    if summary.broken_tasks:
        click.echo(harmless(_broken(summary.broken_tasks)))
    for failed in summary.failures[:_NAMED]:
        click.echo(paint(failure_line(failed), OUTCOME_COLOURS["infrastructure_error"]))
    if (others := len(summary.failures) - _NAMED) > 0:
        click.echo(f"not scored: … and {counted(others, 'other reason')}; the records name them")
    for count in summary.left_out:
        click.echo(harmless(str(count)))
    if rows := usage_rows(summary):
        show_table("models", USAGE_COLUMNS, rows)


def _broken(tasks: Sequence[str]) -> str:
    named = ", ".join(tasks[:_NAMED]) + (", …" if len(tasks) > _NAMED else "")
    have = counted(len(tasks), "task has", "tasks have")
    return f"{have} a verifier that gives no verdict even where no agent has been; no trial there counts: {named}"


def show_trials(entries: Sequence[TrialEntry], *, everything: bool) -> None:
    """A row per trial. Of many only the worst are shown, unless everything is wanted."""
    if not entries:
        return
    long = len(entries) > _SHOWN and not everything
    chosen = worst_first(entries)[:_SHOWN] if long else by_task(entries)
    if any(entry.model_calls is not None for entry in entries):
        rows = [(*trial_row(entry), *used_cells(entry)) for entry in chosen]
        show_table("trials", (*TRIAL_COLUMNS, *USED_COLUMNS), rows)
    else:
        show_table("trials", TRIAL_COLUMNS, map(trial_row, chosen))
    if long:
        click.echo(f"{counted(len(entries) - _SHOWN, 'more trial')}, none worse; --all shows them", err=True)


def find_trial(entries: Sequence[TrialEntry], wanted: str, folder: Path) -> TrialEntry:
    """The trial of that id, or the only one whose id has that part. Raises JobError that names the candidates."""
    exact = [entry for entry in entries if entry.trial_id == wanted]
    found = exact or [entry for entry in entries if wanted in entry.trial_id]
    if len(found) == 1:
        return found[0]
    if found:
        raise JobError(f"{wanted!r} is part of {len(found)} trials of {folder}: {_names(found)}; give more of the name")
    near = difflib.get_close_matches(wanted, [entry.trial_id for entry in entries], n=1, cutoff=0.4)
    hint = f"did you mean {harmless(near[0])}?" if near else f"finished trials: {_names(entries) or 'none yet'}"
    raise JobError(f"{folder} has no finished trial {wanted!r}; {hint}")


def _names(entries: Sequence[TrialEntry]) -> str:
    more = ", …" if len(entries) > _NAMED else ""
    return ", ".join(harmless(entry.trial_id) for entry in entries[:_NAMED]) + more
