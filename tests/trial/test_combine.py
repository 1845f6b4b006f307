"""Several steps as one evaluation, and which of them are good enough to go on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.model.evaluation import ConfidenceMetadata, ErrorSource, ErrorTag, EvaluationResult, ValidityCheck
from seatrial.model.record import outcome_of
from seatrial.trial.combine import combine


def evaluation(reward: float = 1.0, *errors: str, parseable: bool = True, completed: bool = True) -> EvaluationResult:
    validity = ValidityCheck(
        output_parseable=parseable, schema_valid=True, verifier_completed=completed, errors=list(errors)
    )
    tags = [ErrorTag(category=error.partition(":")[0], source=ErrorSource.MECHANICAL) for error in errors]
    return EvaluationResult(reward=reward, validity=validity, error_taxonomy=tags or None)


RIGHT, WRONG, NOTHING = "right", "wrong", "nothing"


def of_kind(kind: str, code: str) -> EvaluationResult:
    if kind == NOTHING:
        return evaluation(0.0, f"{code}: nothing", parseable=False)
    return evaluation(1.0 if kind == RIGHT else 0.0)


def test_the_mean_rests_on_all_steps_and_the_final_reward_on_the_last():
    steps = {"a": evaluation(0.0, "no_output: nothing", parseable=False, completed=False), "b": evaluation(1.0)}
    mean, final = combine(steps, "mean"), combine(steps, "final")
    assert (mean.reward, final.reward) == (0.5, 1.0)
    assert (mean.validity.verifier_completed, final.validity.verifier_completed) == (False, True)
    assert mean.validity.errors == final.validity.errors == ["no_output: step a: nothing"]
    assert [tag.category for tag in mean.error_taxonomy or ()] == ["no_output"]


@pytest.mark.parametrize(
    ("first", "last", "strategy", "flag", "outcome"),
    [
        (NOTHING, WRONG, "mean", False, "no_output"),
        (WRONG, NOTHING, "mean", False, "no_output"),
        (NOTHING, RIGHT, "mean", True, "partial"),
        (WRONG, WRONG, "mean", True, "fail"),
        (NOTHING, WRONG, "final", True, "fail"),
        (NOTHING, RIGHT, "final", True, "pass"),
        (WRONG, NOTHING, "final", False, "no_output"),
    ],
)
@pytest.mark.parametrize("code", ["no_output", "output_missing"])
def test_a_step_without_an_output_explains_only_a_zero_that_rests_on_it(first, last, strategy, flag, outcome, code):
    steps = {"a": of_kind(first, code), "b": of_kind(last, code)}
    combined = combine(steps, strategy)
    assert (combined.validity.output_parseable, outcome_of(combined)) == (flag, outcome)


@pytest.mark.parametrize("strategy", ["mean", "final"])
@given(
    rewards=st.lists(st.tuples(st.floats(0, 1), st.booleans(), st.text(max_size=20)), min_size=1, max_size=6),
)
def test_whatever_the_steps_were_there_is_an_evaluation(strategy, rewards):
    steps = {
        str(number): evaluation(reward if parseable else 0.0, error, parseable=parseable, completed=parseable)
        for number, (reward, parseable, error) in enumerate((r, p, f"x{e}") for r, p, e in rewards)
    }
    combined = combine(steps, strategy)
    assert 0.0 <= combined.reward <= 1.0
    assert combined.breakdown == {"steps": {name: {"reward": step.reward} for name, step in steps.items()}}


def test_repeats_of_all_steps_tell_how_sure_their_mean_is():
    def sure(repeats: int, spread: float) -> EvaluationResult:
        told = ConfidenceMetadata(verifier_repeats=repeats, verifier_reward_sd=spread, annotator_count=2)
        return evaluation().model_copy(update={"confidence": told})

    steps = {"a": sure(3, 0.3), "b": sure(5, 0.4)}
    assert combine(steps, "mean").confidence == ConfidenceMetadata(verifier_repeats=3, verifier_reward_sd=0.25)
    assert combine(steps, "final").confidence == steps["b"].confidence
    assert combine({**steps, "c": evaluation()}, "mean").confidence is None
