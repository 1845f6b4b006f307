"""Preparing a job and its resumption: what is checked before anything starts, and what is refused."""

import json
import shutil
from typing import Any

import pytest

from seatrial.errors import JobError, UsageError
from seatrial.jobs.plan import plan_rest, plan_trials, remaining
from seatrial.jobs.prepare import lock_task, prepare_job
from seatrial.jobs.resume import (
    changed_tasks,
    compare_specs,
    extend_job,
    extensions,
    prepare_resume,
    prepare_rollouts,
    refuse_differences,
    set_failures_aside,
)
from seatrial.jobs.trust import describe
from seatrial.model.job import AgentFiles, AgentOptions, LockedTask, ModelOptions, RunOptions, TrialOptions
from seatrial.store.job_store import JobStore
from seatrial.tasks.expected import resolve_output
from seatrial.tasks.layout import digest_folder, list_files
from seatrial.tasks.load import load_task
from tests.jobs.samples import DIGEST, NOOP, FakeTrials, broken_machine, job_file, job_spec, record, record_for
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


@pytest.fixture
def prepare(tasks, tmp_path):
    """`prepare("add", resume=True)`: the job of rollouts on some of the tasks."""

    def make(*names, resume=False, **changes):
        loaded = {name: load_task(tasks / name) for name in names}
        locked = [lock_task(task) for task in loaded.values()]
        return prepare_rollouts(tmp_path / "job", job_spec(**changes), loaded, locked, resume=resume)

    return make


def test_a_new_job_knows_who_drives_it(prepare):
    job = prepare("add", "sort", attempts=2)
    assert (job.is_new, job.store.file.driver) == (True, "environment")
    assert [plan.trial_id for plan in job.trials] == ["add.noop.1", "sort.noop.1", "add.noop.2", "sort.noop.2"]


def test_more_tasks_and_attempts_are_added_and_fewer_take_nothing_away(prepare):
    prepare("add")
    assert len(prepare("add", "sort", attempts=2, resume=True).trials) == 4
    job = prepare("sort", resume=True)
    assert (job.store.file.spec.attempts, [task.id for task in job.store.file.tasks]) == (2, ["add", "sort"])


def test_resume_in_a_folder_without_a_job_begins_one(prepare):
    assert prepare("add", resume=True).is_new


def test_what_is_not_the_same_is_refused(prepare, tasks):
    prepare("add")
    with pytest.raises(JobError, match="holds a job already"):
        prepare("add")
    (tasks / "add/instruction.md").write_text("Something else.\n")
    with pytest.raises(JobError, match=r"not the same evaluation.*\n.*task add: its files have changed"):
        prepare("add", resume=True)


def test_a_job_of_seatrial_run_is_left_alone(prepare, tmp_path):
    JobStore.create(tmp_path / "job", job_file())
    with pytest.raises(JobError, match="holds a job of `seatrial run`"):
        prepare("add", resume=True)


def test_tasks_that_are_new_are_added_and_the_others_stay_as_they_were(make_job):
    store = make_job().store
    before = store.file
    given = [LockedTask(id=name, name=name, root="/elsewhere", digest=DIGEST) for name in ("add", "extra")]
    assert extend_job(store, before.spec.model_copy(update={"attempts": 2}), given) == 1
    assert [task.id for task in store.file.tasks] == ["add", "merge", "sort", "extra"]
    assert store.file.tasks[:3] == before.tasks
    assert len(plan_rest(store.file)) == 8


def test_nobody_extends_a_job_that_another_run_is_at(make_job):
    store = make_job().store
    with store.lock(), pytest.raises(JobError, match="another run"):
        extend_job(store, store.file.spec, [])


def test_what_the_machinery_failed_is_left_to_do_again(make_job):
    store = make_job().store
    ours: dict[str, Any] = {"job_id": store.file.id, "job": store.file.spec.name}
    failed: dict[str, Any] = {"failure": broken_machine()}
    digests = {task.id: task.digest for task in store.file.tasks}
    for name, changes in (("add", failed), ("sort", {})):
        told = record(name, **ours, **changes)
        told = told.model_copy(update={"task": told.task.model_copy(update={"digest": digests[name]})})
        with store.draft(told.trial_id) as draft:
            draft.commit(told)
    assert set_failures_aside(store) == ["running again: 1 trial that the machine or a provider failed"]
    assert [plan.task_id for plan in plan_rest(store.file, store.finished())] == ["add", "merge"]


def test_differences_are_listed_with_what_to_do(tmp_path):
    refuse_differences(tmp_path, [])
    with pytest.raises(JobError, match="is not the same evaluation any more:\n  a\n  b\nstart anew"):
        refuse_differences(tmp_path, ["a", "b"], "start anew", "evaluation")


OTHER = AgentOptions(name="oracle")


def test_the_same_spec():
    assert compare_specs(job_spec(), job_spec()) == extensions(job_spec(), job_spec()) == []


def test_how_it_is_carried_out_does_not_matter():
    new = job_spec(run=RunOptions(concurrent=9, retries=0, shuffle_seed=1))
    assert compare_specs(job_spec(), new) == extensions(job_spec(), new) == []


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"name": "daily"}, "name: was 'nightly', is 'daily'"),
        ({"attempts": 2}, "attempts: was 3, is 2, which is fewer"),
        ({"trial": TrialOptions(isolation="kill")}, "trial.isolation: was 'guarded', is 'kill'"),
        ({"agents": (OTHER,)}, "agents: 'noop' is not among them any more"),
        ({"agents": (AgentOptions(name="noop", model="m"),)}, "agents.noop.model: was nothing, is 'm'"),
        ({"agents": (AgentOptions(name="noop", env={"A": "b"}),)}, "agents.noop.env: was nothing, is {'A': 'b'}"),
    ],
)
def test_what_must_not_be_mixed(changes, line):
    assert compare_specs(job_spec(attempts=3), job_spec(**{"attempts": 3, **changes})) == [line]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"attempts": 2}, "attempts: was 1, is 2"),
        ({"agents": (NOOP, OTHER)}, "agents: 'oracle' is new"),
        ({"tasks": ("/tasks", "/more")}, "tasks: was /tasks, is /tasks, /more"),
        ({"include": ("a*",)}, "include: was nothing, is a*"),
        ({"exclude": ("a*",)}, "exclude: was nothing, is a*"),
    ],
)
def test_what_only_adds(changes, line):
    assert compare_specs(job_spec(), job_spec(**changes)) == []
    assert extensions(job_spec(), job_spec(**changes)) == [line]


def test_tasks_that_changed_or_went_are_named():
    locked = job_file(("add", "sort", "merge")).tasks
    lines = changed_tasks(locked, {"add": "f" * 64, "sort": None})
    assert lines == [
        "task add: its files have changed (digest was 0123456789ab, is ffffffffffff)",
        "task sort: is not at /tasks/sort any more, or cannot be read as a task",
    ]
    assert changed_tasks(locked, {task.id: task.digest for task in locked}) == []


def test_what_is_left_is_a_set_difference():
    plans = plan_trials(["add", "sort"], [NOOP], 2)
    assert remaining(plans, {"add.noop.1", "sort.noop.2", "gone.noop.1"}) == [plans[1], plans[2]]


@pytest.fixture
def tamper(make_job):
    """Changes a table of the job.json of a new job, as somebody else would; returns its folder."""

    def change(table, **values):
        folder = make_job().store.path
        file = json.loads((folder / "job.json").read_text())
        file["spec"][table].update(values)
        (folder / "job.json").write_text(json.dumps(file))
        return folder

    return change


def test_ones_own_job_goes_on_also_moved_and_copied(make_job, tmp_path):
    folder = make_job().store.path
    assert len(prepare_resume(folder).trials) == 3
    assert len(prepare_resume(shutil.copytree(folder, tmp_path / "copy")).trials) == 3
    assert len(prepare_resume(folder.rename(tmp_path / "moved")).trials) == 3


def test_an_extended_job_is_still_ones_own(make_job, spec):
    folder = make_job().store.path
    more = spec.model_copy(update={"attempts": 2})
    prepare_resume(folder, spec=more, extend=True)
    assert len(prepare_resume(folder).trials) == 6


@pytest.mark.parametrize(
    ("table", "values", "said"),
    [
        ("trial", {"backend": "local"}, "backend 'local', WITHOUT a sandbox"),
        ("trial", {"image": "/etc"}, "all tasks run in the image or folder '/etc'"),
        ("trial", {"allow_env": ["SECRET"]}, "tasks get your variables 'SECRET'"),
        (
            "model",
            {"upstream": "openai:http://evil.example/v1,key=OPENAI_API_KEY"},
            "go to the upstream 'openai:http://evil",
        ),
        ("model", {"prices": "/etc/shadow"}, "prices are read from '/etc/shadow'"),
    ],
)
def test_a_job_that_somebody_changed_is_refused_with_what_it_says(tamper, table, values, said):
    folder = tamper(table, **values)
    with pytest.raises(JobError) as refused:
        prepare_resume(folder)
    assert said in str(refused.value)
    assert f"`seatrial resume {folder} --trust-job`" in str(refused.value)


def test_the_users_word_counts_for_what_was_said_and_is_remembered(tamper):
    folder = tamper("trial", network="none")
    assert len(prepare_resume(folder, trust_job=True).trials) == 3
    assert len(prepare_resume(folder).trials) == 3
    again = (folder / "job.json").read_text().replace('"none"', '"task"')
    (folder / "job.json").write_text(again)
    with pytest.raises(JobError, match="--trust-job"):
        prepare_resume(folder)


def test_a_job_without_a_seal_is_as_if_somebody_else_had_made_it(make_job):
    folder = make_job().store.path
    (folder / "job.seal").unlink()
    with pytest.raises(JobError, match="was not made by you on this machine"):
        prepare_resume(folder)


def test_where_no_key_can_be_kept_jobs_run_and_their_resumption_takes_a_word(spec, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    job = prepare_job(spec, tmp_path / "job")
    assert "--trust-job" in job.notices[-1]
    with pytest.raises(JobError, match="--trust-job"):
        prepare_resume(job.store.path)
    assert len(prepare_resume(job.store.path, trust_job=True).trials) == 3


def test_everything_that_concerns_the_user_is_described_and_steers_no_terminal():
    spec = job_spec(
        tasks=("/tasks",),
        agents=(
            AgentOptions(
                name="command", command="x\x1b[2J", setup="y", env={"A": "${KEY}", "B": "${OTHER:-}", "C": "c"}
            ),
        ),
        trial=TrialOptions(
            backend="docker", image_map={"a": "/b"}, private_hosts="allow", enforcement="partial", allow_env=("X", "Y")
        ),
        model=ModelOptions(upstream="scripted:/f", prices="/p"),
    )
    assert describe(spec) == [
        "backend 'docker'",
        "tasks are read from '/tasks'",
        "'/b' is the image or folder in place of 'a'",
        "tasks get your variables 'X', 'Y'",
        "tasks may reach services of this machine and its network",
        "limits and networks that cannot be enforced here are left out",
        "model calls, with your key, go to the upstream 'scripted:/f'",
        "prices are read from '/p'",
        r"the agent 'command' runs 'x\x1b[2J'",
        "the agent 'command' is set up by 'y'",
        "the agent 'command' gets your variables 'KEY', 'OTHER'",
    ]


def test_a_file_that_is_gone_since_the_folder_was_listed_is_not_missed(tasks):
    task = load_task(tasks / "add")
    (task.root / ".task.toml.swp").write_text("kept by an editor")
    files = list_files(task.root)
    (task.root / ".task.toml.swp").unlink()
    assert lock_task(task, files).digest == digest_folder(task.root)
