"""The folder of results: there as a whole or not at all, and made anew for anything that is not the same."""

import pytest

from seatrial.check.folder import CheckFolder, digest_options
from seatrial.errors import JobError
from tests.check.test_grade import finding, result

OPTIONS = digest_options(checks=["V1"], budget=60.0)
DIGEST = "0" * 64


@pytest.fixture
def folder(tmp_path):
    opened = CheckFolder(tmp_path / "checks/one")
    with opened.lock():
        yield opened


def stored(**changes):
    return result(finding("minor")).model_copy(update={"options": OPTIONS, **changes})


@pytest.mark.parametrize("task", ["plain", "a/b c", "ü" * 300])
def test_what_was_stored_is_loaded(folder, task):
    folder.store(stored(task=task))
    assert folder.load(task, DIGEST, OPTIONS) == stored(task=task)


def test_a_newer_result_takes_the_place_of_an_older_one(folder):
    folder.store(stored())
    folder.store(stored(grade="F"))
    assert folder.load("t", DIGEST, OPTIONS).grade == "F"


def test_other_tasks_other_options_and_no_grade_are_made_anew(folder):
    folder.store(stored())
    assert folder.load("other", DIGEST, OPTIONS) is None
    assert folder.load("t", "1" * 64, OPTIONS) is None
    assert folder.load("t", DIGEST, digest_options(checks=["V2"], budget=60.0)) is None
    folder.store(stored(grade=None))
    assert folder.load("t", DIGEST, OPTIONS) is None


@pytest.mark.parametrize("content", [b"", b"{", b'{"task": 1}'])
def test_what_cannot_be_read_is_made_anew(folder, content):
    folder.store(stored())
    (file,) = (folder.path / "tasks").iterdir()
    file.write_bytes(content)
    assert folder.load("t", DIGEST, OPTIONS) is None


def test_a_link_is_not_followed(folder, tmp_path):
    folder.store(stored())
    (file,) = (folder.path / "tasks").iterdir()
    file.rename(tmp_path / "elsewhere.json")
    file.symlink_to(tmp_path / "elsewhere.json")
    assert folder.load("t", DIGEST, OPTIONS) is None


def test_one_run_at_a_time(folder):
    with pytest.raises(JobError, match="another run"), CheckFolder(folder.path).lock():
        pass
