"""What the index keeps of a record beyond its outcome: what it takes to compare, group and explain trials in tables.

A record may hold megabytes of a stranger's words; what is kept here is short, and bounded in number.
"""

import hashlib
import math
from collections.abc import Mapping
from typing import Any

import orjson

from seatrial.model.record import SCORED_OUTCOMES, Phase, StepRecord, TrialRecord, outcome_of

_DIGITS = 12
_MAX_TAGS, _MAX_DIMENSIONS, _MAX_LETTERS = 20, 40, 80


def digest_of_tests(record: TrialRecord) -> str | None:
    """A short digest of the tests that judged a trial, of every step of it; None when none did."""
    found = [step.provenance for step in record.steps] or [record.provenance]
    digests = [each.tests_digest for each in found if each]
    if len(set(digests)) < 2:
        return digests[0][:_DIGITS] if digests else None
    return hashlib.sha256("".join(digests).encode()).hexdigest()[:_DIGITS]


def setting_facts(record: TrialRecord) -> dict[str, Any]:
    """Under which conditions an agent worked and was judged, as far as they are not the job's options."""
    sandbox = record.sandbox
    return {
        "backend": sandbox.backend,
        "image": sandbox.image_digest or sandbox.image,
        "limits": sandbox.limits_enforced.model_dump(),
        "network": sandbox.network,
        "isolation": sorted({run.isolation for run in record.verifier_runs}),
    }


def setting_of(record: TrialRecord) -> str:
    """A short digest of those conditions."""
    content = orjson.dumps(setting_facts(record), option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(content).hexdigest()[:_DIGITS]


def seconds_in(record: TrialRecord, phase: Phase) -> float | None:
    """How long a phase took, in all steps; None when there was none."""
    times = [each.finished_at - each.started_at for each in record.times if each.phase == phase]
    return math.fsum(time.total_seconds() for time in times) if times else None


def tags_of(record: TrialRecord) -> tuple[str, ...]:
    """The classified failures of a trial, `source:category`, each once."""
    tags = (record.evaluation.error_taxonomy if record.evaluation else None) or ()
    found = dict.fromkeys(f"{tag.source.value}:{tag.category[:_MAX_LETTERS]}" for tag in tags)
    return tuple(found)[:_MAX_TAGS]


def dimensions_of(record: TrialRecord) -> dict[str, float]:
    """The share that a verifier gave of what each part of its breakdown is worth."""
    parts = (record.evaluation.breakdown if record.evaluation else None) or {}
    shares = ((name[:_MAX_LETTERS], share_of(entry)) for name, entry in parts.items())
    return dict([(name, share) for name, share in shares if share is not None][:_MAX_DIMENSIONS])


def share_of(entry: Any) -> float | None:
    """How much of what a part of a breakdown is worth it was given, between 0 and 1; None for what is no score."""
    if not isinstance(entry, Mapping):
        return None
    score, most = entry.get("score"), entry.get("max_score", 1.0)
    if not _is_number(score) or not _is_number(most) or most <= 0:
        return None
    return min(1.0, max(0.0, float(score / most)))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def failed_step_of(record: TrialRecord) -> str | None:
    """The first step that did not pass, None where there is none or the trial has no steps."""
    if record.outcome not in SCORED_OUTCOMES:
        return None
    return next((step.name[:_MAX_LETTERS] for step in record.steps if not _passed(step, record.pass_threshold)), None)


def _passed(step: StepRecord, threshold: float) -> bool:
    return step.evaluation is not None and outcome_of(step.evaluation, threshold) == "pass"


def repeats_of(record: TrialRecord) -> tuple[float, ...]:
    """All rewards of a verifier that was asked more than once about one end state; of steps none."""
    run = record.verifier_run
    rewards = [reward for reward in run.repeats if reward is not None] if run and not record.steps else []
    return tuple(rewards) if len(rewards) > 1 else ()
