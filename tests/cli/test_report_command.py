"""`seatrial report`: every format by its ending or its name, as a whole or not at all, and nothing else replaced."""

import csv
import errno
import os
from xml.etree import ElementTree as ET

import pytest

from seatrial.report.formats import FORMATS
from tests.cli.conftest import Seatrial
from tests.cli.job_folders import BROKEN, make_job, record

TEXTS = [form for form in FORMATS if form.kind == "text"]


@pytest.fixture
def job(tmp_path):
    """Two agents at three tasks; the machine of one trial failed."""
    first = [record("t1", 1.0, "a"), record("t2", 0.0, "a"), record("t3", 1.0, "a")]
    second = [record("t1", 1.0, "b"), record("t2", 1.0, "b"), record("t3", BROKEN, "b")]
    return make_job(tmp_path / "job", *first, *second).path


def test_several_files_at_once_each_in_the_format_of_its_ending(seatrial: Seatrial, job, tmp_path):
    names = [f"new/r{form.suffixes[0]}" for form in TEXTS]
    shown = seatrial("report", job, *(word for name in names for word in ("-o", tmp_path / name)))
    assert (shown.code, shown.out) == (0, "")
    assert f"{tmp_path / 'new/r.csv'}: csv report of 6 trials in 1 job" in shown.err
    assert {path.name for path in (tmp_path / "new").iterdir()} == {name.removeprefix("new/") for name in names}
    suites = ET.parse(tmp_path / "new/r.xml").getroot()  # noqa: S314 - our own
    assert (suites.get("tests"), suites.get("failures"), suites.get("errors")) == ("6", "1", "1")
    with (tmp_path / "new/r.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 6
    assert (tmp_path / "new/r.html").read_text().lower().startswith("<!doctype html>")


@pytest.mark.parametrize("form", TEXTS, ids=lambda form: form.name)
def test_every_text_can_be_printed_and_is_the_same_each_time(seatrial: Seatrial, job, form):
    shown = seatrial("report", job, "-o", "-", "--format", form.name)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out
    assert seatrial("report", job, "-o", "-", "--format", form.name).out == shown.out


def test_a_report_replaces_the_one_before_and_leaves_nothing_beside_it(seatrial: Seatrial, job, tmp_path):
    path = tmp_path / "out" / "r.md"
    assert seatrial("report", job, "-o", path).code == 0
    first = path.read_text()
    path.write_text("old")
    assert seatrial("report", job, "-o", path).code == 0
    assert path.read_text() == first
    assert [each.name for each in path.parent.iterdir()] == ["r.md"]


def test_folders_and_links_are_not_replaced(seatrial: Seatrial, job, tmp_path):
    (tmp_path / "folder.md").mkdir()
    (tmp_path / "target").write_text("keep")
    (tmp_path / "link.md").symlink_to(tmp_path / "target")
    for name, what in (("folder.md", "is a folder"), ("link.md", "is a link")):
        shown = seatrial("report", job, "-o", tmp_path / name)
        assert shown.code == 2
        assert what in shown.err
    assert (tmp_path / "target").read_text() == "keep"


def test_no_file_is_replaced_where_one_of_them_cannot_be_written(seatrial: Seatrial, job, tmp_path):
    (tmp_path / "r.md").write_text("old")
    (tmp_path / "plain").write_text("no folder")
    shown = seatrial("report", job, "-o", tmp_path / "r.md", "-o", tmp_path / "plain" / "r.csv")
    assert shown.code != 0
    assert "plain" in shown.err
    assert (tmp_path / "r.md").read_text() == "old"
    assert not list(tmp_path.glob(".*.new"))


def test_no_file_is_replaced_where_the_last_bytes_of_another_find_no_room(
    seatrial: Seatrial, job, tmp_path, monkeypatch
):
    (tmp_path / "r.md").write_text("old")
    kept = os.fsync

    def full(file):
        if os.pread(file, 2, 0) != b"##":
            raise OSError(errno.ENOSPC, "No space left on device")
        kept(file)

    monkeypatch.setattr("os.fsync", full)
    shown = seatrial("report", job, "-o", tmp_path / "r.tex", "-o", tmp_path / "r.md")
    assert (shown.code, (tmp_path / "r.md").read_text()) == (1, "old")
    assert "r.tex: the report cannot be written: No space left on device; name another with -o" in shown.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job", "r.md"]


@pytest.mark.parametrize("part", ["job.json", "annotations.jsonl", "index.jsonl", "trials/t1.a.1/record.json"])
def test_no_part_of_a_job_is_replaced(seatrial: Seatrial, job, tmp_path, part):
    before = (job / part).read_bytes() if (job / part).exists() else None
    (tmp_path / "other").symlink_to(job)
    for folder in (job, tmp_path / "other"):
        shown = seatrial("report", job, "-o", folder / part, "--format", "csv")
        assert shown.code == 2
        assert "is a part of the job" in shown.err
    assert ((job / part).read_bytes() if (job / part).exists() else None) == before
    assert seatrial("report", job, "-o", job / "report.csv", "-o", job / "reports" / "index.jsonl").code == 0


def test_a_closed_standard_output_is_said(seatrial: Seatrial, job, monkeypatch):
    monkeypatch.setattr("seatrial.cli.report_command.sys.stdout", None)
    shown = seatrial("report", job, "-o", "-", "--format", "csv")
    assert (shown.code, "the standard output is closed" in shown.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-o", "r.odt"), "does not say which format is meant"),
        (("-o", "-"), "--format markdown"),
        (("-o", "-", "--format", "parquet"), "cannot be printed"),
        (("-o", "r.md", "-o", "./r.md"), "two reports cannot go to one place"),
        (("-o", "a", "-o", "b", "-o", "c", "--format", "csv", "--format", "junit"), "2 times for 3 files"),
        (("-o", "r.md", "--baseline", "nobody"), "expected one of a, b"),
        (("-o", "r.md", "--level", "1.5"), "not in the range"),
        (("-o", "r.md", "--level", "0.9999999999999999"), "not in the range"),
        (("-o", "r.md", "--where", "task=none"), "no trial is as asked for"),
        ((), "Missing option"),
    ],
)
def test_what_cannot_be_done_is_said(seatrial: Seatrial, job, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    shown = seatrial("report", job, *words)
    assert shown.code == 2
    assert said in shown.err
    assert not (tmp_path / "r.md").exists()


def test_trials_are_chosen_and_the_methods_say_so(seatrial: Seatrial, job):
    shown = seatrial("report", job, "-o", "-", "--format", "markdown", "--where", "task=t1", "--title", "Only one")
    assert shown.out.startswith("## Only one\n")
    assert "2 trials planned, 2 with a record, 2 scored. Only trials with task=t1 are in it." in shown.out


def test_a_folder_that_is_no_job_is_named(seatrial: Seatrial, tmp_path):
    shown = seatrial("report", tmp_path, "-o", tmp_path / "r.csv")
    assert shown.code == 2
    assert str(tmp_path) in shown.err


COMPUTING = [("report", "-o", "-", "--format", "markdown"), ("leaderboard",), ("compare",), ("power", "--agent", "a")]


@pytest.mark.parametrize("words", COMPUTING, ids=lambda words: words[0])
def test_records_that_do_not_count_are_told_by_every_command_that_computes(seatrial: Seatrial, job, words):
    (job / "trials" / "t1.a.1" / "record.json").write_text("{")
    shown = seatrial(words[0], job, *words[1:])
    assert shown.code == 0
    assert f"Warning: {job}: 1 record does not count; `" in shown.err
    assert f"seatrial show {job} --all` says why" in shown.err
    if words[0] == "report":
        assert "1 record of a trial is not sound, and in no figure." in shown.out


def test_damaged_words_of_reviewers_are_told_where_the_others_are_written(seatrial: Seatrial, job):
    (job / "annotations.jsonl").write_text('{"trial_id": "t1.a.1"}\n')
    shown = seatrial("report", job, "-o", "-", "--format", "csv")
    assert (shown.code, len(shown.out.splitlines())) == (0, 7)
    assert "annotations.jsonl, line 1: is damaged and left out" in shown.err
    assert seatrial("report", job, "-o", "-", "--format", "junit").err == ""
