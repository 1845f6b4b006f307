"""The folder of results: there as a whole or not at all, and made anew for anything that is not the same."""

from pathlib import Path

import pytest

from seatrial.check.checks.after_runs import read_runs, rewards
from seatrial.check.run import CheckFolder, digest_options
from seatrial.errors import JobError
from seatrial.model.job import AgentOptions
from seatrial.model.record import TrialWarning
from seatrial.store.job_store import JobStore
from tests.check.test_battery import finding, result
from tests.jobs.samples import DIGEST as SAMPLES_DIGEST
from tests.jobs.samples import broken_machine, evaluation, job_file, record

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


def test_results_of_a_check_that_was_removed_are_read(folder):
    old = result(finding("minor").model_copy(update={"check": "V13"})).model_copy(update={"options": OPTIONS})
    folder.store(old)
    assert folder.load("t", DIGEST, OPTIONS) == old


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


AGENTS = (AgentOptions(name="oracle"), AgentOptions(name="command", command="true", label="mine"))


def test_attempts_of_real_agents(tmp_path: Path) -> None:
    store = JobStore.create(tmp_path / "job", job_file(agents=AGENTS, attempts=4))
    kept = [
        record("add", agent="mine", evaluation=evaluation(0.25)),
        record("add", 2, agent="mine", failure=broken_machine()),
        record("add", 3, agent="mine", warnings=(TrialWarning(code="no_model_call", message="none"),)),
        record("add", agent="oracle"),
    ]
    for each in kept:
        with store.draft(each.trial_id) as draft:
            draft.commit(each)
    runs = read_runs([store.path])
    assert [(each.agent, each.reward, each.is_scored) for each in runs.at(SAMPLES_DIGEST)] == [
        ("mine", 0.25, True),
        ("mine", None, False),
    ]
    assert rewards(runs.at(SAMPLES_DIGEST)) == [0.25]
    assert runs.jobs == (str(store.path),)
    assert runs.rewards_elsewhere(SAMPLES_DIGEST, "mine") == []
    assert runs.rewards_elsewhere("another", "mine") == [0.25]
