"""Every format: what goes out comes back the same, and nothing that strangers write gets in unnoticed."""

import csv
import io
import json
from pathlib import PurePath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.errors import UsageError
from seatrial.model.review import Retraction, ReviewContext, ReviewEntry, Sampling
from seatrial.review.exchange.formats import FORMATS, format_of
from tests.model.samples import DIGEST
from tests.model.strategies import annotations, names, times
from tests.review.journals import said

MOMENT = "2026-11-17T09:00:00+00:00"
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
    return [piece.said for piece in FORMATS[name].read(content, MOMENT)]


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


@pytest.mark.parametrize("name", ["label-studio", "argilla"])
@given(value=st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda inner: st.lists(
    inner, max_size=3) | st.dictionaries(st.sampled_from([
        *("data", "annotations", "trial_id", "result", "value", "choices", "meta", "seatrial", "fields", "responses"),
        *("judgment", "metadata", "completed_by", "user_id", "from_name", "text"),
    ]), inner, max_size=4), max_leaves=12))  # fmt: skip
def test_json_of_any_shape_is_told_of(name, value):
    assert all(isinstance(entry, str | ReviewEntry) for entry in read(name, json.dumps([value]).encode()))


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
    (piece,) = FORMATS["csv"].read(raw, MOMENT)
    assert f"{piece.place}: {piece.said}".startswith(problem)


def test_what_label_studio_itself_exports():
    choice = {"from_name": "judgment", "to_name": "t", "type": "choices", "value": {"choices": ["fail"]}}
    text = {"from_name": "notes", "to_name": "t", "type": "textarea", "value": {"text": ["mV", "for V"]}}
    annotation = {
        "id": 1001,
        "completed_by": 10,
        "result": [choice, text],
        "was_cancelled": False,
        "created_at": "2026-03-09T22:16:08.728353Z",
        "lead_time": 4.288,
    }
    skipped = {"completed_by": {"id": 3, "email": "eve@x.org"}, "result": [], "was_cancelled": True}
    tasks = [{"id": 1, "data": {"trial_id": "t1", "text": "…"}, "annotations": [annotation, skipped]}, {"data": {}}]
    first, second, bad = FORMATS["label-studio"].read(json.dumps(tasks).encode(), MOMENT)
    assert isinstance(first.said, ReviewEntry)
    assert first.said.annotation
    assert (first.said.reviewer_id, first.said.seconds, first.said.annotation.notes) == ("10", 4.288, "mV\nfor V")
    assert isinstance(second.said, ReviewEntry)
    assert second.said.annotation
    assert (second.said.reviewer_id, second.said.annotation.judgment.value) == ("eve@x.org", "defer")
    assert second.said.annotation.timestamp.isoformat() == MOMENT
    assert (bad.place, "data.trial_id" in str(bad.said)) == ("task 2", True)


def test_what_argilla_itself_exports():
    record = {
        "id": "1",
        "fields": {"trial_id": "t1", "instruction": "…"},
        "metadata": {"difficulty": "hard"},
        "responses": {
            "judgment": [{"value": "pass", "user_id": "u1"}, {"value": "fail", "user_id": "u2"}],
            "categories": [{"value": ["units"], "user_id": "u2"}],
        },
    }
    first, second = FORMATS["argilla"].read(json.dumps([record]).encode(), MOMENT)
    assert (first.place, second.place) == ("record 1, user u1", "record 1, user u2")
    assert isinstance(second.said, ReviewEntry)
    assert second.said.annotation
    assert (second.said.reviewer_id, second.said.annotation.categories) == ("u2", ["units"])


def test_the_format_is_what_was_asked_for_or_what_the_name_says():
    assert format_of(None, PurePath("x.CSV")).name == "csv"
    assert format_of("argilla", PurePath("x.csv")).name == "argilla"
    with pytest.raises(UsageError, match=r"x\.json: the name does not say .* jsonl\|csv\|label-studio\|argilla"):
        format_of(None, PurePath("x.json"))
