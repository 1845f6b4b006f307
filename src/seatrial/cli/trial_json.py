"""A trial as programs get it: the record that counts, all of its revisions, and what reviewers said of it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click

from seatrial.model.annotation import Annotation
from seatrial.model.record import TrialRecord


def show_trial_json(record: TrialRecord, records: Sequence[TrialRecord], said: Sequence[Annotation]) -> None:
    """The record that counts, with what reviewers said in its evaluation; beside it where there is no evaluation.

    Where the trial was judged again, `revisions` has all records as they were stored, the first one first.
    """
    document = record.model_dump(mode="json")
    if said and record.evaluation is None:
        document["annotations"] = [each.model_dump(mode="json") for each in said]
    if len(records) > 1:
        document["revisions"] = [record.model_dump(mode="json") for record in records]
    click.echo(json.dumps(document, indent=2))


def annotations_json(every: Mapping[str, Sequence[Annotation]]) -> dict[str, list[dict[str, Any]]]:
    """What reviewers said, by the ids of trials."""
    return {trial: [each.model_dump(mode="json") for each in said] for trial, said in sorted(every.items())}
