"""The journal: everything anyone added is there, in order, whatever happened to single lines."""

import datetime as dt
from concurrent.futures import ThreadPoolExecutor

import pytest

from seatrial.errors import JobError
from seatrial.model.annotation import Annotation, Judgment
from seatrial.store.annotations import append_annotation, read_annotations
from seatrial.store.job_store import JobStore
from tests.jobs.samples import NOON, record


@pytest.fixture
def judged(store: JobStore) -> JobStore:
    with store.draft("add.noop.1") as draft:
        draft.commit(record())
    return store


def verdict(reviewer: str = "ann", judgment: Judgment = Judgment.PASS, **changes) -> Annotation:
    return Annotation(reviewer_id=reviewer, timestamp=NOON, judgment=judgment, **changes)


def test_nothing_said_yet(store):
    assert read_annotations(store) == {}


def test_every_verdict_is_kept_in_order(judged):
    said = [verdict(), verdict("bob", Judgment.FAIL, notes="zwei\nZeilen ☃"), verdict()]
    for each in said:
        append_annotation(judged, "add.noop.1", each)
    assert read_annotations(judged) == {"add.noop.1": said}


def test_only_about_finished_trials(judged):
    with pytest.raises(JobError, match=r"similar: add\.noop\.1"):
        append_annotation(judged, "add.noop.9", verdict())
    assert read_annotations(judged) == {}


def test_damaged_lines_are_told_and_cost_nothing_else(judged):
    append_annotation(judged, "add.noop.1", verdict("ann"))
    path = judged.path / "annotations.jsonl"
    path.write_bytes(path.read_bytes() + b'\xff\n{"trial_id": "add.noop.1", "anno')
    append_annotation(judged, "add.noop.1", verdict("bob"))
    told: list[str] = []
    found = read_annotations(judged, told.append)
    assert [each.reviewer_id for each in found["add.noop.1"]] == ["ann", "bob"]
    assert [line.split(": is damaged")[0] for line in told] == [f"{path}, line 2", f"{path}, line 3"]


def test_many_writers_at_once(judged):
    def say(number: int) -> None:
        moment = NOON + dt.timedelta(seconds=number)
        append_annotation(
            judged, "add.noop.1", verdict(f"r{number}", notes="x" * 5000).model_copy(update={"timestamp": moment})
        )

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(say, range(100)))
    assert {each.reviewer_id for each in read_annotations(judged)["add.noop.1"]} == {f"r{n}" for n in range(100)}
