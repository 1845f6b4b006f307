"""`seatrial import PATH -o JOB`: results of verifiers or Harbor as a job, with the mean recomputed beside theirs."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Literal

import click

from seatrial.analysis.tables import Table
from seatrial.cli.program import command_line
from seatrial.cli.screen import show_line, show_table, show_warning
from seatrial.errors import UsageError
from seatrial.integrations.importing import ImportOptions, ImportReport, Means, RewardRange, import_job, open_source
from seatrial.model.outcome import PASS_THRESHOLD, format_mean
from seatrial.model.record import SourceFormat
from seatrial.report.text import counted, harmless

_NAMED = 5
_COLUMNS = ("agent", "stored mean", "mean here", "scored", "tasks")


@click.command("import")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The job's folder, a new one.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["auto", "verifiers", "harbor"]),
    default="auto",
    show_default=True,
    help="Whose results they are.",
)
@click.option("--reward-range", metavar="LOW:HIGH", help="Which range of their rewards is 0 to 1 here.")
@click.option(
    "--pass-threshold",
    type=click.FloatRange(0.0, 1.0),
    default=PASS_THRESHOLD,
    show_default=True,
    help="From which reward on a trial has passed.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was imported as one JSON object.")
def command(
    path: Path,
    output: Path,
    form: SourceFormat | Literal["auto"],
    reward_range: str | None,
    pass_threshold: float,
    as_json: bool,
) -> None:
    """Import the results at PATH, which another program stored, as a job of ours.

    \b
    verifiers   a folder with results.jsonl and metadata.json
    harbor      a job's folder, with a result.json in the folder of each trial

    Trials that failed are in no mean here. Both means are printed, and why they differ.
    """
    options = ImportOptions(_scale(reward_range), pass_threshold)
    report = import_job(open_source(path, form), output, options)
    if as_json:
        click.echo(json.dumps(_document(report), indent=2))
    else:
        _show(report)
    if report.skipped:
        raise click.exceptions.Exit(1)


def _scale(asked: str | None) -> RewardRange:
    if asked is None:
        return RewardRange()
    low, _, high = asked.partition(":")
    try:
        scale = RewardRange(float(low), float(high))
    except ValueError:
        scale = RewardRange(0.0, 0.0)
    if not -1e9 <= scale.low < scale.high <= 1e9:
        raise UsageError(f"--reward-range {asked!r}: expected two numbers, the lower one first, such as -1:1")
    return scale


def _show(report: ImportReport) -> None:
    store = report.store
    show_table("", Table(_COLUMNS, [_row(each) for each in report.means]))
    for each in report.means:
        for reason in each.reasons:
            show_line(f"{each.agent}: {reason.change:+.4f} {reason.text}")
    for line in report.notes:
        show_line(f"Note: {line}")
    for skipped in report.skipped[:_NAMED]:
        show_warning(f"{skipped.place} {skipped.reason}; it is left out")
    if len(report.skipped) > _NAMED:
        show_warning(f"{counted(len(report.skipped) - _NAMED, 'more', 'more')} left out")
    tasks = counted(len(store.file.tasks), "task")
    click.echo(harmless(f"{store.path}: {counted(report.trials, 'trial')} of {tasks}"), err=True)
    click.echo(f"Look at it with: {command_line('show', str(store.path))}", err=True)


def _row(each: Means) -> tuple[str, ...]:
    return (
        harmless(each.agent),
        format_mean(each.stored, ".4f"),
        format_mean(each.mean, ".4f"),
        f"{each.scored:,} of {each.trials:,}",
        f"{each.tasks:,}",
    )


def _document(report: ImportReport) -> dict[str, object]:
    imported = report.store.file.imported
    return {
        "folder": str(report.store.path),
        "imported": imported.model_dump(mode="json") if imported else None,
        "trials": report.trials,
        "means": [asdict(each) for each in report.means],
        "notes": list(report.notes),
        "skipped": [asdict(each) for each in report.skipped],
    }
