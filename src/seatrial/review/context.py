"""What a reviewer looks at, to be kept with the verdict: the content of the task, its tests, the trial's revision."""

from seatrial.model.record import TrialRecord
from seatrial.model.review import ReviewContext


def context_of(record: TrialRecord) -> ReviewContext:
    """The context of a verdict on this record."""
    return ReviewContext(
        task_digest=record.task.digest,
        tests_digest=record.provenance.tests_digest if record.provenance else None,
        revision=record.revision,
    )
