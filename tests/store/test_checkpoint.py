"""Checkpoints of an index: they say what its lines say, or nothing; and a job leaves one for those who read it."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.store import census
from seatrial.store.index import Index, forget_line
from seatrial.store.index_file import IndexFile
from seatrial.store.job_store import JobStore
from tests.jobs.samples import record
from tests.store.test_index import ENTRY, INDEX, OTHERS, STAMP

GARBAGE = b"-" * 32 + b'[1,2,3,4,"add.noop.2","add"]\n'
ENTRIES = [ENTRY, ENTRY._replace(reward=1.0), ENTRY._replace(trial_id="ä", tags=("a:b",), dimensions={"x": 0.5})]
WRITTEN = [INDEX.line(entry, stamp) for entry in ENTRIES for stamp in (STAMP, (9, 9, 9, 9))]
FORGET = [forget_line(entry.trial_id) for entry in ENTRIES]
line = st.sampled_from([*WRITTEN, *FORGET, GARBAGE, b"half a li\n", b"\n"])
lines = st.lists(line, max_size=5).map(b"".join)
CONTENT = INDEX.line(ENTRY, STAMP) + GARBAGE


def read(content: bytes, checkpoint: bytes = b"", index: Index = INDEX):
    return index.read(content, lambda _: STAMP, checkpoint)


@given(lines, lines, lines)
def test_it_says_what_the_lines_say(first, second, third):
    once = INDEX.checkpoint(first)
    twice = INDEX.checkpoint(first + second, once)
    assert INDEX.bytes_after(twice, first + second) == 0
    for checkpoint in (once, twice):
        assert read(first + second + third, checkpoint) == read(first + second + third)


def test_lines_after_it_are_read_as_ever():
    checkpoint, later = INDEX.checkpoint(CONTENT), ENTRY._replace(reward=1.0)
    assert read(CONTENT + INDEX.line(later, STAMP), checkpoint) == {ENTRY.trial_id: later, "add.noop.2": None}
    assert read(CONTENT + forget_line(ENTRY.trial_id), checkpoint) == {"add.noop.2": None}


@pytest.mark.parametrize("place", range(4))
def test_it_says_nothing_of_another_file(place):
    stamp = tuple(value + (number == place) for number, value in enumerate(STAMP))
    assert INDEX.read(CONTENT, lambda _: stamp, INDEX.checkpoint(CONTENT))[ENTRY.trial_id] is None


@pytest.mark.parametrize("part", ["checkpoint", "index"])
def test_with_any_byte_changed_it_says_nothing(part):
    whole = {"checkpoint": INDEX.checkpoint(CONTENT), "index": CONTENT}
    for at, value in enumerate(whole[part]):
        changed = {**whole, part: whole[part][:at] + bytes([value ^ 1]) + whole[part][at + 1 :]}
        assert INDEX.bytes_after(changed["checkpoint"], changed["index"]) == len(CONTENT)


@pytest.mark.parametrize("length", [0, 1, 16, 23, 24, 30])
def test_cut_short_it_says_nothing(length):
    assert read(CONTENT, INDEX.checkpoint(CONTENT)[:length]) == read(CONTENT)
    assert read(CONTENT[:length], INDEX.checkpoint(CONTENT)) == read(CONTENT[:length])


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_of_another_user_job_or_task_it_says_nothing(other):
    assert other.bytes_after(INDEX.checkpoint(CONTENT), CONTENT) == len(CONTENT)
    assert read(CONTENT, INDEX.checkpoint(CONTENT), other)[ENTRY.trial_id] is None


@pytest.fixture
def left(store: JobStore, monkeypatch) -> JobStore:
    """A job that somebody has left, with a checkpoint though it is small."""
    monkeypatch.setattr(census, "_WORTH_A_CHECKPOINT", 1)
    keep(store, record(), record("sort"))
    return store


def keep(store: JobStore, *records) -> None:
    with store.lock():
        for each in records:
            with store.draft(each.trial_id) as draft:
                draft.commit(each)


def counted(store: JobStore) -> list[str]:
    return [entry.trial_id for entry in JobStore.open(store.path).entries()]


def test_a_job_that_is_left_has_one_and_what_is_added_counts(left, monkeypatch):
    monkeypatch.setattr(census, "_WORTH_A_CHECKPOINT", 2**18)
    before = (left.path / "index.checkpoint").read_bytes()
    keep(left, record(attempt=2))
    assert (left.path / "index.checkpoint").read_bytes() == before
    assert counted(left) == ["add.noop.1", "add.noop.2", "sort.noop.1"]


def test_a_small_job_has_none(store):
    keep(store, record())
    assert not (store.path / "index.checkpoint").exists()


def test_records_are_looked_at_all_the_same(left):
    changed, gone = left.path / "trials/add.noop.1/record.json", left.path / "trials/sort.noop.1"
    changed.write_bytes(changed.read_bytes()[:-9])
    gone.rename(left.path / "elsewhere")
    found = JobStore.open(left.path).census()
    assert (found.entries, [each.trial_id for each in found.uncounted]) == ([], ["add.noop.1", "sort.noop.1"])


@pytest.mark.parametrize("name", ["index.checkpoint", "index.jsonl"])
def test_without_one_of_the_two_files_nothing_is_lost(left, name):
    (left.path / name).unlink()
    assert counted(left) == ["add.noop.1", "sort.noop.1"]
    (left.path / name).mkdir()
    assert counted(left) == ["add.noop.1", "sort.noop.1"]


def test_what_is_run_again_is_no_longer_in_it(left):
    with left.lock():
        left.set_uncounted_aside(["add.noop.1"])
    assert counted(left) == ["sort.noop.1"]
    assert not JobStore.open(left.path).census().uncounted


def test_one_that_is_far_too_large_is_not_even_read(left):
    checkpoint = left.path / "index.checkpoint"
    os.truncate(checkpoint, 2**30)
    assert IndexFile(left.path).read_checkpoint((left.path / "index.jsonl").read_bytes()) == b""
    assert counted(left) == ["add.noop.1", "sort.noop.1"]
    keep(left, record(attempt=2))
    assert checkpoint.stat().st_size < 2**20


def test_one_of_the_shortest_lines_is_not_too_large():
    """Short lines leave out what is usual, and a checkpoint does not."""
    short = [ENTRY._replace(trial_id=str(number), started_at=None, failure=None) for number in range(1000)]
    content = b"".join(INDEX.line(entry, (1, 1, 1, 1)) for entry in short)
    assert len(INDEX.checkpoint(content)) < 2 * len(content)
