"""Which folders are jobs: those that were named, those in them, one level more, and never by way of a link."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from seatrial.errors import JobError
from seatrial.view.job_folders import check_folders, job_folders


def make(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "job.json").write_text("{}")
    return folder


def test_jobs_are_found_two_levels_down_and_no_further(tmp_path):
    one, nested = make(tmp_path / "jobs/one"), make(tmp_path / "jobs/night/two")
    make(tmp_path / "jobs/one/trials/three")
    make(tmp_path / "jobs/a/b/c")
    make(tmp_path / "jobs/.hidden")
    assert job_folders([tmp_path / "jobs"]) == {"night~two": nested, "one": one}
    assert job_folders([one]) == {"one": one}


def test_a_key_depends_on_nothing_but_the_place(tmp_path):
    odd = make(tmp_path / "jobs" / "odd name/?")
    before = job_folders([tmp_path / "jobs"])
    make(tmp_path / "jobs" / "odd-name")
    make(tmp_path / "jobs" / "odd-name-")
    after = job_folders([tmp_path / "jobs"])
    assert len(after) == 3
    assert before.items() <= after.items()
    assert {folder: key for key, folder in before.items()}[odd].startswith("odd-name~--")


def test_folders_of_the_same_name_and_folders_named_twice(tmp_path):
    first, second = make(tmp_path / "a/job"), make(tmp_path / "b/job")
    found = job_folders([first, second, first, tmp_path / "a"])
    assert [*found.values()] == [first, second]
    assert next(iter(found)) == "job"


def test_links_in_a_folder_are_not_followed(tmp_path):
    make(tmp_path / "elsewhere/job")
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs/job").symlink_to(tmp_path / "elsewhere/job")
    (tmp_path / "jobs/loop").symlink_to(tmp_path / "jobs")
    assert job_folders([tmp_path / "jobs"]) == {}
    (tmp_path / "named").symlink_to(tmp_path / "elsewhere")
    assert len(job_folders([tmp_path / "named"])) == 1


def test_what_is_wrong_is_said(tmp_path):
    with pytest.raises(JobError, match=r"none: there is no such folder; name the folder of a job"):
        check_folders([tmp_path / "none"])
    (tmp_path / "file").touch()
    with pytest.raises(JobError, match=r"file: is a file, expected a folder"):
        check_folders([tmp_path / "file"])
    with pytest.raises(JobError, match=r"no job in it; looked for job\.json there, in its folders and in theirs"):
        check_folders([tmp_path])


def test_a_folder_that_may_not_be_looked_into_hides_no_other(tmp_path, monkeypatch):
    made = [make(tmp_path / name) for name in ("closed", "open")]
    look = os.stat

    def refused(path: Any, **more: Any) -> os.stat_result:
        if Path(path).parent == made[0]:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return look(path, **more)

    monkeypatch.setattr(os, "stat", refused)
    assert job_folders([tmp_path]) == {"open": made[1]}
