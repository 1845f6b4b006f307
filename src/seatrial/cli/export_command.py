"""`seatrial export JOB`: trajectories and training data from what agents and their models said."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click
from pydantic import ValidationError

from seatrial.analysis.filters import Filter
from seatrial.analysis.loaded import LoadedJob, filter_job, load_job
from seatrial.cli.export_dataset import DatasetExport, export_dataset
from seatrial.cli.export_files import Sink, open_sink
from seatrial.cli.export_filter import where_option
from seatrial.cli.job_view import find_trial
from seatrial.errors import JobError
from seatrial.report.export import LINE_FORMATS, find_talks
from seatrial.report.text import counted, harmless
from seatrial.store.index import TrialEntry
from seatrial.store.job_store import JobStore


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Which trials are exported."""

    trials: tuple[str, ...]
    where: Filter
    passed: bool
    min_reward: float | None

    def entries(self, job: LoadedJob) -> list[TrialEntry]:
        named = {find_trial(job.store, wanted).trial_id for wanted in self.trials}
        found = filter_job(job, self.where).trials
        return [entry for entry in found if self._fits(entry) and (not named or entry.trial_id in named)]

    def _fits(self, entry: TrialEntry) -> bool:
        enough = self.min_reward is None or (entry.reward is not None and entry.reward >= self.min_reward)
        return enough and (not self.passed or entry.outcome == "pass")


@click.command("export")
@click.argument("job", type=click.Path(path_type=Path))
@click.option(
    "--format", "form", type=click.Choice(["atif", "hf", *LINE_FORMATS]), required=True, help="What to write."
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="The file or folder to make; never replaced."
)
@click.option("--trial", "trials", multiple=True, metavar="TRIAL", help="Only this trial; may be given several times.")
@where_option("Export")
@click.option("--passed", is_flag=True, help="Only trials that passed.")
@click.option("--min-reward", type=float, metavar="X", help="Only trials with at least this reward.")
@click.option(
    "--threads", type=click.Choice(["main", "all"]), default="main", show_default=True, help="For training data."
)
def command(job: Path, form: str, output: Path, threads: Literal["main", "all"], **chosen: Any) -> None:
    """Write what the agents of the job in folder JOB and their models said, for other tools.

    \b
    atif          trajectories as Harbor reads them: a folder, or one .json file
    hf            a dataset folder for HuggingFace: Parquet files and a README.md
    sharegpt      a line of conversations, system and tools per trial
    openai-jsonl  a line of messages and tools per trial, as fine-tuning takes it
    """
    loaded = load_job(job)
    store, entries = loaded.store, _Chosen(**chosen).entries(loaded)
    if not entries:
        raise JobError(f"{job}: no trial is as asked for; `seatrial show {job}` lists them")
    if form == "hf":
        _export_dataset(DatasetExport(store, entries, threads), output)
        return
    with open_sink(form, output, threads) as sink:
        silent = sum(_export(sink, store, entry) for entry in entries)
        written = sink.written
        if not written:
            raise JobError(f"{job}: nothing to export; no model answered in {counted(len(entries), 'trial')}")
    without = f"; {counted(silent, 'trial has', 'trials have')} no model calls" if silent else ""
    heard = counted(len(entries) - silent, "trial")
    click.echo(f"{output}: {counted(written, *sink.noun)} from {heard}{without}", err=True)
    if sink.damaged:
        raise click.exceptions.Exit(1)


def _export_dataset(export: DatasetExport, output: Path) -> None:
    export_dataset(export, output)
    if export.damaged:
        raise click.exceptions.Exit(1)


def _export(sink: Sink, store: JobStore, entry: TrialEntry) -> bool:
    """Export one trial. Returns whether there was nothing to export."""
    trial_id = entry.trial_id
    talks = find_talks(store.record(trial_id), store.trial_folder(trial_id), store.annotations_of(trial_id))
    for talk in talks:
        try:
            sink.write(talk)
        except ValueError as error:
            sink.damaged += 1
            reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
            click.echo(f"Warning: {harmless(f'{talk.path} is damaged and left out: {reason}')}", err=True)
    return not talks
