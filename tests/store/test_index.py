"""Lines of the index: what is written counts for the same record only, and no forged or damaged line hurts."""

from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.model.evaluation import ErrorSource, ErrorTag
from seatrial.model.outcome import Outcome
from seatrial.model.record import LimitSpec, Provenance, StepRecord, VerifierRun
from seatrial.store.index import (
    Index,
    TrialEntry,
    digest_of_tests,
    dimensions_of,
    failed_step_of,
    forget_line,
    repeats_of,
    seconds_in,
    setting_of,
    stamp_of,
    tags_of,
)
from tests.cli.job_folders import BROKEN, evaluation, record
from tests.jobs.samples import job_file

NOWHERE = Path("/nowhere")
STAMP = [1, 2, 3, 4]
INDEX = Index(NOWHERE, job_file(), is_own=True)

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
numbers = st.floats(0, 1e6, allow_nan=False)
counts = st.integers(0, 2**53)
entries = st.builds(
    TrialEntry,
    trial_id=text,
    task_id=st.sampled_from(["add", "sort", "another"]),
    agent=text,
    attempt=st.integers(1, 10**6),
    outcome=st.sampled_from(get_args(Outcome)),
    reward=st.none() | numbers,
    tries=st.integers(1, 9),
    duration_sec=st.none() | numbers,
    started_at=st.none() | text,
    failure=st.none() | text,
    model_calls=st.none() | counts,
    input_tokens=st.none() | counts,
    output_tokens=st.none() | counts,
    cost_usd=st.none() | numbers,
    verifier_cost_usd=st.none() | numbers,
    verifier_calls=st.none() | counts,
    verifier_input_tokens=st.none() | counts,
    verifier_output_tokens=st.none() | counts,
    disputed_reward=st.none() | numbers,
    put_back=counts,
    broken=st.booleans(),
    warnings=st.lists(text, max_size=2).map(tuple),
    revision=counts,
    first_outcome=st.none() | st.sampled_from(get_args(Outcome)),
    first_reward=st.none() | numbers,
    first_broken=st.booleans(),
    tests=st.none() | text,
    setting=st.none() | text,
    agent_sec=st.none() | numbers,
    prices=st.none() | text,
    tags=st.lists(text, max_size=2).map(tuple),
    dimensions=st.dictionaries(text, numbers, max_size=2),
    failed_step=st.none() | text,
    repeats=st.lists(numbers, max_size=2).map(tuple),
    oom_kills=counts,
    pass_threshold=st.none() | numbers,
)


def believed(content: bytes, index: Index = INDEX) -> dict[str, TrialEntry]:
    found = index.read(content, lambda _: STAMP)
    return {name: entry for name, entry in found.items() if entry}


def line(entry: TrialEntry) -> bytes:
    return INDEX.line(entry, STAMP)


@given(st.lists(entries, unique_by=lambda entry: entry.trial_id))
def test_what_is_written_is_read(written):
    assert list(believed(b"".join(map(line, written))).values()) == written


@given(entries, entries, st.data())
def test_a_torn_line_is_no_entry_and_hurts_no_other(torn, whole, data):
    cut = data.draw(st.integers(0, len(line(torn)) - 2))
    assert believed(line(torn)[:cut] + b"\n" + line(whole)) == {whole.trial_id: whole}


@given(st.binary(max_size=200), entries)
def test_garbage_is_passed_over(garbage, entry):
    assert believed(garbage + b"\n" + line(entry))[entry.trial_id] == entry


@pytest.mark.parametrize("trial", [b"5", b"null", b"[]", b"{}"])
def test_a_line_about_no_trial_is_passed_over(trial):
    assert INDEX.read(b'0000abcd[1,2,3,4,%s,"add"]\n' % trial, lambda _: STAMP) == {}
    assert INDEX.read(line(ENTRY) + b"[%s]\n" % trial, lambda _: STAMP) == {"add.noop.1": ENTRY}


@given(entries, entries)
def test_the_last_line_about_a_trial_counts(first, second):
    second = second._replace(trial_id=first.trial_id)
    assert believed(line(first) + line(second)) == {first.trial_id: second}
    assert believed(line(first) + forget_line(first.trial_id)) == {}
    assert believed(forget_line(first.trial_id) + line(first)) == {first.trial_id: first}


ENTRY = TrialEntry("add.noop.1", "add", "noop", 1, "fail", 0.0, 1, 2.5, None, None)


OTHERS = {
    "name": Index(NOWHERE, job_file(name="weekly"), is_own=True),
    "job": Index(NOWHERE, job_file().model_copy(update={"id": "another"}), is_own=True),
    "task": Index(NOWHERE, job_file(tasks=["sort"]), is_own=True),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_a_line_of_another_job_or_task_is_not_believed(other):
    assert believed(line(ENTRY)) == {"add.noop.1": ENTRY}
    assert believed(line(ENTRY), other) == {}


def test_a_signed_line_of_an_older_version_names_its_trial_and_is_not_believed():
    signed = b"0123456789abcdef" * 2 + line(ENTRY)[8:]
    assert INDEX.read(signed, lambda _: STAMP) == {"add.noop.1": None}
    assert INDEX.read(signed + b"-" * 32 + forget_line("add.noop.1"), lambda _: STAMP) == {}


@pytest.mark.parametrize("place", range(4))
def test_a_line_about_another_file_is_not_believed(place):
    stamp = [value + (number == place) for number, value in enumerate(STAMP)]
    assert INDEX.read(line(ENTRY), lambda _: STAMP) == {"add.noop.1": ENTRY}
    assert INDEX.read(line(ENTRY), lambda _: stamp) == {"add.noop.1": None}
    assert INDEX.read(line(ENTRY), lambda _: None) == {"add.noop.1": None}


def test_a_stamp_tells_a_file_from_its_copy_and_from_itself_when_it_was_changed(tmp_path):
    first, copy = tmp_path / "first", tmp_path / "copy"
    first.write_bytes(b"content")
    copy.write_bytes(b"content")
    before = stamp_of(str(first))
    assert before is not None
    assert before != stamp_of(str(copy))
    first.write_bytes(b"changed, and longer")
    assert stamp_of(str(first)) != before
    assert stamp_of(str(tmp_path / "none")) is None


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
