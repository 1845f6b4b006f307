"""Records with what people say of them: their verdicts, what went wrong in their words, and how far they agree.

All of it is joined to a record when it is read, and never stored with it: the journal of reviews goes on.
"""

from collections.abc import Mapping, Sequence

from seatrial.model.annotation import Judgment
from seatrial.model.evaluation import ConfidenceMetadata, ErrorSource, ErrorTag
from seatrial.model.record import TrialRecord
from seatrial.model.review import ReviewEntry, first_words, last_words, not_taken_back
from seatrial.stats.raters import RaterAgreement, rater_agreement
from seatrial.store.annotations import with_annotations

Reviews = Mapping[str, Sequence[ReviewEntry]]
"""The journal of a job: every entry by the id of its trial."""

LABELS = (Judgment.PASS.value, Judgment.FAIL.value)
"""What reviewers decide between. One who defers has said nothing yet."""

_METHOD = "bootstrap over trials"
_INTERVAL = ("confidence_interval", "confidence_method", "confidence_level", "sample_size")


def first_ratings(reviews: Reviews) -> dict[str, dict[str, str]]:
    """What reviewers decided before they knew of each other, by trial and reviewer; deferrals are missing."""
    found = {trial: _decided(first_words(entries)) for trial, entries in reviews.items()}
    return {trial: said for trial, said in found.items() if said}


def reviewer_agreement(reviews: Reviews, *, level: float = 0.95, seed: int = 0) -> RaterAgreement:
    """How far the reviewers of a job agree, by what each said first."""
    return rater_agreement([*first_ratings(reviews).values()], labels=LABELS, level=level, seed=seed)


def standing(entries: Sequence[ReviewEntry]) -> list[ReviewEntry]:
    """The verdicts that count now: each reviewer's last one, without those that an adjudication overruled."""
    last = [*last_words(entries).values()]
    settled = [each for each in not_taken_back(entries) if each.role == "adjudication" and _judgment(each) in LABELS]
    if not settled:
        return last
    verdict = _judgment(settled[-1])
    return [*(each for each in last if _judgment(each) == verdict), settled[-1]]


def human_tags(entries: Sequence[ReviewEntry]) -> list[ErrorTag]:
    """What went wrong in the words of those whose verdicts count, each category once, with who said so."""
    said: dict[str, list[str]] = {}
    for entry in standing(entries):
        for category in entry.annotation.categories if entry.annotation else ():
            if category:
                said.setdefault(category, []).append(entry.reviewer_id)
    return [
        ErrorTag(category=category, description=f"said by {', '.join(dict.fromkeys(who))}", source=ErrorSource.HUMAN)
        for category, who in said.items()
    ]


def review_confidence(
    entries: Sequence[ReviewEntry], agreement: RaterAgreement, known: ConfidenceMetadata | None = None
) -> ConfidenceMetadata | None:
    """How sure one may be of a verdict, by how many decided it and how far reviewers of the whole job agree.

    What a verifier said of itself stays: its repeats, and an interval of its own.
    """
    count = len(_decided(last_words(entries)))
    if not count:
        return known
    values = known.model_dump(exclude_none=True) if known else {}
    has_interval = any(name in values for name in _INTERVAL)
    values["annotator_count"] = count
    if agreement.first and agreement.headline:
        found = agreement.first
        values |= {"inter_rater_agreement": max(-1.0, found.value), "agreement_metric": agreement.headline}
        if not has_interval:
            values |= {"sample_size": agreement.shared}
        if not has_interval and found.low is not None and found.high is not None:
            values |= {"confidence_interval": (found.low, found.high)}
            values |= {"confidence_method": _METHOD, "confidence_level": found.level}
    return ConfidenceMetadata.model_validate(values)


def reviewed_in(record: TrialRecord, reviews: Reviews) -> TrialRecord:
    """A record with what the journal of its job says of it."""
    entries = reviews.get(record.trial_id)
    return reviewed_record(record, entries, reviewer_agreement(reviews)) if entries else record


def reviewed_record(record: TrialRecord, entries: Sequence[ReviewEntry], agreement: RaterAgreement) -> TrialRecord:
    """A record with all that in its evaluation; one that was never judged has no place for it.

    `agreement` is that of the whole job.
    """
    said = [each.annotation for each in not_taken_back(entries) if each.annotation]
    joined = with_annotations(record, said)
    if joined.evaluation is None or not said:
        return joined
    known = joined.evaluation.error_taxonomy or []
    seen = {(tag.category, tag.source) for tag in known}
    tags = [*known, *(tag for tag in human_tags(entries) if (tag.category, tag.source) not in seen)]
    confidence = review_confidence(entries, agreement, joined.evaluation.confidence)
    changed = {"error_taxonomy": tags or joined.evaluation.error_taxonomy, "confidence": confidence}
    return joined.model_copy(update={"evaluation": joined.evaluation.model_copy(update=changed)})


def _decided(words: Mapping[str, ReviewEntry]) -> dict[str, str]:
    return {who: said for who, entry in words.items() if (said := _judgment(entry)) in LABELS}


def _judgment(entry: ReviewEntry) -> str:
    assert entry.annotation is not None  # noqa: S101 - callers choose among verdicts
    return entry.annotation.judgment.value
