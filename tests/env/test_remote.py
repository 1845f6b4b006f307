"""Rollouts on other machines: the environment is sent there once, and what comes back is as if it had run here."""

import pickle
import shutil
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import seatrial as vf
from seatrial.env import remote
from seatrial.env.loading import load_environment
from seatrial.env.remote import StandIn, modules_of
from seatrial.errors import SandboxError
from seatrial.jobs.local import LocalEngine
from seatrial.model.job import RunOptions
from seatrial.tasks.load import load_task
from tests.env.games import ROWS, Guessing
from tests.env.worlds import ask, echo, evaluate, make_tasks, only, world

pytestmark = pytest.mark.usefixtures("no_pauses")


@dataclass
class Cluster:
    """An engine with two machines in this process. What it is sent is pickled; tasks lie in other folders there.

    The first `failures` tries are lost with their machine.
    """

    folder: Path
    failures: int = 0
    slots: int = 2
    asked: list[frozenset[str]] = field(default_factory=list)

    @asynccontextmanager
    async def open_places(self, trials, options, tell):
        self.sent: Any = pickle.loads(pickle.dumps(trials))  # noqa: S301 - our own
        async with self.sent.open():
            yield self

    @asynccontextmanager
    async def place(self, spec, avoid):
        self.asked.append(avoid)
        yield Node(self, "second" if "first" in avoid else "first")


@dataclass
class Node:
    """One of its machines."""

    cluster: Cluster
    node: str

    async def run(self, spec, folder, observe):
        if len(self.cluster.asked) <= self.cluster.failures:
            raise SandboxError(f"node {self.node} was lost")
        here = self.cluster.folder / spec.trial_id
        shutil.copytree(spec.task.root, here / "task")
        moved = load_task(here / "task").model_copy(update={"id": spec.task.id, "config": spec.task.config})
        (here / "left").mkdir()
        record = await self.cluster.sent.run(replace(spec, task=moved), here / "left", observe)
        shutil.copytree(here / "left", folder, dirs_exist_ok=True)
        return record


async def agent(spec, sandbox):
    await ask(spec, "hello")


@pytest.fixture
def cluster(monkeypatch, tmp_path):
    """`cluster(failures=1)`: the engine that evaluations find, with backends in memory."""
    backends = []

    def make_backend(name):
        backends.append(name)
        return world(agent)

    monkeypatch.setattr("seatrial.jobs.machinery.make_backend", make_backend)

    def make(**options):
        engine = Cluster(tmp_path / "nodes", **options)
        monkeypatch.setattr(remote, "make_engine", lambda _: engine)
        return engine, backends

    return make


def rollouts(tmp_path, *names, **options):
    env = vf.HarborEnv("run the agent", make_tasks(tmp_path / "tasks", *names), image="host")
    return evaluate(env, engine="ray", **options)


def test_outputs_come_back_as_if_the_rollouts_had_run_here(tmp_path, cluster):
    _, backends = cluster()
    results = rollouts(tmp_path, "a", "b", state_columns=["harbor_task_dir"])
    assert [output["reward"] for output in results["outputs"]] == [1.0, 1.0]
    first = results["outputs"][0]
    assert first["completion"] == [{"role": "assistant", "content": "you said hello"}]
    assert first["info"]["task_dir"] == str(tmp_path / "tasks/a")
    assert str(tmp_path / "nodes") in first["harbor_task_dir"]
    assert backends == ["embedded"]


def test_the_engine_knows_the_image_of_tasks_that_name_none(tmp_path, cluster):
    engine, _ = cluster()
    env = vf.HarborEnv("run", make_tasks(tmp_path / "tasks", "a"), image="host", docker_image="team/base:1")
    evaluate(env, engine="ray")
    assert engine.sent.images == ("team/base:1",)


def test_their_trials_are_stored_here_with_their_files_and_the_machine(tmp_path, cluster):
    cluster()
    rollouts(tmp_path, "a", save_to=tmp_path / "job")
    store = vf.JobStore.open(tmp_path / "job")
    assert store.record("a.command.1").node == "first"
    assert (store.trial_folder("a.command.1") / "calls.jsonl").exists()
    again = rollouts(tmp_path, "a", save_to=tmp_path / "job", resume=True)
    assert only(again)["completion"] == [{"role": "assistant", "content": "you said hello"}]


def test_a_rollout_that_was_lost_with_its_machine_runs_elsewhere(tmp_path, cluster):
    engine, _ = cluster(failures=1)
    output = only(rollouts(tmp_path, "a", save_to=tmp_path / "job", retries=1))
    assert output["reward"] == 1.0
    record = vf.JobStore.open(tmp_path / "job").record("a.command.1")
    assert (record.tries, record.node) == (2, "second")
    assert engine.asked == [frozenset(), frozenset({"first"})]


def test_one_that_is_lost_for_good_is_an_error_of_the_infrastructure(tmp_path, cluster):
    cluster(failures=9)
    error = only(rollouts(tmp_path, "a", retries=1))["error"]
    assert (error["kind"], error["retryable"]) == ("infrastructure", True)
    assert "was lost" in error["message"]


def test_without_any_machine_rollouts_are_errors_and_not_the_evaluation(tmp_path, cluster):
    engine, _ = cluster()

    @asynccontextmanager
    async def place(spec, avoid):
        raise SandboxError("there has been no node for 600 s")
        yield

    engine.place = place
    results = rollouts(tmp_path, "a", "b")
    assert [output["error"]["message"] for output in results["outputs"]] == ["there has been no node for 600 s"] * 2


def test_a_row_without_a_task_is_an_error_of_its_rollout_alone(tmp_path, cluster):
    cluster()
    env = vf.HarborEnv("run the agent", make_tasks(tmp_path / "tasks"), image="host")
    results = env.generate_sync([{"prompt": "x"}, *env.get_dataset()], echo, "m", engine="ray")
    assert [bool(output["error"]) for output in results["outputs"]] == [True, False]


def test_ids_of_trials_are_names_of_folders(tmp_path):
    env = vf.HarborEnv("true", make_tasks(tmp_path / "tasks"), image="host")
    spec = env.trial_spec({**env.get_dataset()[0], "task": "../org/name"}, "m")
    assert "/" not in spec.trial_id
    assert spec.task.id == "../org/name"


def test_what_cannot_be_sent_is_refused_before_anything_starts(tmp_path, cluster, monkeypatch):
    cluster()
    env = vf.HarborEnv("true", make_tasks(tmp_path / "tasks"), image="host")
    odd = [{**row, "picture": object()} for row in env.get_dataset()]
    with pytest.raises(vf.UsageError, match="row 0 cannot be sent"):
        env.generate_sync(odd, echo, "m", engine="ray", save_to=tmp_path / "job")
    with pytest.raises(vf.UsageError, match="rollouts that are trials"):
        Guessing(dataset=ROWS).evaluate_sync(echo, "m", engine="ray")
    with pytest.raises(vf.UsageError, match="name its engine"):
        env.evaluate_sync(echo, "m", address="auto")
    monkeypatch.setattr(remote, "make_engine", lambda _: LocalEngine(RunOptions()))
    with pytest.raises(vf.UsageError, match="runs jobs only"):
        env.evaluate_sync(echo, "m", engine="ray", save_to=tmp_path / "job")
    assert not (tmp_path / "job").exists()


def rank(states):
    return [float(place) for place, _ in enumerate(states)]


def test_sandboxes_kept_for_a_group_go_where_it_is_not_scored(tmp_path, cluster, monkeypatch):
    cluster()
    backend = world(agent)
    monkeypatch.setattr("seatrial.jobs.machinery.make_backend", lambda _: backend)
    options: dict[str, Any] = {"image": "host", "rubric": vf.Rubric([rank]), "keep_sandbox_for_scoring": True}
    env = vf.HarborEnv("run the agent", make_tasks(tmp_path / "tasks"), **options)
    kept: list[object] = []

    def look(*_):  # while the cluster is still there
        kept.extend(sandbox for sandbox in backend.sandboxes if not sandbox.destroyed)

    results = evaluate(env, engine="ray", rollouts_per_example=2, on_progress=look)
    assert [output["advantage"] for output in results["outputs"]] == [-0.5, 0.5]
    assert (len(backend.sandboxes), kept) == (2, [])


# Modules that go along.

MODULE = """
import seatrial as vf
from {beside} import PRIZE

class Own(vf.SingleTurnEnv):
    pass

def won():
    return PRIZE

def load_environment():
    return Own(dataset=[{{"question": "q"}}], rubric=vf.Rubric([won]))
"""


@pytest.fixture
def forgotten(monkeypatch):
    """Modules and folders that a test adds are gone afterwards."""
    known = set(sys.modules)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    for name in set(sys.modules) - known:
        if name.startswith("of_test_"):
            del sys.modules[name]


@pytest.mark.usefixtures("forgotten")
def test_the_module_of_an_environment_and_those_beside_it_go_along(tmp_path):
    (tmp_path / "of_test_beside.py").write_text("PRIZE = 1.0")
    (tmp_path / "of_test_sent.py").write_text(MODULE.format(beside="of_test_beside"))
    env = load_environment(str(tmp_path / "of_test_sent.py"))
    assert {module.__name__ for module in modules_of(env)} == {"of_test_sent", "of_test_beside"}


def test_what_is_installed_does_not():
    assert modules_of(vf.SingleTurnEnv(dataset=[{"question": "q"}])) == []


def test_where_verifiers_was_stood_in_for_it_is_there_too_before_anything_needs_it():
    sent = pickle.dumps((StandIn(), Late()))
    compat = import_module("seatrial.compat.verifiers")
    compat.uninstall()
    try:
        assert pickle.loads(sent)[1] == "Seatrial"  # noqa: S301 - our own
        assert vf.MultiTurnEnv.asks_once_more
    finally:
        compat.uninstall()
    assert not vf.MultiTurnEnv.asks_once_more


class Late:
    """Imports verifiers when it is unpickled, as a class of an environment does."""

    def __reduce__(self):
        return imported, ()


def imported():
    return "Seatrial" if "+seatrial" in import_module("verifiers").__version__ else "verifiers"


@pytest.mark.usefixtures("forgotten")
def test_a_folder_that_is_called_like_that_of_python_or_lies_in_it_goes_along(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(tmp_path))  # as /usr is, for environments in /usr/src
    (tmp_path / "of_test_near.py").write_text("PRIZE = 1.0")
    (tmp_path / "of_test_within.py").write_text(MODULE.format(beside="of_test_near"))
    env = load_environment(str(tmp_path / "of_test_within.py"))
    assert {module.__name__ for module in modules_of(env)} == {"of_test_within", "of_test_near"}
