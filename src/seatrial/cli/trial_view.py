"""One trial on the screen: the record in words, the verdicts of reviewers, and the ends of its logs."""

import os
from collections.abc import Sequence
from pathlib import Path

import click
from pydantic import ValidationError

from seatrial.analysis.tables import Table
from seatrial.cli.screen import paint, paint_outcome, show_table
from seatrial.errors import StoreError
from seatrial.model.assessment import Assessment
from seatrial.model.evaluation import Annotation
from seatrial.model.record import CHANGES, FileChanges, TrialRecord
from seatrial.report import trial as told
from seatrial.report.assessments import assessment_facts, questions_table
from seatrial.report.text import harmless
from seatrial.report.trial import revisions_table
from seatrial.store.job_store import StoredRevision
from seatrial.untrusted.files import end_of, open_below, read_below

AGENT_LOGS = ("agent/stdout.txt", "agent/stderr.txt")
VERIFIER_LOGS = ("verifier/stdout.txt", "verifier/stderr.txt")
_TAIL_LINES = 20
_TAIL_BYTES = 64 * 2**10
_MOST_BYTES = 2**30


def show_trial(
    record: TrialRecord,
    revisions: Sequence[StoredRevision],
    annotations: Sequence[Annotation],
    assessments: Sequence[Assessment],
    behaviour: Sequence[told.Fact],
    version: str,
) -> None:
    """Everything worth knowing about a trial, the most important first.

    `record` is the newest of its revisions, with what reviewers and judges say. `behaviour` is
    what its agent did in its turns. `version` is that of the Seatrial that
    made the job.
    """
    folder, latest = revisions[0].folder, revisions[-1].folder
    _facts(told.headline(record))
    _table("revisions", revisions_table([each.record for each in revisions], version))
    if evaluation := record.evaluation:
        for line in told.validity_lines(evaluation):
            _facts([("validity", line)])
        if confidence := told.confidence(evaluation):
            _facts([("confidence", confidence)])
        _table("breakdown", told.breakdown_table(evaluation))
        _table("error tags", told.tags_table(evaluation))
    _facts(told.evidence(record, _read_changes(folder)))
    _facts(told.machine(record))
    _table("steps", told.steps_table(record))
    _table("phases", told.phases_table(record))
    _facts(behaviour)
    _facts(assessment_facts(assessments, record.revision))
    _table("assessed questions", questions_table(assessments, record.revision))
    show_annotations(annotations)
    for name in AGENT_LOGS:
        _show_tail(name, read_tail(folder / name, folder))
    for name in VERIFIER_LOGS:
        _show_tail(name, read_tail(latest / name, folder))
    _facts([("files", str(place)) for place in dict.fromkeys((folder, latest))])


def show_annotations(annotations: Sequence[Annotation]) -> None:
    """What reviewers said, oldest first; nothing when nobody has said anything."""
    _table("annotations", told.annotations_table(annotations))


def _facts(facts: Sequence[told.Fact]) -> None:
    for label, value in facts:
        shown = paint_outcome(value) if label == "outcome" else value
        click.echo(f"{paint(f'{label:<12}', bold=True)}{shown}")


def _table(title: str, table: Table) -> None:
    if table.rows:
        click.echo()
        show_table(title, table)
        click.echo()


def _show_tail(name: str, lines: Sequence[str]) -> None:
    if lines:
        click.echo(paint(f"--- {name}", bold=True))
        for line in lines:
            click.echo(harmless(line))


def read_tail(path: Path, folder: Path) -> list[str]:
    """The last lines of a log in a folder, none when there is no such file; bounded however large and long-lined it is.

    Trial folders hold what strangers made; a link or a pipe among it is not followed.
    """
    try:
        with open_below(path, folder) as file:
            text = end_of(file, _TAIL_BYTES).decode("utf-8", "replace")
    except StoreError:
        return []
    lines = text.removesuffix("\n").split("\n")[-_TAIL_LINES:] if text else []
    return [line.removesuffix("\r").expandtabs(4) for line in lines]


def _read_changes(folder: Path) -> FileChanges | None:
    path = folder / CHANGES
    if not os.path.lexists(path):
        return None
    try:
        return FileChanges.model_validate_json(read_below(path, folder, _MOST_BYTES))
    except (StoreError, ValidationError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        click.echo(f"Warning: {path} cannot be read: {reason}", err=True)
        return None
