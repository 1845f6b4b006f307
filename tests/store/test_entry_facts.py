"""What the index keeps of a record: short whatever strangers wrote, and the same only where conditions are the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.model.evaluation import ErrorSource, ErrorTag
from seatrial.model.record import LimitSpec, Provenance, StepRecord, VerifierRun
from seatrial.store.entry_facts import (
    digest_of_tests,
    dimensions_of,
    failed_step_of,
    repeats_of,
    seconds_in,
    setting_of,
    tags_of,
)
from tests.cli.job_folders import BROKEN, evaluation, record

RUN = VerifierRun(exit_code=0, duration_sec=0.1, isolation="guarded")
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(), values, max_size=3),
    max_leaves=8,
)
PARTS = st.fixed_dictionaries({}, optional={"score": JSON, "max_score": JSON})


def judged(**more):
    return record("a", 0.5, evaluation=evaluation(0.5).model_copy(update=more))


def test_parts_of_a_breakdown_are_shares_of_what_they_are_worth():
    breakdown = {"a": {"score": 3, "max_score": 4}, "b": {"score": 0.5}, "over": {"score": 9.0}, "count": 7}
    assert dimensions_of(judged(breakdown=breakdown)) == {"a": 0.75, "b": 0.5, "over": 1.0}
    assert dimensions_of(record("a", BROKEN)) == {}


@given(st.dictionaries(st.text(max_size=200), PARTS | JSON, max_size=60))
def test_whatever_a_verifier_wrote_is_short_and_between_0_and_1(breakdown):
    found = dimensions_of(judged(breakdown=breakdown))
    assert len(found) <= 40
    assert all(len(name) <= 80 and 0.0 <= share <= 1.0 for name, share in found.items())


def test_tags_have_their_source_and_are_named_once():
    tags = [ErrorTag(category="unit", source=source) for source in (ErrorSource.MECHANICAL, ErrorSource.HUMAN)]
    assert tags_of(judged(error_taxonomy=[*tags, tags[0]])) == ("mechanical:unit", "human:unit")
    many = [ErrorTag(category=f"{number}" * 500, source=ErrorSource.JUDGE) for number in range(100)]
    assert len(tags_of(judged(error_taxonomy=many))) == 20
    assert max(map(len, tags_of(judged(error_taxonomy=many)))) <= 90


def test_the_first_step_that_did_not_pass():
    steps = [StepRecord(name=name, evaluation=evaluation(reward)) for name, reward in (("one", 1.0), ("two", 0.5))]
    assert failed_step_of(record("a", 0.5, steps=(*steps, StepRecord(name="three")))) == "two"
    assert failed_step_of(record("a", 1.0, steps=(steps[0],))) is None
    assert failed_step_of(record("a", BROKEN, steps=tuple(steps))) is None


def test_only_a_verifier_that_was_asked_again_has_repeats():
    assert repeats_of(record("a", 0.5, verifier_run=RUN)) == ()
    asked = RUN.model_copy(update={"repeats": (0.5, None, 1.0)})
    assert repeats_of(record("a", 0.5, verifier_run=asked)) == (0.5, 1.0)


def test_a_phase_of_several_steps_is_added_up():
    times = record("a", 1.0).times
    assert seconds_in(record("a", 1.0, times=times * 2), "agent") == 4.0
    assert seconds_in(record("a", 1.0), "verify") is None


def test_other_tests_have_another_digest():
    ran = [Provenance(tests_digest=letter * 64) for letter in "ab"]
    one, other = (digest_of_tests(record("a", 1.0, provenance=each)) for each in ran)
    steps = tuple(StepRecord(name=f"{number}", provenance=each) for number, each in enumerate(ran))
    both = digest_of_tests(record("a", 1.0, steps=steps))
    assert len({one, other, both, digest_of_tests(record("a", BROKEN))}) == 4


@pytest.mark.parametrize(
    "changed",
    [
        {"network": "public"},
        {"image_digest": "sha256:1"},
        {"backend": "docker"},
        {"limits_enforced": LimitSpec(cpus=1.0)},
    ],
)
def test_other_conditions_have_another_setting(changed):
    usual = record("a", 1.0)
    other = usual.model_copy(update={"sandbox": usual.sandbox.model_copy(update=changed)})
    assert setting_of(usual) == setting_of(record("b", 0.0, "noop"))
    assert setting_of(usual) != setting_of(other)


def test_another_isolation_of_the_verifier_is_another_setting():
    kept = RUN.model_copy(update={"isolation": "exposed"})
    assert setting_of(record("a", 1.0, verifier_run=RUN)) != setting_of(record("a", 1.0, verifier_run=kept))
