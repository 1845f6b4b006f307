"""`seatrial export JOB --format hf`: a folder that HuggingFace's `datasets` reads, there as a whole or not at all."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import click

from seatrial.errors import UsageError
from seatrial.report.dataset_card import DatasetCounts, dataset_card
from seatrial.report.dataset_rows import Row, dataset_rows
from seatrial.report.formats.dataset_files import write_dataset_files
from seatrial.report.text import counted, harmless
from seatrial.store.index import TrialEntry
from seatrial.store.job_store import JobStore


@dataclass(slots=True)
class DatasetExport:
    """The rows of a job's trials, counted as they are read; trials with damaged calls are left out and named."""

    store: JobStore
    entries: Sequence[TrialEntry]
    threads: Literal["main", "all"]
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


def export_dataset(export: DatasetExport, output: Path) -> None:
    """Write the dataset folder. Raises UsageError if there is something at that place already."""
    if os.path.lexists(output):
        raise UsageError(f"{output} is there already, and is not replaced; name another with -o")
    output.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{output.name}.", dir=output.parent))
    try:
        made = aside / "new"
        made.mkdir()
        ending = write_dataset_files(export.rows(), made / "data")
        card = dataset_card(export.store.file.spec.name, ending, export.counts)
        (made / "README.md").write_text(card, encoding="utf-8")
        made.rename(output)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    rows = f"{counted(export.counts.rows, 'row')} from {counted(len(export.entries), 'trial')}"
    note = "; install pyarrow for Parquet" if ending == "jsonl" else ""
    click.echo(f"{output}: {rows}, {ending}{note}", err=True)
