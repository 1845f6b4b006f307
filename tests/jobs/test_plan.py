"""Which trials there are, in which order, and ids that are safe names whatever strangers call their tasks."""

import re

from hypothesis import given
from hypothesis import strategies as st

from seatrial.jobs.plan import count_left_out, plan_trials
from seatrial.model.base import trial_id
from seatrial.model.job import AgentOptions, LeftOut

names = st.text(max_size=300) | st.text("ab./-_", max_size=12)
AGENTS = (AgentOptions(name="noop"), AgentOptions(name="noop", label="other"))


def test_plain_names_are_kept():
    assert trial_id("add-2.0", "oracle", 3) == "add-2.0.oracle.3"


def test_odd_names_are_made_plain_and_kept_apart():
    first, second = trial_id("group/add", "my agent", 1), trial_id("group-add", "my agent", 1)
    assert re.fullmatch(r"group-add\.my-agent\.1\.h[0-9a-f]{12}", first)
    assert first != second


def test_a_dot_in_the_agent_does_not_blur_where_the_task_ends():
    assert trial_id("a.b", "c", 1) != trial_id("a", "b.c", 1)


@given(names, names, st.integers(1, 10**12))
def test_ids_are_safe_names(task, agent, attempt):
    name = trial_id(task, agent, attempt)
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", name)
    assert len(name.encode()) <= 200


@given(st.lists(st.tuples(names, names, st.integers(1, 20)), unique=True, max_size=30))
def test_different_trials_have_different_ids(trials):
    assert len({trial_id(*trial) for trial in trials}) == len(trials)


@given(names, names)
def test_no_task_can_be_named_to_take_the_place_of_another(task, agent):
    name = trial_id(task, agent, 1)
    for forged in (name, name.rpartition(".")[0], name.rsplit(".", 2)[0]):
        assert (forged, "noop") == (task, agent) or trial_id(forged, "noop", 1) != name


def test_all_first_attempts_come_first():
    plans = plan_trials(["add", "sort"], AGENTS, 2)
    assert [(plan.attempt, plan.task_id, plan.agent.title) for plan in plans] == [
        (attempt, task, agent) for attempt in (1, 2) for task in ("add", "sort") for agent in ("noop", "other")
    ]
    assert all(plan.trial_id == trial_id(plan.task_id, plan.agent.title, plan.attempt) for plan in plans)


def test_a_seed_gives_the_same_shuffle_each_time():
    tasks = [f"task-{number}" for number in range(30)]
    straight, shuffled = plan_trials(tasks, AGENTS, 1), plan_trials(tasks, AGENTS, 1, 7)
    assert shuffled != straight
    assert shuffled == plan_trials(tasks, AGENTS, 1, 7) != plan_trials(tasks, AGENTS, 1, 8)
    assert {plan.trial_id for plan in shuffled} == {plan.trial_id for plan in straight}


def test_pairs_that_are_left_out_have_no_trials():
    plans = plan_trials(["a", "b"], AGENTS, 2, without={("a", "other")})
    assert [plan.trial_id for plan in plans] == [
        *("a.noop.1", "b.noop.1", "b.other.1"),
        *("a.noop.2", "b.noop.2", "b.other.2"),
    ]


def test_what_is_left_out_is_counted_by_agent_and_reason():
    entries = [LeftOut(kind="declined", task=f"t{n}", agent="oracle", reason="no solution") for n in range(1234)]
    entries += [LeftOut(kind="refused", task="g", reason="no sandbox here has GPUs")]
    entries += [LeftOut(kind="unreadable", task="b", reason="cannot be read as a task")]
    assert list(map(str, count_left_out(entries))) == [
        "1,234 tasks left out for oracle: no solution (t0, t1, t2, …)",
        "1 task refused: no sandbox here has GPUs (g)",
        "1 task left out: cannot be read as a task (b)",
    ]
