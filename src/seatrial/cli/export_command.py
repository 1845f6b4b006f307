"""`seatrial export JOB`: trajectories and training data from what agents and their models said.

Files and folders are there as a whole or not at all, and nothing that was there before is replaced.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol

import click
from pydantic import ValidationError

from seatrial.analysis.loaded import Filter, LoadedJob, filter_job, load_job
from seatrial.cli.analysis_options import where_option
from seatrial.cli.job_view import find_trial
from seatrial.errors import JobError, UsageError
from seatrial.report.dataset import DatasetCounts, Row, dataset_card, dataset_rows, write_dataset_files
from seatrial.report.export import TrialTalk, find_talks, training_lines, trajectory_of
from seatrial.report.text import counted, harmless
from seatrial.store.index import TrialEntry
from seatrial.store.job_store import JobStore
from seatrial.trajectories.atif import FOLDER as IMAGES
from seatrial.trajectories.atif import TRAJECTORY_FILE, write_trajectory
from seatrial.untrusted.json import dump

_Threads = Literal["main", "all"]
_LINES = "openai-jsonl"
"""The format of training data; the other one is a folder of trajectories."""
_NEW, _METADATA = "new", "metadata"  # what an export is called before it is in its place


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


class _Sink(Protocol):
    """Takes one trial after the other. `damaged` counts those that could not be read."""

    written: int
    damaged: int
    noun: tuple[str, str]

    def write(self, talk: TrialTalk) -> None:
        """Export the calls of a trial. Raises OSError, or ValueError for damaged calls."""
        ...


class _LineSink:
    """Lines of training data; what they are of is in a second file with as many lines."""

    noun = ("line", "lines")

    def __init__(self, lines: BinaryIO, metadata: BinaryIO, threads: _Threads) -> None:
        self._lines = lines
        self._metadata = metadata
        self._threads: _Threads = threads
        self.written = self.damaged = 0

    def write(self, talk: TrialTalk) -> None:
        for made in list(training_lines(talk, threads=self._threads)):
            self._metadata.write(_line(made.facts))
            self._lines.write(_line(made.line))
            self.written += 1


class _TrajectorySink:
    """A folder for each trial, and below it one for each step."""

    noun = ("trajectory", "trajectories")

    def __init__(self, folder: Path) -> None:
        self._folder = folder / _NEW
        self.written = self.damaged = 0

    def write(self, talk: TrialTalk) -> None:
        if made := trajectory_of(talk):
            write_trajectory(made, self._folder / talk.place / TRAJECTORY_FILE)
            self.written += 1


@dataclass(slots=True)
class _DatasetExport:
    """The rows of a job's trials, counted as they are read; trials with damaged calls are left out and named."""

    store: JobStore
    entries: Sequence[TrialEntry]
    threads: _Threads
    counts: DatasetCounts = field(default_factory=DatasetCounts)
    damaged: int = 0

    def rows(self) -> Iterator[Row]:
        """A row for each conversation of each trial, in the order of the trials."""
        for entry in self.entries:
            for row in self._of_trial(entry.trial_id):
                self.counts.add(row)
                yield row

    def _of_trial(self, trial_id: str) -> list[Row]:
        record, folder = self.store.record(trial_id), self.store.trial_folder(trial_id)
        try:
            return list(dataset_rows(record, folder, self.threads))
        except ValueError as error:
            self.damaged += 1
            click.echo(f"Warning: {harmless(f'{trial_id} is left out, its calls are damaged: {error}')}", err=True)
            return []


@click.command("export")
@click.argument("job", type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(["atif", "hf", _LINES]), required=True, help="What to write.")
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
def command(job: Path, form: str, output: Path, threads: _Threads, **chosen: Any) -> None:
    """Write what the agents of the job in folder JOB and their models said, for other tools.

    \b
    atif          trajectories as Harbor reads them: a folder, or one .json file
    hf            a dataset folder for HuggingFace: Parquet files and a README.md
    openai-jsonl  a line of messages and tools per trial, as fine-tuning takes it
    """
    loaded = load_job(job)
    store, entries = loaded.store, _Chosen(**chosen).entries(loaded)
    if not entries:
        raise JobError(f"{job}: no trial is as asked for; `seatrial show {job}` lists them")
    if form == "hf":
        export = _DatasetExport(store, entries, threads)
        _write_dataset(export, output)
        if export.damaged:
            raise click.exceptions.Exit(1)
        return
    with _open_sink(form, output, threads) as sink:
        silent = sum(_export(sink, store, entry) for entry in entries)
        written = sink.written
        if not written:
            raise JobError(f"{job}: nothing to export; no model answered in {counted(len(entries), 'trial')}")
    without = f"; {counted(silent, 'trial has', 'trials have')} no model calls" if silent else ""
    heard = counted(len(entries) - silent, "trial")
    click.echo(f"{output}: {counted(written, *sink.noun)} from {heard}{without}", err=True)
    if sink.damaged:
        raise click.exceptions.Exit(1)


def _export(sink: _Sink, store: JobStore, entry: TrialEntry) -> bool:
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


@contextmanager
def _open_sink(form: str, output: Path, threads: _Threads) -> Iterator[_Sink]:
    """Where an export in the format `form` goes; it is in its place when the block ends well. Raises UsageError."""
    sidecar = output.with_name(f"{output.stem}.metadata.jsonl") if form == _LINES else None
    with _folder_beside(output, *filter(None, (sidecar,))) as folder:
        with ExitStack() as stack:
            yield _line_sink(stack, folder, threads) if sidecar else _TrajectorySink(folder)
        if sidecar:
            (folder / _NEW).rename(output)
            (folder / _METADATA).rename(sidecar)
        else:
            _place_trajectories(folder / _NEW, output)


@contextmanager
def _folder_beside(*made: Path) -> Iterator[Path]:
    """A folder to work in that goes at the end. Raises UsageError if what is made is there already."""
    for path in made:
        if os.path.lexists(path):
            raise UsageError(f"{path} is there already, and is not replaced; name another with -o")
    output = made[0]
    output.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{output.name}.", dir=output.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _line_sink(stack: ExitStack, folder: Path, threads: _Threads) -> _Sink:
    lines, metadata = (stack.enter_context((folder / name).open("wb")) for name in (_NEW, _METADATA))
    return _LineSink(lines, metadata, threads)


def _place_trajectories(made: Path, output: Path) -> None:
    """Move what was made to its place: a folder, or the one trajectory there is if a file was asked for."""
    if output.suffix != ".json":
        made.rename(output)
        return
    found = sorted(made.rglob(TRAJECTORY_FILE))
    if len(found) != 1:
        raise UsageError(f"{output} is one file, and there are {len(found)} trajectories; name a folder with -o")
    images = found[0].parent / IMAGES
    if images.is_dir():
        (output.parent / IMAGES).mkdir(exist_ok=True)
        for image in images.iterdir():  # named by what is in them, so that one of that name is the same
            image.replace(output.parent / IMAGES / image.name)
    found[0].rename(output)


def _line(value: dict[str, Any]) -> bytes:
    return dump(value).encode() + b"\n"


def _write_dataset(export: _DatasetExport, output: Path) -> None:
    """Write the dataset folder. Raises UsageError if there is something at that place already."""
    with _folder_beside(output) as folder:
        made = folder / _NEW
        made.mkdir()
        ending = write_dataset_files(export.rows(), made / "data")
        card = dataset_card(export.store.file.spec.name, ending, export.counts)
        (made / "README.md").write_text(card, encoding="utf-8")
        made.rename(output)
    rows = f"{counted(export.counts.rows, 'row')} from {counted(len(export.entries), 'trial')}"
    note = "; install pyarrow for Parquet" if ending == "jsonl" else ""
    click.echo(f"{output}: {rows}, {ending}{note}", err=True)
