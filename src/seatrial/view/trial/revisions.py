"""What became of a trial more than once: its revisions side by side, and the tries before the one that counts."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from seatrial.errors import SeatrialError
from seatrial.model.evaluation import ErrorSource, EvaluationResult
from seatrial.model.record import TrialRecord
from seatrial.report.reasons import failure_in_words
from seatrial.report.revisions import REVISION_COLUMNS, revision_rows
from seatrial.report.text import format_duration, format_reward
from seatrial.report.trial import breakdown_rows, tag_rows
from seatrial.store.draft import RECORD
from seatrial.view.rendering.bounded import read_bounded
from seatrial.view.trial.files import FolderNode, tree_of
from seatrial.view.trial.opened import OpenedTrial

_MOST_TRIES = 50
_MOST_BYTES = 2**22


@dataclass(frozen=True, slots=True)
class RevisionFact:
    """A row of revisions side by side: a value of each; `differs` if they are not all the same."""

    label: str
    values: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """Whether it is not the same in all revisions."""
        return len(set(self.values)) > 1


@dataclass(frozen=True, slots=True)
class Revised:
    """The revisions of a trial: a row for each, and what each says side by side."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    heads: tuple[str, ...]
    sides: tuple[RevisionFact, ...]


@dataclass(frozen=True, slots=True)
class Try:
    """A try that the machinery failed, why, and its files."""

    number: int
    told: str
    files: FolderNode


def revisions_of(trial: OpenedTrial) -> Revised | None:
    """The revisions of a trial; None where it was judged once."""
    records = [each.record for each in trial.revisions]
    if len(records) < 2:
        return None
    rows = revision_rows(records, trial.job.file.seatrial_version)
    heads = tuple(f"revision {record.revision}" for record in records)
    return Revised(REVISION_COLUMNS, tuple(rows), heads, tuple(_sides(records)))


def _sides(records: Sequence[TrialRecord]) -> list[RevisionFact]:
    told = [_facts(record) for record in records]
    labels = dict.fromkeys(label for facts in told for label in facts)
    return [RevisionFact(label, tuple(facts.get(label, "-") for facts in told)) for label in labels]


def _facts(record: TrialRecord) -> dict[str, str]:
    run, evaluation = record.verifier_run, record.evaluation
    facts = {"outcome": str(record.outcome), "reward": format_reward(evaluation.reward if evaluation else None)}
    if run:
        facts["verifier"] = "timed out" if run.timed_out else f"exited with {run.exit_code}"
        facts["isolation"] = run.isolation
    if evaluation:
        facts |= {name: f"{score} {evidence}".strip() for name, score, evidence in breakdown_rows(evaluation)}
        facts["tags"] = _tags(evaluation)
    return facts


def _tags(evaluation: EvaluationResult) -> str:
    """The tags of a verdict, without those of reviewers: they stand beside the last revision, whoever judged it."""
    named = [f"{source}:{category}" for category, source, _ in tag_rows(evaluation) if source != ErrorSource.HUMAN]
    return ", ".join(named) or "-"


def tries_of(trial: OpenedTrial) -> list[Try]:
    """The tries before the one that counts, the first one first."""
    place = trial.job.path / "tries"
    try:
        names = os.listdir(place) if not place.is_symlink() else []  # noqa: PTH208 - names only
    except OSError:
        return []
    found = sorted(int(number) for name in names if (number := _number(name, trial.trial_id)))
    return [_try(trial, number) for number in found[:_MOST_TRIES]]


def _number(name: str, trial_id: str) -> str | None:
    before, _, number = name.rpartition(".")
    return number if before == trial_id and number.isascii() and number.isdecimal() and len(number) < 9 else None


def _try(trial: OpenedTrial, number: int) -> Try:
    place = Path("tries", f"{trial.trial_id}.{number}")
    files = tree_of(trial.job.path, str(place), begin=f"@try.{number}")
    try:
        content = read_bounded(place / RECORD, trial.job.path, _MOST_BYTES)
        record = TrialRecord.model_validate_json(content.head)
    except (SeatrialError, ValidationError):
        return Try(number, f"its {RECORD} cannot be read", files)
    why = failure_in_words(record.failure) if record.failure else f"ended as {record.outcome}"
    return Try(number, f"{why}, after {format_duration(_seconds(record))}", files)


def _seconds(record: TrialRecord) -> float | None:
    if not record.times:
        return None
    begun, ended = min(t.started_at for t in record.times), max(t.finished_at for t in record.times)
    return (ended - begun).total_seconds()
