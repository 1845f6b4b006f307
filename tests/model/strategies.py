"""Hypothesis strategies for stored values: whatever is valid, with the numbers, texts and times that hurt."""

import datetime as dt
from typing import get_args

from hypothesis import strategies as st

from seatrial.model.evaluation import (
    Annotation,
    ConfidenceMetadata,
    ErrorSource,
    ErrorTag,
    EvaluationResult,
    Judgment,
    ValidityCheck,
)
from seatrial.model.record import (
    AgentRef,
    AgentResult,
    Failure,
    ModelUsage,
    Phase,
    PhaseTime,
    SandboxRef,
    TaskRef,
    TrialRecord,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
counts = st.integers(min_value=0, max_value=2**63 - 1)
numbers = st.floats(allow_nan=False, allow_infinity=False)
fractions = st.floats(0.0, 1.0) | st.sampled_from([0.0, -0.0, 5e-324, 2.2250738585072014e-308, 1.0])
digests = st.text("0123456789abcdef", min_size=64, max_size=64)
offsets = st.integers(-(24 * 60 - 1), 24 * 60 - 1).map(lambda minutes: dt.timezone(dt.timedelta(minutes=minutes)))
times = st.datetimes(timezones=offsets)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**200), 2**200) | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
json_objects = st.dictionaries(texts, json_values, max_size=4)

annotations = st.builds(
    Annotation,
    reviewer_id=names,
    reviewer_discipline=st.none() | texts,
    timestamp=times,
    judgment=st.sampled_from(Judgment),
    categories=st.lists(texts, max_size=2),
    notes=st.none() | texts,
)
error_tags = st.builds(ErrorTag, category=names, description=st.none() | texts, source=st.sampled_from(ErrorSource))
confidences = st.builds(
    ConfidenceMetadata,
    annotator_count=st.none() | counts,
    inter_rater_agreement=st.none() | st.floats(-1.0, 1.0),
    agreement_metric=st.none() | texts,
    confidence_interval=st.none() | st.tuples(numbers, numbers).map(lambda pair: (min(pair), max(pair))),
    confidence_method=st.none() | texts,
    confidence_level=st.none() | st.floats(0.0, 1.0, exclude_min=True, exclude_max=True),
    sample_size=st.none() | counts,
    verifier_repeats=st.none() | counts,
    verifier_reward_sd=st.none() | st.floats(0.0, allow_infinity=False),
)
validities = st.builds(
    ValidityCheck,
    output_parseable=st.booleans(),
    schema_valid=st.booleans(),
    verifier_completed=st.booleans(),
    errors=st.lists(texts, max_size=2),
)


@st.composite
def evaluations(draw: st.DrawFn) -> EvaluationResult:
    validity = draw(validities)
    return EvaluationResult(
        reward=draw(fractions) if validity.output_parseable else draw(st.sampled_from([0.0, -0.0])),
        validity=validity,
        breakdown=draw(st.none() | json_objects),
        error_taxonomy=draw(st.none() | st.lists(error_tags, max_size=2)),
        confidence=draw(st.none() | confidences),
        annotations=draw(st.none() | st.lists(annotations, max_size=2)),
    )


phases: st.SearchStrategy[Phase] = st.sampled_from(get_args(Phase))
phase_times = st.tuples(phases, st.lists(times, min_size=2, max_size=2).map(sorted)).map(
    lambda drawn: PhaseTime(phase=drawn[0], started_at=drawn[1][0], finished_at=drawn[1][1])
)
agent_results = st.builds(
    AgentResult,
    status=st.sampled_from(["exited", "timed_out", "killed"]),
    exit_code=st.none() | st.integers(-255, 255),
    duration_sec=st.floats(0.0, allow_infinity=False),
)


@st.composite
def records(draw: st.DrawFn) -> TrialRecord:
    finished = draw(st.booleans())
    failures = st.builds(Failure, phase=phases, cause=texts, message=texts, retryable=st.booleans())
    return TrialRecord(
        trial_id=draw(names),
        revision=draw(counts),
        job=draw(st.none() | texts),
        task=draw(st.builds(TaskRef, id=texts, name=texts, digest=digests)),
        agent=draw(st.builds(AgentRef, name=texts, command=texts)),
        sandbox=draw(st.builds(SandboxRef, backend=texts, image=texts, network=texts)),
        times=tuple(draw(st.lists(phase_times, max_size=2))),
        agent_result=draw(st.none() | agent_results),
        model_usage=draw(st.none() | st.builds(ModelUsage, input_tokens=counts, cost_usd=st.just(5e-324))),
        pass_threshold=draw(fractions),
        evaluation=draw(evaluations()) if finished else None,
        failure=None if finished else draw(failures),
    )
