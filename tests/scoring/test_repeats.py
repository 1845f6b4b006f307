"""Several verdicts on one end state as one: the lowest counts, all are told, and a difference is a tag."""

from statistics import stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.model.evaluation import NONDETERMINISTIC, ConfidenceMetadata, EvaluationResult, ValidityCheck
from seatrial.scoring.repeats import MAX_DIFFERENCES, compare_verdicts, differences, lowest, tell_rewards, with_repeats

REWARDS = st.lists(st.none() | st.floats(0, 1), min_size=1, max_size=8)


def verdict(reward: float | None, **breakdown: object) -> EvaluationResult:
    validity = ValidityCheck(output_parseable=True, schema_valid=True, verifier_completed=reward is not None)
    return EvaluationResult(reward=reward or 0.0, validity=validity, breakdown=breakdown or None)


def settled(*verdicts: EvaluationResult) -> EvaluationResult:
    repeated = compare_verdicts(verdicts, "fresh")
    return with_repeats(verdicts[lowest(repeated.rewards)], repeated)


def test_verdicts_that_agree_have_no_spread_and_no_tag():
    told = settled(verdict(0.5, a=1), verdict(0.5, a=1), verdict(0.5, a=1))
    assert told.confidence == ConfidenceMetadata(verifier_repeats=3, verifier_reward_sd=0.0)
    assert (told.error_taxonomy, told.validity.errors) == (None, [])


def test_the_lowest_counts_and_the_tag_names_all_values():
    told = settled(verdict(1.0), verdict(0.5), verdict(1.0))
    assert told.reward == 0.5
    assert told.confidence is not None
    assert told.confidence.verifier_reward_sd == pytest.approx(stdev([1.0, 0.5, 1.0]))
    (tag,) = told.error_taxonomy or []
    assert (tag.category, tag.source) == (NONDETERMINISTIC, "mechanical")
    assert "asked 3 times about the same end state, the verifier gave 1, 0.5 and 1; the lowest one counts" in (
        tag.description or ""
    )


def test_a_repeat_without_a_verdict_is_a_difference_that_costs_nothing():
    told = settled(verdict(1.0), verdict(None))
    assert (told.reward, told.validity.verifier_completed) == (1.0, True)
    assert told.confidence == ConfidenceMetadata(verifier_repeats=1)
    assert "gave 1 and no verdict" in told.validity.errors[0]


def test_verifiers_that_never_judge_agree():
    told = settled(verdict(None), verdict(None))
    assert (told.validity.verifier_completed, told.error_taxonomy) == (False, None)
    assert told.confidence == ConfidenceMetadata(verifier_repeats=0)


def test_a_breakdown_that_differs_is_named_by_its_place():
    told = settled(verdict(1.0, a={"score": 1}, sec=1), verdict(1.0, a={"score": 2}, sec=2))
    assert "1 each time, but its breakdown differs in `a.score`" in told.validity.errors[0]


def test_ours_go_before_what_a_verifier_says_of_its_own_repeats():
    claimed = ConfidenceMetadata(verifier_repeats=9, verifier_reward_sd=0.9, annotator_count=2)
    first = verdict(1.0).model_copy(update={"confidence": claimed})
    told = with_repeats(first, compare_verdicts([first, verdict(1.0)], "same"))
    assert told.confidence == ConfidenceMetadata(verifier_repeats=2, verifier_reward_sd=0.0, annotator_count=2)
    assert "in the same sandbox" in told.validity.errors[0]


@given(REWARDS)
def test_no_verdict_that_was_given_is_lower_than_the_one_that_counts(rewards):
    told = settled(*map(verdict, rewards))
    given_ones = [reward for reward in rewards if reward is not None]
    assert told.reward == min(given_ones, default=0.0)
    assert bool(told.error_taxonomy) == (len(set(rewards)) > 1)
    assert tell_rewards(rewards).count("no verdict") == rewards.count(None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
BREAKDOWN = st.dictionaries(st.text(max_size=5), JSON, max_size=4) | st.none()


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ({"duration_sec": 0.1, "startedAt": "a", "run-id": 1}, {"duration_sec": 0.2, "startedAt": "b", "run-id": 2}),
        ({"a": {"score": 1, "evidence": "passed in 0.12s"}}, {"a": {"score": 1, "evidence": "passed in 3.4 seconds"}}),
        ({"a": "at 2026-01-01T10:00:00Z"}, {"a": "at 2027-05-02 11:30:59.123"}),
        ({"a": "<object at 0x7f01>, /tmp/pytest-1/x"}, {"a": "<object at 0x7f02>, /tmp/pytest-2/y"}),
        ({"a": "missing keys: a, b"}, {"a": "missing keys: b, a"}),
        ({"missing": ["a", "b"]}, {"missing": ["b", "a"]}),
        ({"ctrf": {"tests": [{"name": "t", "duration": 3}]}}, {"ctrf": {"tests": [{"name": "t", "duration": 4}]}}),
        ({"a": 0.1 + 0.2}, {"a": 0.3}),
        ({"a": 1}, {"a": 1.0}),
        (None, {}),
    ],
)
def test_times_places_and_orders_are_no_difference(first, other):
    assert differences(first, other) == differences(other, first) == ()


@pytest.mark.parametrize(
    ("first", "other", "where"),
    [
        ({"a": {"score": 1.0}}, {"a": {"score": 0.0}}, "a.score"),
        ({"travel_time": {"score": 1.0}}, {"travel_time": {"score": 0.5}}, "travel_time.score"),
        ({"a": "found 4.2"}, {"a": "found 4.3"}, "a"),
        ({"a": True}, {"a": 1}, "a"),
        ({"a": None}, {}, "a"),
        ({"missing": ["a"]}, {"missing": ["a", "a"]}, "missing"),
        ({"a": {"b": [{"name": "t", "status": "passed"}]}}, {"a": {"b": [{"name": "t", "status": "failed"}]}}, "a.b"),
        (None, {"a": 1}, "a"),
    ],
)
def test_what_is_said_of_the_work_is_one(first, other, where):
    assert differences(first, other) == differences(other, first) == (where,)


@given(BREAKDOWN, BREAKDOWN)
def test_any_two_can_be_compared_and_none_differs_from_itself(first, other):
    assert differences(first, first) == ()
    assert len(differences(first, other)) <= MAX_DIFFERENCES
    assert bool(differences(first, other)) == bool(differences(other, first))
