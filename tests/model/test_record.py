"""TrialRecord: one result, and the outcome it amounts to."""

import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from seatrial.model.evaluation import EvaluationResult
from seatrial.model.outcome import has_passed
from seatrial.model.record import Failure, PhaseTime, StepRecord, TrialRecord, VerifierRun, outcome_of
from tests.model.samples import NOON, evaluation, full_record, record, validity
from tests.model.strategies import evaluations, fractions

CANCELLED = Failure(kind="cancelled", phase="agent", cause="KeyboardInterrupt", message="stopped")
CRASHED = Failure(phase="verify", cause="SandboxError", message="lost")


def tagged(category: str, reward: float = 0.0, **flags: bool) -> EvaluationResult:
    tags = [{"category": "other", "source": "mechanical"}, {"category": category, "source": "mechanical"}]
    return evaluation(reward, validity=validity(**flags), error_taxonomy=tags)


@pytest.mark.parametrize(
    ("result", "threshold", "outcome"),
    [
        (evaluation(1.0), 1.0, "pass"),
        (evaluation(0.9999), 1.0, "partial"),
        (evaluation(5e-324), 1.0, "partial"),
        (evaluation(0.0), 1.0, "fail"),
        (evaluation(-0.0), 1.0, "fail"),
        (evaluation(0.8), 0.8, "pass"),
        (evaluation(0.79), 0.8, "partial"),
        (evaluation(1.0, validity=validity(schema_valid=False)), 1.0, "pass"),
        (evaluation(0.0, validity=validity(output_parseable=False)), 1.0, "invalid_output"),
        (evaluation(0.0, validity=validity(output_parseable=False)), 0.0, "invalid_output"),
        (tagged("unparseable", output_parseable=False), 1.0, "invalid_output"),
        (tagged("no_output", output_parseable=False), 1.0, "no_output"),
        (tagged("output_missing"), 1.0, "no_output"),
        (tagged("output_missing", 0.5), 1.0, "partial"),
        (tagged("output_missing", 1.0), 1.0, "pass"),
        (tagged("output_unparseable"), 1.0, "invalid_output"),
        (tagged("no_output", output_parseable=False, verifier_completed=False), 1.0, "verifier_error"),
        (evaluation(0.0, validity=validity(verifier_completed=False)), 1.0, "verifier_error"),
        (evaluation(0.0, validity=validity(verifier_completed=False)), 0.0, "verifier_error"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_the_outcome_of_an_evaluation(result: EvaluationResult, threshold: float, outcome: str):
    assert outcome_of(result, threshold) == outcome
    assert record(evaluation=result, pass_threshold=threshold).outcome == outcome


SILENT = evaluation(0.0, validity=validity(verifier_completed=False))


@pytest.mark.parametrize(
    ("result", "baseline", "outcome"),
    [
        (SILENT, "judged", "fail"),
        (SILENT, "silent", "verifier_error"),
        (SILENT, None, "verifier_error"),
        (tagged("no_output", output_parseable=False, verifier_completed=False), "judged", "no_output"),
        (tagged("no_output", output_parseable=False, verifier_completed=False), "silent", "verifier_error"),
        (tagged("output_missing", verifier_completed=False), "judged", "no_output"),
        (evaluation(1.0), "silent", "pass"),
    ],
)
@pytest.mark.parametrize("threshold", [0.0, 1.0])
def test_a_silent_verifier_counts_only_if_it_judges_the_untouched_environment(result, baseline, outcome, threshold):
    ran = VerifierRun(duration_sec=1.0, isolation="guarded", baseline=baseline)
    assert outcome_of(result, threshold, baseline) == outcome
    assert record(evaluation=result, verifier_run=ran, pass_threshold=threshold).outcome == outcome


@pytest.mark.parametrize(
    ("baselines", "outcome"),
    [
        (("judged", "judged"), "fail"),
        (("judged", "silent"), "verifier_error"),
        (("judged", None), "verifier_error"),
        (("silent", "silent"), "verifier_error"),
    ],
)
def test_silent_steps_count_only_if_all_of_them_judge_the_untouched_environment(baselines, outcome):
    def step(name: str, result: EvaluationResult, baseline) -> StepRecord:
        ran = VerifierRun(duration_sec=1.0, isolation="guarded", baseline=baseline)
        return StepRecord(name=name, verifier_run=ran, evaluation=result)

    silent = [step(f"silent-{n}", SILENT, baseline) for n, baseline in enumerate(baselines)]
    steps = (step("fine", evaluation(0.0), None), *silent)
    assert record(evaluation=SILENT, verifier_run=silent[-1].verifier_run, steps=steps).outcome == outcome


@pytest.mark.parametrize(("failure", "outcome"), [(CRASHED, "infrastructure_error"), (CANCELLED, "cancelled")])
def test_the_outcome_of_a_failure_is_never_a_zero(failure: Failure, outcome: str):
    assert record(failure=failure).outcome == outcome


@given(result=evaluations(), threshold=fractions)
def test_only_a_judged_and_parseable_trial_passes_or_fails(result: EvaluationResult, threshold: float):
    judged = result.validity.output_parseable and result.validity.verifier_completed
    assert (outcome_of(result, threshold) in ("pass", "partial", "fail")) == judged


@given(rewards=st.tuples(fractions, fractions), threshold=fractions)
def test_a_higher_reward_is_never_a_worse_outcome(rewards: tuple[float, float], threshold: float):
    rank = ("fail", "partial", "pass")
    low, high = (rank.index(outcome_of(evaluation(reward), threshold)) for reward in sorted(rewards))
    assert low <= high


def test_a_record_has_exactly_one_result():
    with pytest.raises(ValidationError, match="exactly one of evaluation and failure"):
        record(evaluation=evaluation(), failure=CRASHED)
    with pytest.raises(ValidationError, match="exactly one of evaluation and failure"):
        record(failure=None)
    with pytest.raises(ValidationError, match="exactly one of evaluation and failure"):
        record().model_copy(update={"evaluation": evaluation()})


def test_a_broken_evaluation_cannot_enter_a_record():
    broken = {"reward": 0.7, "validity": validity(output_parseable=False).model_dump()}
    document = full_record().model_dump(mode="json") | {"evaluation": broken}
    for make in (
        lambda: TrialRecord.model_validate(document),
        lambda: TrialRecord.model_construct(**document),
        lambda: full_record().model_copy(update={"evaluation": broken}),
    ):
        with pytest.raises(ValidationError, match="the output did not parse"):
            make()


@pytest.mark.parametrize(
    "values",
    [
        {"schema_version": 2},
        {"schema_version": "1"},
        {"schema_version": True},
        {"trial_id": ""},
        {"attempt": 0},
        {"revision": -1},
        {"pass_threshold": 1.1},
        {"outcome": "pass"},
        {"times": [{}]},
    ],
    ids=str,
)
def test_a_record_outside_its_bounds_is_refused(values: dict[str, Any]):
    with pytest.raises(ValidationError):
        record(**values)


def test_a_phase_does_not_run_backwards():
    assert PhaseTime(phase="agent", started_at=NOON, finished_at=NOON).finished_at == NOON
    with pytest.raises(ValidationError, match="finishes before it starts"):
        PhaseTime(phase="agent", started_at=NOON, finished_at=NOON - dt.timedelta(microseconds=1))


def test_phases_are_ordered_by_instant_not_by_clock_face():
    elsewhere = NOON.astimezone(dt.timezone(dt.timedelta(hours=-8)))
    assert PhaseTime(phase="agent", started_at=NOON, finished_at=elsewhere).finished_at == NOON


def test_a_new_record_is_the_first_revision_of_a_first_attempt():
    fresh = record()
    assert (fresh.schema_version, fresh.revision, fresh.parent, fresh.attempt) == (1, 0, None, 1)
    assert fresh.pass_threshold == 1.0


@pytest.mark.parametrize(("reward", "passed"), [(1.0, True), (0.6 + 0.3 + 0.1, True), (0.9999, False), (0.0, False)])
def test_what_floating_point_takes_off_a_reward_makes_no_pass_a_failure(reward, passed):
    assert has_passed(reward, 1.0) is passed
