"""The doors for scripts: a job or a trial in one call, on sandboxes that do nothing."""

import asyncio
import threading

import pytest

from seatrial.errors import JobError, TaskFormatError, UsageError
from seatrial.jobs import api, local
from seatrial.jobs.api import job_name, new_job_folder, prepare_resume, run_job, run_prepared, run_trial
from seatrial.jobs.prepare import prepare_job
from seatrial.model.job import AgentOptions, RunOptions, TrialOptions
from seatrial.store.job_store import JobStore
from seatrial.tasks.load import load_task
from tests.jobs.samples import FakeTrials
from tests.trial.support import write_task

pytestmark = pytest.mark.usefixtures("null_sandboxes")


@pytest.fixture
def trials(monkeypatch) -> FakeTrials:
    """Trials are played instead of run."""
    fake = FakeTrials()
    for module in (api, local):
        name = "run_one" if module is api else "run_trial"
        monkeypatch.setattr(module, name, lambda spec, _, folder, observe=print: fake(spec, folder, observe))
    return fake


def test_a_job_in_one_call(trials, tasks, tmp_path):
    outcome = run_job(tasks, "noop", attempts=2, folder=tmp_path / "my job!", run=RunOptions(concurrent=2))
    assert (outcome.finished, outcome.stopped) == (6, "complete")
    stored = JobStore.open(tmp_path / "my job!").file.spec
    assert (stored.name, stored.attempts, stored.agents) == ("my-job-", 2, (AgentOptions(name="noop"),))


def test_several_paths_and_agents(trials, tasks, tmp_path):
    agents = [AgentOptions(name="noop"), AgentOptions(name="noop", label="two")]
    outcome = run_job([tasks / "add", tasks / "sort"], agents, folder=tmp_path / "job")
    assert [entry.trial_id for entry in outcome.store.entries()] == [
        "add.noop.1",
        "add.two.1",
        "sort.noop.1",
        "sort.two.1",
    ]


def test_without_a_folder_a_new_one_is_made(trials, tasks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stores = [run_job(tasks, "noop").store for _ in range(2)]
    assert len({store.path for store in stores}) == 2
    assert {store.path.parent.name for store in stores} == {"jobs"}
    assert prepare_resume(stores[0].path).trials == []


def test_from_a_notebook(trials, tasks, tmp_path):
    async def cell():
        return run_job(tasks, "noop", folder=tmp_path / "job"), threading.active_count()

    outcome, threads = asyncio.run(cell())
    assert outcome.finished == 3
    assert threads == threading.active_count()


def test_errors_come_out_as_they_are(trials, tasks, tmp_path):
    run_job(tasks, "noop", folder=tmp_path / "job")
    with pytest.raises(JobError, match="seatrial resume"):
        run_job(tasks, "noop", folder=tmp_path / "job")
    with pytest.raises(UsageError, match="no sandbox backend"):
        run_job(tasks, "noop", folder=tmp_path / "other", options=TrialOptions(backend="cloud"))


def test_a_job_with_nothing_left_needs_neither_lock_nor_sandbox(trials, spec, tmp_path, monkeypatch):
    job = prepare_job(spec, tmp_path / "job")
    asyncio.run(run_prepared(job))
    monkeypatch.setattr("seatrial.jobs.machinery.make_backend", lambda _: pytest.fail("a sandbox was asked for"))
    left = prepare_resume(tmp_path / "job")
    with job.store.lock():
        outcome = asyncio.run(run_prepared(left))
    assert (outcome.planned, outcome.finished, outcome.started, outcome.stopped) == (3, 3, 0, "complete")


def test_a_job_another_run_works_on_is_refused(trials, spec, tmp_path):
    job = prepare_job(spec, tmp_path / "job")
    with job.store.lock(), pytest.raises(JobError, match="another run"):
        asyncio.run(run_prepared(job))
    assert trials.ran == []


@pytest.mark.parametrize("given", ["path", "text", "task"])
def test_one_trial(trials, tasks, tmp_path, given):
    path = tasks / "add"
    task = {"path": path, "text": str(path), "task": load_task(path)}[given]
    record = run_trial(task, "noop", folder=tmp_path / "files")
    assert (record.trial_id, record.outcome) == ("add.noop.1", "pass")
    assert (tmp_path / "files" / "agent" / "stdout.txt").exists()


def test_one_trial_leaves_nothing_without_a_folder(trials, tasks, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = set(tmp_path.iterdir())
    assert run_trial(tasks / "add", AgentOptions(name="noop", label="me")).trial_id == "add.me.1"
    assert set(tmp_path.iterdir()) == before


def test_one_trial_of_no_task(trials, tmp_path):
    with pytest.raises(TaskFormatError):
        run_trial(tmp_path)


def test_names_of_new_folders_are_free(tmp_path):
    first = new_job_folder(tmp_path)
    first.mkdir()
    assert not new_job_folder(tmp_path).exists()


@pytest.mark.parametrize(("folder", "name"), [("nightly-3", "nightly-3"), ("..my job", "my-job"), ("日本", "job")])
def test_names_of_jobs(tmp_path, folder, name):
    assert job_name(tmp_path / folder) == name


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"tasks": []}, "tasks: Tuple should have at least 1 item"),
        ({"tasks": None}, "a task is None, expected a path"),
        ({"attempts": 0}, "attempts: expected greater than or equal to 1, found 0"),
        ({"agent": None}, "agent is None, expected the name of one, AgentOptions, or a list of them"),
        ({"agent": {"name": "oracle"}}, "expected the name of one, AgentOptions, or a list of them"),
        ({"agent": ["noop", 3]}, "expected the name of one, AgentOptions, or a list of them"),
        ({"agent": ["noop", "noop"]}, "two agents are called 'noop'"),
        ({"options": RunOptions()}, "trial: expected .* TrialOptions, found a value of type RunOptions"),
        ({"model": "gpt"}, "model: expected .* ModelOptions, found a value of type str"),
        ({"folder": 3}, "folder is 3, expected a path"),
    ],
)
def test_a_job_that_makes_no_sense_is_refused_in_words(tmp_path, arguments, said):
    given = {"tasks": write_task(tmp_path / "task"), "folder": tmp_path / "job", **arguments}
    with pytest.raises(UsageError, match=said):
        run_job(**given)
    assert not (tmp_path / "job").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"task": None}, "task is None, expected a path"),
        ({"agent": ["noop"]}, "expected the name of one, or AgentOptions"),
        ({"options": {}}, "options is of type dict, expected a TrialOptions"),
        ({"model": "gpt"}, "model is of type str, expected a ModelOptions"),
        ({"folder": __file__}, "no folder for the trial can be made there: File exists"),
    ],
)
def test_a_trial_that_makes_no_sense_is_refused_in_words(tmp_path, arguments, said):
    given = {"task": write_task(tmp_path / "task"), "agent": "noop", **arguments}
    with pytest.raises(UsageError, match=said):
        run_trial(**given)
