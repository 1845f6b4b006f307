"""What judges answered, joined to a trial when it is read: tags and confidence beside its reward, which stays.

Only assessments of the same revision count, and of those by one rubric and the same judges the latest.
"""

import math
from collections.abc import Mapping, Sequence

from seatrial.model.assessment import Assessment, current
from seatrial.model.evaluation import ConfidenceMetadata, ErrorTag, category_slug
from seatrial.model.outcome import SCORED_OUTCOMES
from seatrial.model.record import TrialRecord
from seatrial.store.index import TrialEntry

Assessments = Mapping[str, Sequence[Assessment]]
"""The journal of a job: every assessment by the id of its trial."""


def judge_tags(assessments: Sequence[Assessment]) -> list[ErrorTag]:
    """What judges found, each category once, however it is written."""
    found = {category_slug(tag.category): tag for each in assessments for tag in each.tags}
    return list(found.values())


def judge_confidence(
    assessments: Sequence[Assessment], known: ConfidenceMetadata | None = None
) -> ConfidenceMetadata | None:
    """How sure one may be of a trial by its judges: who they are, how far they agree, and what they left open."""
    if not assessments:
        return known
    agreements = [each.agreement for each in assessments if each.agreement is not None]
    judges = dict.fromkeys(judge.model for each in assessments for judge in each.judges)
    values = {
        "judges": tuple(judges),
        "judge_agreement": math.fsum(agreements) / len(agreements) if agreements else None,
        "judge_unscored": sum(question.is_unscored for each in assessments for question in each.questions) or None,
    }
    return (known or ConfidenceMetadata()).model_copy(update=values)


def assessed_record(record: TrialRecord, assessments: Sequence[Assessment]) -> TrialRecord:
    """A record with what judges say in its evaluation; one that was never graded has no place for it."""
    found = current(assessments, record.revision)
    if record.evaluation is None or not found:
        return record
    known = record.evaluation.error_taxonomy or []
    seen = {(category_slug(tag.category), tag.source) for tag in known}
    tags = [*known, *(tag for tag in judge_tags(found) if (category_slug(tag.category), tag.source) not in seen)]
    confidence = judge_confidence(found, record.evaluation.confidence)
    changed = {"error_taxonomy": tags or record.evaluation.error_taxonomy, "confidence": confidence}
    return record.model_copy(update={"evaluation": record.evaluation.model_copy(update=changed)})


def is_doubted(trial: TrialEntry, assessments: Sequence[Assessment], threshold: float) -> bool:
    """Whether votes on a trial are split, or a judge's score says otherwise than the verifier about a pass."""
    passed = trial.outcome == "pass" if trial.outcome in SCORED_OUTCOMES else None
    return any(
        bool(each.split) or (each.score is not None and passed is not None and (each.score >= threshold) != passed)
        for each in current(assessments, trial.revision)
    )


def with_judge_tags(trials: Sequence[TrialEntry], assessments: Assessments) -> tuple[TrialEntry, ...]:
    """Trials as a job counts them, with the tags that judges gave."""
    return tuple(_tagged(trial, found) if (found := assessments.get(trial.trial_id)) else trial for trial in trials)


def _tagged(trial: TrialEntry, assessments: Sequence[Assessment]) -> TrialEntry:
    found = [
        f"{tag.source.value}:{category_slug(tag.category)}" for tag in judge_tags(current(assessments, trial.revision))
    ]
    return trial._replace(tags=tuple(dict.fromkeys((*trial.tags, *found)))) if found else trial
