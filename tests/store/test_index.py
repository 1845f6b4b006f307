"""Lines of the index: what is written is read again, and nothing that strangers or crashes leave can hurt."""

from dataclasses import replace
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from seatrial.model.record import Outcome
from seatrial.store.index import TrialEntry, forget_line, read_lines, write_line

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
numbers = st.floats(0, 1e6, allow_nan=False)
entries = st.builds(
    TrialEntry,
    trial_id=text,
    task_id=text,
    agent=text,
    attempt=st.integers(1, 10**6),
    outcome=st.sampled_from(get_args(Outcome)),
    reward=st.none() | numbers,
    tries=st.integers(1, 9),
    duration_sec=st.none() | numbers,
    started_at=st.none() | text,
    failure=st.none() | text,
)
counts = st.integers(0, 2**53)
users = st.builds(
    replace, entries, model_calls=counts, input_tokens=counts, output_tokens=counts, cost_usd=st.none() | numbers
)
entries |= users
entries |= st.builds(replace, entries, disputed_reward=st.none() | numbers, put_back=counts, broken=st.booleans())
entries |= st.builds(replace, entries, warnings=st.lists(text, max_size=2).map(tuple))


@given(st.lists(entries, unique_by=lambda entry: entry.trial_id))
def test_what_is_written_is_read(written):
    assert list(read_lines(b"".join(map(write_line, written))).values()) == written


@given(entries, entries, st.data())
def test_a_torn_line_is_no_entry_and_hurts_no_other(torn, whole, data):
    line = write_line(torn)
    cut = data.draw(st.integers(0, len(line) - 2))
    assert read_lines(line[:cut] + b"\n" + write_line(whole)) == {whole.trial_id: whole}


@given(st.binary(max_size=200), entries)
def test_garbage_is_passed_over(garbage, entry):
    found = read_lines(garbage + b"\n" + write_line(entry))
    assert found[entry.trial_id] == entry


@given(entries, entries)
def test_the_last_line_about_a_trial_counts(first, second):
    second = replace(second, trial_id=first.trial_id)
    assert read_lines(write_line(first) + write_line(second)) == {first.trial_id: second}
    assert read_lines(write_line(first) + forget_line(first.trial_id)) == {}
    assert read_lines(forget_line(first.trial_id) + write_line(first)) == {first.trial_id: first}


def test_values_of_the_wrong_type_make_no_entry():
    good = b'["a.b.1","a","b",1,"pass",1.0,1,null,null,null]'
    assert len(read_lines(good)) == 1
    assert read_lines(good.replace(b"]", b",2,300,40,0.5]"))["a.b.1"].cost_usd == 0.5
    for more in (b",2", b",2,300,40", b',2,300,40,"0.5"', b",2,300,40.5,0.5", b",2,300,40,0.5,1"):
        assert read_lines(good.replace(b"]", more + b"]")) == {}
    for old, new in ((b'"a.b.1"', b"1"), (b'"pass"', b'"passed"'), (b",1,", b",true,"), (b"1.0", b'"1.0"')):
        assert read_lines(good.replace(old, new, 1)) == {}


def test_a_trial_without_a_model_is_a_line_as_there_always_was():
    old = b'["a.b.1","a","b",1,"pass",1.0,1,null,null,null]\n'
    entry = read_lines(old)["a.b.1"]
    assert (entry.model_calls, entry.cost_usd) == (None, None)
    assert write_line(entry) == old
