"""`seatrial annotations`: out to a file, in from one, from copies of the job, and taken back; never rewritten."""

import shutil

import pytest

from seatrial.review.exchange import FORMATS
from seatrial.store.job_store import JobStore
from tests.cli.conftest import Seatrial, cells
from tests.review.journals import reviewed_job, said

TRIAL = "t1.oracle.1"


@pytest.fixture
def job(tmp_path):
    return reviewed_job(tmp_path / "job", {"t1": 1.0, "t2": 0.0}, said(TRIAL, "ada", "f", notes="=1")).path


def entries(job):
    return [entry for entries in JobStore.open(job).reviews().values() for entry in entries]


@pytest.mark.parametrize("kind", FORMATS)
def test_out_of_one_job_and_into_a_copy(seatrial: Seatrial, job, tmp_path, kind):
    shutil.copytree(job, tmp_path / "copy")
    (tmp_path / "copy" / "annotations.jsonl").unlink()
    shown = seatrial("annotations", "export", job, "-o", tmp_path / "file", "--format", kind)
    assert (shown.code, shown.out) == (0, f"1 review of 1 trial written to {tmp_path / 'file'}\n")
    shown = seatrial("annotations", "import", tmp_path / "copy", tmp_path / "file", "--format", kind)
    assert (shown.code, shown.out) == (0, f"1 review added to {tmp_path / 'copy'}\n")
    assert entries(tmp_path / "copy") == entries(job)
    again = seatrial("annotations", "export", job, "-o", tmp_path / "file", "--format", kind)
    assert (again.code, "is there already, and is not replaced" in again.err) == (2, True)


def test_nothing_is_added_unless_all_can_be(seatrial: Seatrial, job, tmp_path):
    good, stranger = said("t2.oracle.1", "eve", "f"), said("t9.oracle.1", "eve", "f")
    file = tmp_path / "more.jsonl"
    file.write_bytes(FORMATS["jsonl"].write([good, stranger]) + b"{\n")
    before = (job / "annotations.jsonl").read_bytes()
    shown = seatrial("annotations", "import", job, file)
    assert shown.code == 2
    assert f"{file}, line 2: the job has no finished trial 't9.oracle.1'" in shown.err
    assert f"{file}, line 3: " in shown.err
    assert "2 pieces cannot be added, so nothing was" in shown.err
    assert (job / "annotations.jsonl").read_bytes() == before
    assert seatrial("annotations", "import", job, file, "--skip-bad").code == 0
    assert entries(job)[1:] == [good]
    assert (job / "annotations.jsonl").read_bytes().startswith(before)


def test_copies_are_merged_and_another_job_is_refused(seatrial: Seatrial, job, tmp_path):
    shutil.copytree(job, tmp_path / "copy")
    JobStore.open(tmp_path / "copy").add_reviews(said("t2.oracle.1", "eve", "f"))
    for added in ("1 review added by eve, 1 were there already", "0 reviews added, 2 were there already"):
        assert seatrial("annotations", "merge", job, tmp_path / "copy").out == f"{tmp_path / 'copy'}: {added}\n"
    other = reviewed_job(tmp_path / "other", {"t1": 1.0}, said(TRIAL, "kim", "p")).path
    shown = seatrial("annotations", "merge", job, other)
    assert (shown.code, "holds another job" in shown.err) == (2, True)


def test_a_verdict_is_taken_back_and_the_one_before_stands_again(seatrial: Seatrial, job):
    seatrial("annotate", job, "t1", "--judgment", "pass", "--reviewer", "ada")
    before = (job / "annotations.jsonl").read_bytes()
    shown = seatrial("annotations", "undo", job, "t1", "--reviewer", "ada")
    assert shown.code == 0
    assert [cells(line)[:2] for line in shown.out.splitlines() if line.startswith("ada")] == [["ada", "fail"]]
    assert (job / "annotations.jsonl").read_bytes().startswith(before)
    assert seatrial("annotations", "undo", job, "t1", "--reviewer", "ada").code == 0
    assert JobStore.open(job).annotations() == {}
    shown = seatrial("annotations", "undo", job, "t1", "--reviewer", "ada")
    assert (shown.code, "has no verdict on it to be taken back" in shown.err) == (2, True)


def test_the_role_and_what_was_looked_at_are_kept(seatrial: Seatrial, job):
    seatrial("annotate", job, "t1", "--judgment", "pass", "--reviewer", "kim", "--role", "gold")
    last = entries(job)[-1]
    assert (last.role, last.reviewer_id) == ("gold", "kim")
    assert last.context
    assert last.context.task_digest == "d" * 64


def test_show_has_what_people_say_and_how_sure_that_is(seatrial: Seatrial, job):
    for trial, judgment in (("t1", "fail"), ("t2", "pass")):
        for reviewer in ("ada", "eve"):
            given = ["--judgment", judgment, "--reviewer", reviewer, "--category", "units"]
            seatrial("annotate", job, trial, *given)
    shown = seatrial("show", job, "t1").out
    (confidence,) = [line for line in shown.splitlines() if line.startswith("confidence")]
    assert "annotator count 2, inter rater agreement 1, agreement metric percent" in confidence
    assert ["units", "human", "said by ada, eve"] in [cells(line) for line in shown.splitlines()]
