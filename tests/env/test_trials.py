"""Rollouts that are trials are let in and tried again like the trials of a job.

Those that are kept are in a job's folder, where `seatrial show` and `resume` find them.
"""

import asyncio
import json
from collections import Counter
from dataclasses import replace
from typing import Any, ClassVar

import pytest

import seatrial as vf
from seatrial.cli.main import run
from seatrial.env import trials
from seatrial.env.rollout import rollout_of
from seatrial.env.run_row import RowPlan
from seatrial.env.trials import Rollouts
from seatrial.errors import HostExhaustedError, SandboxError
from seatrial.jobs.places import LocalPlaces, memory_of
from seatrial.model.job import AgentOptions, RunOptions
from seatrial.model.loaded_task import Task
from seatrial.model.record import TaskRef
from seatrial.sandbox.host.watch import host_watch
from seatrial.store.job_store import JobStore
from seatrial.tasks.load import load_task
from seatrial.testing.fake import ALL_POWERFUL
from seatrial.trial.spec import TrialSpec
from tests.env.games import Guessing, counting
from tests.env.worlds import REWARD_TXT, echo, evaluate, harbor_env, make_tasks, only, record_of, world
from tests.jobs.samples import broken_machine, evaluation, job_file, record
from tests.sandbox.host.fakes import FakeGauge, on_watch, shortage

pytestmark = pytest.mark.usefixtures("no_pauses")
ROWS = [{"question": "Guess.", "task": task, "info": {"number": 0}} for task in ("add", "sort")]


@pytest.fixture(autouse=True, scope="module")
def tasks(tmp_path_factory):
    """What the rows are about."""
    folder = make_tasks(tmp_path_factory.mktemp("tasks"), "add", "sort")
    Trials.tasks = {name: load_task(folder / name) for name in ("add", "sort")}


class Trials(Guessing):
    """Plays trials in memory: each leaves a file and a record; those in `broken` fail by infrastructure, so often."""

    rollouts_are_trials = True
    tasks: ClassVar[dict[str, Task]] = {}

    def __init__(self, broken=(), digest="a", times=99, **kwargs):
        super().__init__(**{"dataset": ROWS, "max_turns": 1, **kwargs})
        self.broken = dict.fromkeys(broken, times)
        self.digest = digest
        self.ran: list[str] = []

    def trial_spec(self, row, model):
        task = self.tasks[row["task"]]
        return TrialSpec(f"{task.id}.x", task, self.digest * 64, AgentOptions(name="noop", model=model))

    def job_spec(self, plan, name):
        tasks = sorted({row["task"] for row in plan.rows})
        spec = job_file(tasks, name=name, attempts=len(plan.rows) // len(tasks)).spec
        return spec.model_copy(update={"run": RunOptions(retries=plan.retries)})

    async def post_rollout(self, state):
        place = rollout_of(state).place
        assert place is not None
        spec = place.spec
        self.ran.append(spec.trial_id)
        (place.folder / "agent.txt").write_text(state["completion"][0]["content"])
        failed = self.broken.get(spec.trial_id, 0) > 0
        rollout_of(state).record = record(
            state["task"],
            spec.attempt,
            trial_id=spec.trial_id,
            job=spec.job,
            job_id=spec.job_id,
            task=TaskRef(id=state["task"], name=state["task"], digest=self.digest * 64),
            **({"failure": broken_machine()} if failed else {"evaluation": evaluation(0.5)}),
        )
        if failed:
            self.broken[spec.trial_id] -= 1
            raise vf.SandboxError("no space left")


def test_every_rollout_is_a_stored_trial(tmp_path):
    env = Trials()
    results = env.evaluate_sync(counting, "m", rollouts_per_example=2, save_to=tmp_path / "job")
    store = JobStore.open(tmp_path / "job")
    assert sorted(store.finished()) == ["add.noop.1", "add.noop.2", "sort.noop.1", "sort.noop.2"]
    assert store.record("sort.noop.2").job == "job"
    assert (store.trial_folder("sort.noop.2") / "agent.txt").read_text() == "0"
    assert results["outputs"][0]["evaluation"] == evaluation(0.5)
    assert store.record("add.noop.1").evaluation == evaluation(0.5)


def test_seatrial_show_works_on_it(tmp_path, capsys):
    Trials().evaluate_sync(counting, "m", save_to=tmp_path / "job")
    assert run(["show", str(tmp_path / "job")]) == 0
    shown = capsys.readouterr().out
    assert "add" in shown
    assert "sort" in shown


def test_finished_trials_are_not_run_again_and_their_outputs_are_whole(tmp_path):
    env = Trials()
    first = env.evaluate_sync(counting, "m", save_to=tmp_path / "job")
    again = env.evaluate_sync(counting, "m", save_to=tmp_path / "job", resume=True)
    assert len(env.ran) == 2
    assert again["metadata"]["avg_reward"] == first["metadata"]["avg_reward"]
    assert again["outputs"][0]["evaluation"] == evaluation(0.5)
    assert again["outputs"][1]["completion"] == first["outputs"][1]["completion"]


def test_trials_that_the_machinery_failed_are_run_again(tmp_path):
    first = Trials(broken=["add.noop.1"]).evaluate_sync(counting, "m", save_to=tmp_path / "job", retries=0)
    assert (first["metadata"]["scored"], first["metadata"]["errors_by_kind"]) == (1, {"infrastructure": 1})
    env = Trials()
    again = env.evaluate_sync(counting, "m", save_to=tmp_path / "job", resume=True)
    assert (env.ran, again["metadata"]["scored"]) == (["add.noop.1"], 2)
    assert JobStore.open(tmp_path / "job").record("add.noop.1").tries == 2


def test_more_rollouts_add_to_the_job(tmp_path):
    env = Trials()
    env.evaluate_sync(counting, "m", num_examples=1, save_to=tmp_path / "job")
    env.evaluate_sync(counting, "m", rollouts_per_example=2, save_to=tmp_path / "job", resume=True)
    store = JobStore.open(tmp_path / "job")
    assert (len(env.ran), len(store.finished())) == (4, 4)
    assert (store.file.spec.attempts, [task.id for task in store.file.tasks]) == (2, ["add", "sort"])
    env.evaluate_sync(counting, "m", num_examples=1, save_to=tmp_path / "job", resume=True)
    assert len(env.ran) == 4


def test_a_task_that_has_changed_is_not_mixed_with_what_it_was(tmp_path):
    Trials().evaluate_sync(counting, "m", save_to=tmp_path / "job")
    with pytest.raises(vf.JobError, match="task add: its files have changed"):
        Trials(digest="b").evaluate_sync(counting, "m", save_to=tmp_path / "job", resume=True)


def test_a_new_evaluation_needs_a_new_folder(tmp_path):
    Trials().evaluate_sync(counting, "m", save_to=tmp_path / "job")
    with pytest.raises(vf.JobError, match="holds a job already"):
        Trials().evaluate_sync(counting, "m", save_to=tmp_path / "job")


def test_a_rollout_that_failed_before_it_had_a_sandbox_is_recorded_as_a_job_would(tmp_path):
    class Unlucky(Trials):
        async def setup_state(self, state):
            raise OSError("no luck")

        async def post_rollout(self, state):
            pass

    results = Unlucky().evaluate_sync(counting, "m", save_to=tmp_path / "job")
    assert results["metadata"]["errors"] == 2
    store = JobStore.open(tmp_path / "job")
    failure = store.record("add.noop.1").failure
    assert failure is not None
    assert (failure.cause, failure.message) == ("HookError", "setup_state failed: OSError: no luck")
    assert store.tries() == {}
    assert list((tmp_path / "job/.drafts").iterdir()) == []


@pytest.mark.parametrize("name", ["rollout.json", "record.json"])
def test_a_damaged_rollout_is_named_kept_and_made_again(tmp_path, caplog, name):
    Trials().evaluate_sync(counting, "m", save_to=tmp_path / "job")
    (tmp_path / "job/trials/add.noop.1" / name).write_text("{")
    env = Trials()
    results = env.evaluate_sync(counting, "m", save_to=tmp_path / "job", resume=True)
    assert (env.ran, results["metadata"]["errors"]) == (["add.noop.1"], 0)
    assert "add.noop.1" in caplog.text
    assert (tmp_path / "job/damaged/add.noop.1.1" / name).read_text() == "{"
    assert len(JobStore.open(tmp_path / "job").finished()) == 2


def test_the_advice_for_a_folder_that_is_taken_works(tmp_path):
    Trials().evaluate_sync(counting, "m", save_to=tmp_path / "job")
    with pytest.raises(vf.JobError, match="`resume=True` beside `save_to`"):
        Trials().evaluate_sync(counting, "m", save_to=tmp_path / "job")
    env = Trials()
    env.evaluate_sync(counting, "m", save_to=tmp_path / "job", resume=True)
    assert env.ran == []


def test_the_folder_of_a_job_is_none_for_rollouts(tmp_path):
    JobStore.create(tmp_path / "job", job_file())
    with pytest.raises(vf.JobError, match="holds a job of `seatrial run`"):
        Trials().evaluate_sync(counting, "m", save_to=tmp_path / "job", resume=True)


def test_what_may_pass_is_tried_again_every_try_is_kept_and_the_last_one_counts(tmp_path, caplog, no_pauses):
    env = Trials(broken=["add.noop.1"], times=2)
    results = env.evaluate_sync(counting, "m", save_to=tmp_path / "job")
    assert (results["metadata"]["scored"], results["metadata"]["errors"]) == (2, 0)
    assert Counter(env.ran) == {"add.noop.1": 3, "sort.noop.1": 1}
    store = JobStore.open(tmp_path / "job")
    assert (store.record("add.noop.1").tries, store.record("sort.noop.1").tries) == (3, 1)
    kept = sorted(path.name for path in (tmp_path / "job/tries").iterdir())
    assert kept == ["add.noop.1.1", "add.noop.1.2"]
    assert json.loads((tmp_path / "job/tries/add.noop.1.2/rollout.json").read_bytes())["error"]["retryable"]
    assert "add.noop.1 is tried again after try 1" in caplog.text


def test_what_never_passes_is_tried_as_often_as_the_job_says(tmp_path, no_pauses):
    env = Trials(broken=["add.noop.1"], dataset=ROWS[:1])
    results = env.evaluate_sync(counting, "m", save_to=tmp_path / "job", retries=3)
    assert (len(env.ran), results["outputs"][0]["error"]["kind"]) == (4, "infrastructure")
    assert JobStore.open(tmp_path / "job").file.spec.run.retries == 3
    again = Trials(dataset=ROWS[:1])
    again.evaluate_sync(counting, "m", save_to=tmp_path / "job", resume=True)
    assert JobStore.open(tmp_path / "job").record("add.noop.1").tries == 5


def test_two_tasks_of_one_name_are_refused_before_anything_starts(tmp_path):
    class Confused(Trials):
        def trial_spec(self, row, model):
            return super().trial_spec({"task": row["info"]["which"]}, model)

    rows = [{"question": "Guess.", "task": "one", "info": {"which": name}} for name in ("add", "sort")]
    with pytest.raises(vf.UsageError, match="rows call two tasks 'one'"):
        Confused(dataset=rows).evaluate_sync(counting, "m", save_to=tmp_path / "job")
    assert not (tmp_path / "job").exists()


class Unlucky(vf.HarborEnv):
    """Sandboxes fail after the agent, so often."""

    failures = 2
    seen = 0
    error: type[vf.TrialError] = SandboxError

    async def compute_reward(self, state):
        self.seen += 1
        if self.seen <= self.failures:
            raise self.error("the machine is on fire")
        return await super().compute_reward(state)


def seen(env: Any) -> int:
    """How often it came to a verdict."""
    return int(env.seen)


class Hopeless(Unlucky):
    failures = 99


class Buggy(Unlucky):
    error = vf.HookError


def test_a_failure_that_passes_leaves_a_reward_and_no_sandbox(tmp_path):
    backend = world()
    env = harbor_env(make_tasks(tmp_path), Unlucky, backend=backend)
    output = only(evaluate(env, retries=2))
    assert (output["reward"], output["error"], seen(env)) == (1.0, None, 3)
    assert [sandbox.destroyed for sandbox in backend.sandboxes] == [True] * 3
    assert record_of(output).outcome == "pass"


def test_two_more_tries_are_what_jobs_have_too(tmp_path):
    env = harbor_env(make_tasks(tmp_path), Hopeless)
    output = only(env.evaluate_sync(echo, "gpt-4"))
    assert (output["reward"], output["error"]["kind"], seen(env)) == (None, "infrastructure", 3)
    assert vf.RunOptions().retries == 2


@pytest.mark.parametrize("kind", [Buggy, Unlucky])
def test_only_what_may_pass_is_tried_again(tmp_path, kind):
    env = harbor_env(make_tasks(tmp_path), kind)
    output = only(evaluate(env, retries=5))
    assert seen(env) == (1 if kind is Buggy else 3)
    assert (output["error"] is None) == (kind is Unlucky)


def test_fewer_retries_than_none_are_refused(tmp_path):
    with pytest.raises(vf.UsageError, match="retries is -1"):
        evaluate(harbor_env(make_tasks(tmp_path)), retries=-1)


def test_a_rollout_that_a_full_machine_spoiled_is_tried_again_and_at_last_alone(tmp_path):
    companies = []

    class Watched(vf.HarborEnv):
        async def post_rollout(self, state):
            companies.append(self._workplace(state).trial.spec.company)
            await super().post_rollout(state)

    gauge = FakeGauge()

    async def agent(_, __):
        gauge.found = shortage(passed=True)

    backend = world(agent, {REWARD_TXT: b"0"}, capabilities=replace(ALL_POWERFUL, state_folders=(tmp_path,)))
    env = harbor_env(make_tasks(tmp_path / "tasks"), Watched, backend=backend)

    async def run():
        on_watch(gauge)
        return await env.evaluate(echo, "gpt-4")

    output = only(asyncio.run(asyncio.wait_for(run(), 30)))
    assert output["error"]["error"] == HostExhaustedError.__name__
    assert companies == ["others", "others", "none"]


def test_rollouts_wait_for_the_memory_that_their_tasks_declare(tmp_path):
    env = harbor_env(make_tasks(tmp_path, toml="[environment]\nmemory_mb = 600\n"))
    spec = env.trial_spec(env.get_dataset()[0], "m")
    places = LocalPlaces(Rollouts(env, RowPlan(echo, "m", {})).run, 2, 1000)

    async def scenario():
        async with places.place(spec, frozenset()):
            second = asyncio.ensure_future(places.place(spec, frozenset()).__aenter__())
            await asyncio.sleep(0)
            waited = not second.done()
        await second
        return waited

    assert asyncio.run(scenario())


def test_what_the_environment_says_of_memory_goes_before_what_the_task_says(tmp_path):
    env = harbor_env(make_tasks(tmp_path, toml="[environment]\nmemory_mb = 600\n"), memory_gb=2)
    assert memory_of(env.trial_spec(env.get_dataset()[0], "m").task, env.trial_options) == 2048


def test_without_room_for_long_a_rollout_is_an_error_and_its_siblings_go_on(tmp_path, monkeypatch):
    monkeypatch.setattr(trials, "USUAL_WAIT_SEC", 0.01)
    gauge = FakeGauge(shortage())

    async def run():
        on_watch(gauge)
        env = harbor_env(make_tasks(tmp_path, "a", "b"))
        with host_watch().guarding(tmp_path):
            return await env.evaluate(echo, "gpt-4")

    results = asyncio.run(asyncio.wait_for(run(), 30))
    assert [output["error"]["error"] for output in results["outputs"]] == ["HostExhaustedError"] * 2
