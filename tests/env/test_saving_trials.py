"""Rollouts that are trials: in a job's folder, where `seatrial show` and `resume` find them."""

import pytest

import seatrial as vf
from seatrial.cli.main import run
from seatrial.env.state import rollout_of
from seatrial.model.record import TaskRef
from seatrial.store.job_store import JobStore
from tests.env.games import Guessing, counting
from tests.jobs.samples import broken_machine, evaluation, job_file, record

ROWS = [{"question": "Guess.", "task": task, "info": {"number": 0}} for task in ("add", "sort")]


class Trials(Guessing):
    """Plays trials in memory: each leaves a file and a record; those in `broken` fail by infrastructure."""

    def __init__(self, broken=(), digest="a", **kwargs):
        super().__init__(dataset=ROWS, max_turns=1, **kwargs)
        self.broken = set(broken)
        self.digest = digest
        self.ran: list[str] = []

    def job_file(self, plan, name):
        tasks = sorted({row["task"] for row in plan.rows})
        file = job_file(tasks, name=name, attempts=len(plan.rows) // len(tasks))
        locked = tuple(task.model_copy(update={"digest": self.digest * 64}) for task in file.tasks)
        return file.model_copy(update={"tasks": locked, "driver": "environment", "id": "this one"})

    async def post_rollout(self, state):
        place = rollout_of(state).place
        assert place is not None
        self.ran.append(place.trial_id)
        (place.folder / "agent.txt").write_text(state["completion"][0]["content"])
        failed = place.trial_id in self.broken
        rollout_of(state).record = record(
            state["task"],
            place.attempt,
            trial_id=place.trial_id,
            job=place.job,
            job_id=place.job_id,
            task=TaskRef(id=state["task"], name=state["task"], digest=self.digest * 64),
            **({"failure": broken_machine()} if failed else {"evaluation": evaluation(0.5)}),
        )
        if failed:
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
    first = Trials(broken=["add.noop.1"]).evaluate_sync(counting, "m", save_to=tmp_path / "job")
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


def test_a_rollout_that_never_became_a_trial_leaves_nothing(tmp_path):
    class Unlucky(Trials):
        async def setup_state(self, state):
            raise OSError("no luck")

        async def post_rollout(self, state):
            pass

    results = Unlucky().evaluate_sync(counting, "m", save_to=tmp_path / "job")
    assert results["metadata"]["errors"] == 2
    assert JobStore.open(tmp_path / "job").finished() == set()
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
