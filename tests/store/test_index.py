"""Lines of the index: what is written is believed of the same record only, and nothing that others leave can hurt."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.model.record import Outcome
from seatrial.store.index import Index, TrialEntry, forget_line, stamp_of
from tests.jobs.samples import job_file

KEY = b"k" * 32
STAMP = (1, 2, 3, 4)
INDEX = Index(job_file(), KEY)

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
    assert INDEX.read(b"-" * 32 + b'[1,2,3,4,%s,"add"]\n' % trial, lambda _: STAMP) == {}
    assert INDEX.read(line(ENTRY) + b"-" * 32 + b"[%s]\n" % trial, lambda _: STAMP) == {"add.noop.1": ENTRY}


@given(entries, entries)
def test_the_last_line_about_a_trial_counts(first, second):
    second = second._replace(trial_id=first.trial_id)
    assert believed(line(first) + line(second)) == {first.trial_id: second}
    assert believed(line(first) + forget_line(first.trial_id)) == {}
    assert believed(forget_line(first.trial_id) + line(first)) == {first.trial_id: first}


ENTRY = TrialEntry("add.noop.1", "add", "noop", 1, "fail", 0.0, 1, 2.5, None, None)


@pytest.mark.parametrize(("old", "new"), [(b"0.0", b"1.0"), (b'"fail"', b'"pass"'), (b"add.noop.1", b"add.noop.2")])
def test_a_line_that_somebody_changed_is_not_believed(old, new):
    written = line(ENTRY)
    assert old in written
    assert believed(written.replace(old, new)) == {}


OTHERS = {
    "user": Index(job_file(), b"x" * 32),
    "name": Index(job_file(name="weekly"), KEY),
    "job": Index(job_file().model_copy(update={"id": "another"}), KEY),
    "task": Index(job_file(tasks=["sort"]), KEY),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_a_line_of_another_user_job_or_task_is_not_believed(other):
    assert believed(line(ENTRY)) == {"add.noop.1": ENTRY}
    assert believed(line(ENTRY), other) == {}


@pytest.mark.parametrize("place", range(4))
def test_a_line_about_another_file_is_not_believed(place):
    stamp = tuple(value + (number == place) for number, value in enumerate(STAMP))
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
