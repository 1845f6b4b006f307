"""The journal: everything anyone added is there, in order, whatever happened to single lines."""

import datetime as dt
import json
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.errors import JobError, StoreError
from seatrial.model.evaluation import Annotation, Judgment
from seatrial.model.record import Failure
from seatrial.store import journal
from seatrial.store.job_store import JobStore
from seatrial.store.journal import annotation_journal
from tests.jobs.samples import NOON, record

TRIAL = "add.noop.1"
FAILURE = Failure(phase="agent", cause="SandboxError", message="gone", retryable=False)
SAID = {"reviewer_id": "ann", "timestamp": NOON.isoformat(), "judgment": "pass"}
LINE = json.dumps({"trial_id": TRIAL, "annotation": SAID}).encode() + b"\n"


@pytest.fixture
def judged(store: JobStore) -> JobStore:
    with store.draft("add.noop.1") as draft:
        draft.commit(record())
    return store


def verdict(reviewer: str = "ann", judgment: Judgment = Judgment.PASS, second: int = 0, **changes) -> Annotation:
    moment = NOON + dt.timedelta(seconds=second)
    return Annotation(reviewer_id=reviewer, timestamp=moment, judgment=judgment, **changes)


def test_nothing_said_yet(store):
    assert store.annotations() == {}


def test_every_verdict_is_kept_in_order(judged):
    said = [verdict(), verdict("bob", Judgment.FAIL, 1, notes="zwei\nZeilen ☃"), verdict(second=2)]
    for each in said:
        judged.annotate("add.noop.1", each)
    assert judged.annotations() == {"add.noop.1": said}


def test_only_about_finished_trials(judged):
    with pytest.raises(JobError, match=r"similar: add\.noop\.1"):
        judged.annotate("add.noop.9", verdict())
    assert judged.annotations() == {}


def test_damaged_lines_are_told_and_cost_nothing_else(judged):
    judged.annotate("add.noop.1", verdict("ann"))
    path = judged.path / "annotations.jsonl"
    path.write_bytes(path.read_bytes() + b'\xff\n{"trial_id": "add.noop.1", "anno')
    judged.annotate("add.noop.1", verdict("bob", second=1))
    told: list[str] = []
    found = judged.annotations(told.append)
    assert [each.reviewer_id for each in found["add.noop.1"]] == ["ann", "bob"]
    assert [line.split(": is damaged")[0] for line in told] == [f"{path}, line 2", f"{path}, line 3"]


def test_many_writers_at_once(judged):
    def say(number: int) -> None:
        moment = NOON + dt.timedelta(seconds=number)
        judged.annotate("add.noop.1", verdict(f"r{number}", notes="x" * 5000).model_copy(update={"timestamp": moment}))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(say, range(100)))
    assert {each.reviewer_id for each in judged.annotations()["add.noop.1"]} == {f"r{n}" for n in range(100)}


def test_a_record_has_what_was_said_of_it(judged):
    assert judged.record(TRIAL) == record()
    judged.annotate(TRIAL, verdict())
    evaluation = judged.record(TRIAL).evaluation
    assert evaluation is not None
    assert evaluation.annotations == judged.annotations_of(TRIAL) == [verdict()]
    assert evaluation.model_copy(update={"annotations": None}) == record().evaluation


def test_what_was_said_is_in_no_stored_record(judged):
    stored = (judged.trial_folder(TRIAL) / "record.json").read_bytes()
    judged.annotate(TRIAL, verdict())
    assert judged.revisions(TRIAL)[-1].record == record()
    assert (judged.trial_folder(TRIAL) / "record.json").read_bytes() == stored


def test_a_trial_that_was_never_judged_has_them_too(judged):
    failed = record(trial_id="add.noop.2", attempt=2, evaluation=None, failure=FAILURE)
    with judged.draft("add.noop.2") as draft:
        draft.commit(failed)
    judged.annotate("add.noop.2", verdict())
    assert judged.record("add.noop.2") == failed
    assert judged.annotations_of("add.noop.2") == [verdict()]


def test_only_what_was_added_is_read_again(judged, monkeypatch):
    other = JobStore.open(judged.path)
    starts: list[int] = []
    whole = journal._read_from

    def watched(path, start):
        starts.append(start)
        return whole(path, start)

    monkeypatch.setattr(journal, "_read_from", watched)
    for number in range(3):
        other.annotate(TRIAL, verdict(f"r{number}", second=number))
        assert [each.reviewer_id for each in judged.annotations_of(TRIAL)] == [f"r{n}" for n in range(number + 1)]
        assert judged.record(TRIAL).evaluation == judged.record(TRIAL).evaluation
    size = (judged.path / "annotations.jsonl").stat().st_size
    assert starts == [0, size // 3 - journal._TAIL, 2 * (size // 3) - journal._TAIL]


def test_a_journal_that_was_cut_replaced_or_removed_is_read_anew(judged):
    path = judged.path / "annotations.jsonl"
    judged.annotate(TRIAL, verdict("ann"))
    one = path.read_bytes()
    judged.annotate(TRIAL, verdict("bob", second=1))
    assert len(judged.annotations_of(TRIAL)) == 2
    path.write_bytes(one)
    assert [each.reviewer_id for each in judged.annotations_of(TRIAL)] == ["ann"]
    path.with_suffix(".new").write_bytes(one.replace(b'ann"', b'eve"'))
    path.with_suffix(".new").replace(path)
    assert [each.reviewer_id for each in judged.annotations_of(TRIAL)] == ["eve"]
    path.unlink()
    assert judged.annotations_of(TRIAL) == []


def test_a_line_that_is_half_written_counts_once_it_is_whole(judged):
    path = judged.path / "annotations.jsonl"
    judged.annotate(TRIAL, verdict("ann"))
    line = path.read_bytes()
    path.write_bytes(line + line[:40])
    told: list[str] = []
    assert len(judged.annotations(told.append)[TRIAL]) == len(told) == 1
    path.write_bytes(line + LINE)
    assert len(judged.annotations(told.append)[TRIAL]) == 2
    assert len(told) == 1


def test_a_longer_journal_that_was_copied_over_this_one_is_read_anew(judged):
    path = judged.path / "annotations.jsonl"
    judged.annotate(TRIAL, verdict("ann"))
    assert len(judged.annotations_of(TRIAL)) == 1
    others = [LINE.replace(b'"ann"', name) for name in (b'"bob"', b'"eve"', b'"gus"')]
    path.write_bytes(b"".join(others))
    told: list[str] = []
    assert {each.reviewer_id for each in judged.annotations_of(TRIAL, told.append)} == {"bob", "eve", "gus"}
    assert told == []


def test_a_line_that_is_there_twice_is_one_line(judged):
    judged.annotate(TRIAL, verdict("ann"))
    path = judged.path / "annotations.jsonl"
    path.write_bytes((path.read_bytes() + LINE) * 2)
    assert len(judged.annotations_of(TRIAL)) == len(judged.reviews()[TRIAL]) == 2


def test_nobody_is_told_to_remove_a_journal_that_is_too_large(judged, monkeypatch):
    judged.annotate(TRIAL, verdict())
    monkeypatch.setattr(journal, "_MAX_BYTES", 10)
    with pytest.raises(StoreError, match="move it elsewhere"):
        judged.annotations()


def test_a_journal_that_is_a_link_is_refused(judged, tmp_path):
    (tmp_path / "elsewhere").write_bytes(b"")
    (judged.path / "annotations.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="it is a link"):
        judged.annotations()


@given(st.lists(st.one_of(st.binary(max_size=40), st.just(b"\n"), st.just(LINE), st.just(LINE[:50])), max_size=12))
def test_read_bit_by_bit_it_says_what_it_says_as_a_whole(pieces):
    with tempfile.TemporaryDirectory() as name:
        reader, path = annotation_journal(Path(name)), Path(name) / "annotations.jsonl"
        for piece in pieces:
            with path.open("ab") as file:
                file.write(piece)
            reader.read()
        told: list[str] = []
        again: list[str] = []
        assert reader.read(told.append) == annotation_journal(Path(name)).read(again.append)
        assert told == again
