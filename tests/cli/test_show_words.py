"""What the words of `show` name: jobs, or a trial of one; a missing folder is never taken for something else."""

import pytest

from seatrial.cli.show_words import read_words
from seatrial.errors import UsageError
from tests.cli.conftest import Seatrial
from tests.cli.job_folders import make_job, record


@pytest.fixture
def jobs(tmp_path):
    first = make_job(tmp_path / "a", record("crc", 1.0))
    second = make_job(tmp_path / "b", record("crc", 0.0))
    return str(first.path), str(second.path)


def test_folders_with_jobs_are_jobs_and_a_last_word_that_is_none_is_a_trial(jobs, tmp_path):
    assert [str(job) for job in read_words(jobs).jobs] == [*jobs]
    assert read_words(jobs).trial is None
    assert read_words((jobs[0], "crc")).trial == "crc"
    assert read_words(("anything",)).trial is None
    (tmp_path / "crc").mkdir()
    assert read_words((jobs[0], str(tmp_path / "crc"))).trial is not None, "a folder without a job"


@pytest.mark.parametrize("last", ["missing", "\x00", "x" * 5000])
def test_after_several_jobs_there_is_no_trial(jobs, last):
    with pytest.raises(UsageError, match="is no folder with a job, and a trial is shown of one job, not of 2"):
        read_words((*jobs, last))


def test_a_missing_folder_is_named_as_one(seatrial: Seatrial, jobs, tmp_path):
    shown = seatrial("show", jobs[0], tmp_path / "gone")
    assert shown.code == 2
    assert f"'{tmp_path}/gone' is no folder with a job, and {jobs[0]} has no finished trial" in shown.err
    between = seatrial("show", jobs[0], tmp_path / "gone", jobs[1])
    assert (between.code, between.out) == (2, "")
    assert f"{tmp_path}/gone: no such folder, so it is not a job" in between.err
    assert "is no folder" not in seatrial("show", jobs[0], "zzz").err
