"""Reviews from elsewhere: only what fits is taken, a copy of the job as often as one likes, another job never."""

import shutil

import pytest

from seatrial.errors import JobError
from seatrial.review.exchange.api import Read
from seatrial.review.exchange.taking_in import merge_reviews, sort_out
from seatrial.store.annotations import ignore_damage
from seatrial.store.job_store import JobStore
from tests.review.journals import reviewed_job, said, taken_back

ONE, TWO = "t1.oracle.1", "t2.oracle.1"
KNOWN = said(ONE, "ada", "p")


@pytest.fixture
def store(tmp_path):
    return reviewed_job(tmp_path / "job", {"t1": 1.0, "t2": 0.0}, KNOWN).store


def test_strangers_trials_and_what_is_there_already_are_named(store):
    new = said(TWO, "ada", "f")
    pieces = [
        Read("line 1", KNOWN),
        Read("line 2", said("t9.oracle.1", "ada", "p")),
        Read("line 3", new),
        Read("line 4", new),
        Read("line 5", "is no review"),
    ]
    found = sort_out(store, pieces)
    assert found.sound == (new,)
    assert found.problems == (
        "line 1: the same review is there already, in the journal",
        "line 2: the job has no finished trial 't9.oracle.1'",
        "line 4: the same review is there already, on line 3",
        "line 5: is no review",
    )


def test_copies_are_merged_in_any_order_and_twice_is_the_same_as_once(store, tmp_path):
    copies = []
    for name, what in (("eve", "f"), ("kim", "p")):
        shutil.copytree(store.path, tmp_path / name)
        copies.append(JobStore.open(tmp_path / name))
        given = said(ONE, name, what)
        copies[-1].add_reviews(given, taken_back(given), said(TWO, name, what))
    for copy in copies:
        assert len(merge_reviews(store, copy, ignore_damage).added) == 3
        again = merge_reviews(store, copy, ignore_damage)
        assert (again.added, again.known) == ((), 4)
    backwards = JobStore.open(tmp_path / "kim")
    for other in (store, copies[0]):
        merge_reviews(backwards, other, ignore_damage)
    everything = {entry.key for entries in store.reviews().values() for entry in entries}
    assert {entry.key for entries in backwards.reviews().values() for entry in entries} == everything
    assert len(everything) == 7
    assert {each.reviewer_id for each in store.annotations_of(ONE)} == {"ada"}


def test_another_job_is_refused(store, tmp_path):
    other = reviewed_job(tmp_path / "other", {"t1": 1.0}, said(ONE, "eve", "p")).store
    with pytest.raises(JobError, match=r"holds another job .* only copies of one job can be merged"):
        merge_reviews(store, other, ignore_damage)
    assert len(store.reviews()[ONE]) == 1


def test_trials_that_only_the_copy_has_are_left_out_and_named(store, tmp_path):
    shutil.copytree(store.path, tmp_path / "copy")
    copy = JobStore.open(tmp_path / "copy")
    copy.add_reviews(said(TWO, "eve", "f"))
    shutil.rmtree(store.path / "trials" / TWO)
    merged = merge_reviews(JobStore.open(store.path), copy, ignore_damage)
    assert (merged.added, merged.unknown_trials) == ((), (TWO,))
