"""Preparing a job and its resumption: what is checked before anything starts, and what is refused."""

import pytest

from seatrial.errors import JobError, UsageError
from seatrial.jobs.prepare import prepare_job, prepare_resume
from seatrial.model.job import AgentFiles, AgentOptions, RunOptions, TrialOptions
from seatrial.store.job_store import JobStore
from seatrial.tasks.digest import digest_folder
from seatrial.tasks.expected import resolve_output
from tests.jobs.samples import NOOP, FakeTrials, broken_machine, record_for
from tests.jobs.test_carry_out import run

LABELLED = AgentOptions(name="noop", label="again")


def ids(job):
    return [plan.trial_id for plan in job.trials]


def test_a_new_job_is_locked(spec, tasks, tmp_path):
    job = prepare_job(spec, tmp_path / "job")
    assert ids(job) == ["add.noop.1", "merge.noop.1", "sort.noop.1"]
    assert set(job.tasks) == {"add", "merge", "sort"}
    locked = JobStore.open(tmp_path / "job").file
    assert {task.id: (task.root, task.digest) for task in locked.tasks} == {
        name: (str(tasks / name), digest_folder(tasks / name)) for name in ("add", "merge", "sort")
    }


def test_what_a_task_expects_is_found_out_when_it_is_its_turn(spec, tasks, tmp_path, monkeypatch):
    asked = []

    def note(*given):
        asked.append(given)
        return resolve_output(*given)

    monkeypatch.setattr("seatrial.tasks.outline.resolve_output", note)
    job = prepare_job(spec, tmp_path / "job")
    assert not asked
    first = next(iter(job.tasks))
    assert job.tasks[first].id == first
    assert job.tasks[first] is job.tasks[first]
    assert len(asked) == 1
    assert len(job.tasks) == len(list(job.tasks)) > 1
    with pytest.raises(KeyError):
        job.tasks["none of them"]


def test_paths_are_stored_whole(spec, tasks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    job = prepare_job(spec.model_copy(update={"tasks": ("tasks",)}), tmp_path / "job")
    assert job.store.file.spec.tasks == (str(tasks),)
    monkeypatch.chdir("/")
    assert len(prepare_resume(tmp_path / "job").trials) == 3


def test_an_agent_s_files_are_locked_and_a_change_of_them_stops_the_job(spec, tmp_path):
    (tmp_path / "mine.py").write_text("1")
    agent = AgentOptions(name="command", command="x", files=(AgentFiles(source=str(tmp_path / "mine.py")),))
    job = prepare_job(spec.model_copy(update={"agents": (agent,)}), tmp_path / "job")
    assert job.trials[0].agent.files[0].digest
    assert len(prepare_resume(tmp_path / "job").trials) == 3
    (tmp_path / "mine.py").write_text("2")
    with pytest.raises(JobError, match=r"agents\.command\.files: .*mine\.py has changed"):
        prepare_resume(tmp_path / "job")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"trial": TrialOptions(ca_file="/no/such.pem")}, "--ca-file /no/such.pem: it cannot be read"),
        ({"agents": (AgentOptions(name="nobody"),)}, "no agent called 'nobody'"),
        ({"trial": TrialOptions(backend="cloud")}, "no sandbox backend called 'cloud'; there are: auto, docker, "),
        ({"include": ("nothing",)}, "none is left"),
        ({"agents": (AgentOptions(name="command", command="x", env={"KEY": "${NO_SUCH_KEY}"}),)}, "NO_SUCH_KEY"),
    ],
)
def test_what_cannot_work_is_said_before_anything_is_made(spec, tmp_path, changes, complaint):
    with pytest.raises(UsageError, match=complaint):
        prepare_job(spec.model_copy(update=changes), tmp_path / "job")
    assert not (tmp_path / "job").exists()


def test_variables_that_tasks_want_are_all_named(spec, make_task, tmp_path, monkeypatch):
    make_task("tasks/add", toml='[environment.env]\nA = "${NO_SUCH_A}"\nB = "${NO_SUCH_B:-b}"\n')
    make_task("tasks/sort", toml='[environment.env]\nC = "${NO_SUCH_C}"\n')
    with pytest.raises(JobError, match=r"NO_SUCH_A \(for add\): it is not set.*\n  NO_SUCH_C \(for sort\)"):
        prepare_job(spec, tmp_path / "job")
    monkeypatch.setenv("NO_SUCH_A", "1")
    monkeypatch.setenv("NO_SUCH_C", "1")
    monkeypatch.setenv("NO_SUCH_B", "secret")
    with pytest.raises(JobError, match=r"NO_SUCH_A \(for add\): it is not allowed; --allow-env NO_SUCH_A"):
        prepare_job(spec, tmp_path / "job")
    trial = spec.trial.model_copy(update={"allow_env": ("NO_SUCH_A", "NO_SUCH_C")})
    job = prepare_job(spec.model_copy(update={"trial": trial}), tmp_path / "job")
    assert [notice.partition(":")[0] for notice in job.notices] == ["NO_SUCH_B (for add)"]
    assert "secret" not in (tmp_path / "job/job.json").read_text()


def test_a_folder_that_is_taken_is_refused(spec, make_job):
    job = make_job()
    with pytest.raises(JobError, match="seatrial resume"):
        prepare_job(spec, job.store.path)


def test_only_what_is_left_is_loaded(make_job, tasks, monkeypatch):
    job = make_job(run=RunOptions(max_trials=2, concurrent=1))
    run(job, FakeTrials())
    left = prepare_resume(job.store.path)
    assert (ids(left), list(left.tasks)) == (["sort.noop.1"], ["sort"])


def test_a_finished_job_needs_no_task_at_all(make_job, tasks):
    job = make_job()
    run(job, FakeTrials())
    for path in sorted(tasks.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    assert prepare_resume(job.store.path).trials == []


def test_a_changed_task_is_refused_by_name(make_job, tasks):
    job = make_job()
    (tasks / "merge" / "tests" / "test.sh").write_text("echo 1 > /logs/verifier/reward.txt; true\n")
    (tasks / "sort" / "task.toml").unlink()
    with pytest.raises(JobError) as caught:
        prepare_resume(job.store.path)
    complaint = str(caught.value)
    assert "task merge: its files have changed" in complaint
    assert f"task sort: is not at {tasks / 'sort'} any more" in complaint
    assert "task add" not in complaint


def test_a_changed_task_whose_trials_are_all_done_does_not_matter(make_job, tasks):
    job = make_job(run=RunOptions(max_trials=1, concurrent=1))
    run(job, FakeTrials())
    (tasks / "add" / "instruction.md").write_text("Something else.\n")
    assert ids(prepare_resume(job.store.path)) == ["merge.noop.1", "sort.noop.1"]


def test_the_same_spec_goes_on(spec, make_job):
    job = make_job()
    again = prepare_resume(job.store.path, spec=spec.model_copy(update={"run": RunOptions(concurrent=7)}))
    assert ids(again) == ids(job)
    assert again.store.file.spec.run.concurrent == 7
    assert JobStore.open(job.store.path).file == job.store.file, "how it is carried out is not the job"


def test_another_spec_is_refused_with_every_difference(spec, make_job):
    job = make_job(attempts=2)
    other = spec.model_copy(update={"trial": TrialOptions(isolation="kill"), "agents": (LABELLED,)})
    with pytest.raises(JobError) as caught:
        prepare_resume(job.store.path, spec=other, extend=True)
    complaint = str(caught.value)
    for line in ("trial.isolation: was 'guarded', is 'kill'", "attempts: was 2, is 1", "'noop' is not among them"):
        assert line in complaint


def test_more_is_refused_unless_asked_for(spec, make_job):
    job = make_job()
    more = spec.model_copy(update={"attempts": 3})
    with pytest.raises(JobError, match=r"attempts: was 1, is 3\n.*--extend"):
        prepare_resume(job.store.path, spec=more)
    assert JobStore.open(job.store.path).file == job.store.file


def test_more_attempts_agents_and_tasks(spec, make_job, make_task, tmp_path):
    job = make_job()
    run(job, FakeTrials())
    make_task("more/add")
    tasks = (*spec.tasks, str(tmp_path / "more"))
    more = spec.model_copy(update={"attempts": 2, "agents": (NOOP, LABELLED), "tasks": tasks})
    left = prepare_resume(job.store.path, spec=more, extend=True)
    assert {plan.task_id for plan in left.trials} == set(left.tasks) == {"add", "merge", "sort", "more/add"}
    assert len(left.trials) == 4 * 2 * 2 - 3
    assert JobStore.open(job.store.path).file.spec == more
    run(left, FakeTrials())
    assert len(left.store.entries()) == 16
    assert prepare_resume(job.store.path).trials == []


def test_extending_must_not_lose_or_change_a_task(spec, make_job, tasks, tmp_path):
    job = make_job()
    fewer = spec.model_copy(update={"exclude": ("merge",)})
    with pytest.raises(JobError, match="task merge: is not"):
        prepare_resume(job.store.path, spec=fewer, extend=True)
    (tasks / "add" / "instruction.md").write_text("Something else.\n")
    with pytest.raises(JobError, match="task add: its files have changed"):
        prepare_resume(job.store.path, spec=spec.model_copy(update={"attempts": 2}), extend=True)
    assert JobStore.open(job.store.path).file == job.store.file


def test_what_does_not_count_is_kept_named_and_run_again(make_job):
    job = make_job()
    run(job, FakeTrials())
    trials = job.store.path / "trials"
    (trials / "add.noop.1" / "record.json").write_bytes(b"{")
    (trials / "notes").mkdir()
    again = prepare_resume(job.store.path)
    assert ids(again) == ["add.noop.1"]
    assert [entry.trial_id for entry in again.earlier] == ["merge.noop.1", "sort.noop.1"]
    first, second = again.notices
    assert first.startswith("add.noop.1 does not count: its record.json is no whole JSON; what is there is kept in")
    assert second == "notes does not count: there is no record.json in it; it is left alone"
    run(again, FakeTrials())
    assert len(job.store.entries()) == 3
    assert (job.store.path / "damaged" / "add.noop.1.1" / "record.json").read_bytes() == b"{"
    assert prepare_resume(job.store.path).trials == []


def test_failed_trials_are_run_again_when_asked_for(make_job):
    job = make_job(run=RunOptions(retries=0))

    def act(spec, _):
        return record_for(spec, failure=broken_machine()) if spec.task.id == "merge" else record_for(spec)

    run(job, FakeTrials(act))
    assert prepare_resume(job.store.path).trials == []
    again = prepare_resume(job.store.path, retry_failed=True)
    assert ids(again) == ["merge.noop.1"]
    assert again.notices == ["running again: 1 trial that the machine or a provider failed"]
    run(again, FakeTrials())
    assert [(entry.outcome, entry.tries) for entry in job.store.entries()] == [("pass", 1), ("pass", 2), ("pass", 1)]
    assert [path.name for path in (job.store.path / "tries").iterdir()] == ["merge.noop.1.1"]


def test_rollouts_of_an_environment_are_left_to_it(spec, tmp_path):
    store = prepare_job(spec, tmp_path / "job").store
    with store.lock():
        store.update(store.file.model_copy(update={"driver": "environment"}))
    with pytest.raises(JobError, match="only a program with it can go on"):
        prepare_resume(tmp_path / "job")
