"""Every format: what goes out comes back the same, and nothing that strangers write gets in unnoticed."""

import csv
import io
import shutil
from pathlib import PurePath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.errors import JobError, UsageError
from seatrial.model.review import Retraction, ReviewContext, ReviewEntry, Sampling
from seatrial.review.exchange import FORMATS, Read, format_of, merge_reviews, sort_out
from seatrial.store.job_store import JobStore
from seatrial.store.journal import ignore_damage
from tests.model.samples import DIGEST
from tests.model.strategies import annotations, names, times
from tests.review.journals import reviewed_job, said, taken_back

ids = st.text("0123456789abcdef", min_size=16, max_size=64)
digests = st.none() | st.just(DIGEST)
entries = st.builds(
    ReviewEntry,
    id=st.none() | ids,
    trial_id=names,
    annotation=annotations,
    role=st.sampled_from(["first", "second_look", "adjudication", "gold"]),
    blind=st.booleans(),
    seconds=st.none() | st.floats(0.0, 1e9),
    context=st.none() | st.builds(ReviewContext, task_digest=digests, tests_digest=digests, revision=st.integers(0, 9)),
    sampling=st.none() | st.builds(Sampling, stratum=names, probability=st.floats(0.001, 1.0)),
)
retractions = st.builds(
    ReviewEntry,
    id=st.none() | ids,
    trial_id=names,
    retraction=st.builds(Retraction, entry=ids, reviewer_id=names, timestamp=times),
)


def read(name, content):
    return [piece.said for piece in FORMATS[name].read(content)]


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=40)
@given(journal=st.lists(entries | retractions, max_size=3))
def test_what_goes_out_comes_back_the_same(name, journal):
    found = [_line(entry) for entry in read(name, FORMATS[name].write(journal))]
    assert sorted(found) == sorted(map(_line, journal))


def _line(entry):
    return entry if isinstance(entry, str) else entry.model_dump_json()


@pytest.mark.parametrize("name", FORMATS)
@given(content=st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_no_file_is_too_strange_to_be_told_of(name, content):
    assert all(isinstance(entry, str | ReviewEntry) for entry in read(name, content))


def test_no_cell_of_a_spreadsheet_is_a_formula():
    entry = said("t1", "=ada()", "f", notes="+1", categories=["@x"])
    content = FORMATS["csv"].write([entry])
    _, row = csv.reader(io.StringIO(content.decode()))
    assert not [cell for cell in row if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
    assert read("csv", content) == [entry]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_what_a_spreadsheet_saves_in_its_country_s_way_is_the_same(delimiter):
    entry = said("t1.oracle.1", "Zoë", "f", categories=["a;b", "c,d"], notes="1;2\n3,4")
    out = io.StringIO(newline="")
    rows = csv.reader(io.StringIO(FORMATS["csv"].write([entry]).decode(), newline=""))
    csv.writer(out, delimiter=delimiter, lineterminator="\r\n").writerows(rows)
    assert read("csv", out.getvalue().encode("utf-8-sig")) == [entry]


def test_a_spreadsheet_needs_four_columns_in_any_order():
    content = 'judgment,trial_id,timestamp,reviewer_id,categories\nfail,t1,2026-11-17T09:00:00Z,ada,"units, sign"\n'
    (entry,) = read("csv", content.encode())
    assert entry.annotation.categories == ["units", "sign"]
    assert (entry.role, entry.blind) == ("first", False)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("trial_id,judgment\n", "line 1: has no column 'reviewer_id'"),
        ("trial_id,reviewer_id,timestamp,judgment,x\n", "line 1: has an unknown column 'x'"),
        ("trial_id,reviewer_id,timestamp,judgment\nt1,ada,yesterday,pass\n", "line 2: annotation.timestamp: "),
        ("trial_id,reviewer_id,timestamp,judgment\nt1,ada\n", "line 2: has 2 cells, expected 4"),
        (
            "trial_id,reviewer_id,timestamp,judgment\nt1,ada,2026-11-17T09:00:00Z,great\n",
            "line 2: annotation.judgment: ",
        ),
        (
            "trial_id,reviewer_id,timestamp,judgment,seconds\nt1,ada,2026-11-17T09:00:00Z,pass,long\n",
            "line 2: seconds: found 'long', expected a number",
        ),
        (b"\xff", "the file: is no UTF-8"),
    ],
)
def test_what_is_wrong_with_a_spreadsheet_is_named_with_its_line(content, problem):
    raw = content if isinstance(content, bytes) else content.encode()
    (piece,) = FORMATS["csv"].read(raw)
    assert f"{piece.place}: {piece.said}".startswith(problem)


def test_the_format_is_what_was_asked_for_or_what_the_name_says():
    assert format_of(None, PurePath("x.CSV")).name == "csv"
    assert format_of("jsonl", PurePath("x.csv")).name == "jsonl"
    with pytest.raises(UsageError, match=r"x\.json: the name does not say .* jsonl\|csv"):
        format_of(None, PurePath("x.json"))


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
