"""Summaries: only judged trials are in a mean, and every denominator is there."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.analysis.figures import OUTCOMES, SCORED, UsageTotal
from seatrial.analysis.summary import planned_trials, summarise, summarise_job, summary_json
from seatrial.model.job import AgentOptions, LeftOut
from seatrial.model.outcome import Outcome
from seatrial.store.index import TrialEntry
from tests.jobs.samples import NOOP, job_file


def make_trial(
    agent: str, outcome: Outcome, reward: float | None, *used: Any, task_id: str = "t", **more: Any
) -> TrialEntry:
    named = dict(zip(("model_calls", "input_tokens", "output_tokens", "cost_usd"), used, strict=False))
    entry = TrialEntry("t.a.1", task_id, agent, 1, outcome, reward, 1, None, None, None)
    return entry._replace(**named, **more)


def trials(agent="a", **rewards):
    return [make_trial(agent, outcome, reward) for outcome in OUTCOMES for reward in rewards.get(outcome, [])]


def test_a_mean_is_over_scored_trials_only():
    entries = trials(
        **{"pass": [1.0], "partial": [0.5], "fail": [0.0], "no_output": [0.0], "invalid_output": [0.0]},
        verifier_error=[0.0, 0.0],
        infrastructure_error=[None],
        cancelled=[None],
    )
    tally = summarise(entries, {"a": 12}).total
    assert tally.mean == pytest.approx(0.3)
    assert tally.interval == (0.0, 1.0), "five trials of one task say nothing about others"
    assert tally.trial_mean == pytest.approx(0.3)
    assert tally.mean_if_failed == pytest.approx(1.5 / 9)
    assert tally.pass_rate == pytest.approx(0.2)
    assert (tally.planned, tally.finished, tally.scored) == (12, 9, 5)
    assert (tally.invalid, tally.infrastructure, tally.open) == (2, 1, 3)


@pytest.mark.parametrize("entries", [[], trials(infrastructure_error=[None]), trials(verifier_error=[0.0])])
def test_without_scored_trials_there_is_no_mean(entries):
    tally = summarise(entries, {"a": 1}).agents["a"]
    assert (tally.mean, tally.interval, tally.pass_rate) == (None, None, None)


def test_agents_are_apart_and_in_the_order_of_the_plan():
    entries = [*trials("z", fail=[0.0]), *trials("b", **{"pass": [1.0]}), *trials("stray", fail=[0.0])]
    summary = summarise(entries, {"z": 1, "b": 1, "idle": 1})
    assert list(summary.agents) == ["z", "b", "idle", "stray"]
    assert [tally.mean for tally in summary.agents.values()] == [0.0, 1.0, None, 0.0]
    assert summary.agents["stray"].planned == 0
    assert summary.total.scored == 3


def test_as_json_everything_is_there():
    document = json.loads(json.dumps(summary_json(summarise(trials(**{"pass": [1.0]}), {"a": 2}))))
    assert document["agents"] == {"a": document["total"]}
    assert document["total"] == {
        "planned": 2,
        "finished": 1,
        "scored": 1,
        "invalid": 0,
        "infrastructure": 0,
        "open": 1,
        "outcomes": {"pass": 1},
        "mean": 1.0,
        "interval": [0.0, 1.0],
        "level": 0.95,
        "tasks": 1,
        "effective": 1.0,
        "trial_mean": 1.0,
        "mean_if_failed": 1.0,
        "pass_rate": 1.0,
        "pass_interval": [0.0, 1.0],
        "usage": None,
        "disputed": 0,
        "believed_mean": None,
        "curated": 0,
        "warnings": {},
        "unheld": {},
        "regraded": 0,
        "first_mean": None,
        "verifier_usage": None,
    }


def test_trials_that_were_judged_again_count_by_their_newest_verdict_beside_the_mean_they_had():
    entries = [
        make_trial("a", "pass", 1.0, revision=2, first_outcome="fail", first_reward=0.0),
        make_trial("a", "fail", 0.0),
        make_trial("a", "pass", 1.0, revision=1, first_outcome="infrastructure_error"),
    ]
    tally = summarise(entries, {"a": 3}).total
    assert tally.mean == pytest.approx(2 / 3)
    assert (tally.regraded, tally.first_mean) == (2, 0.0)


def test_what_a_broken_verifier_said_is_in_no_mean_before_it_was_repaired():
    entries = [
        make_trial("a", "pass", 1.0, task_id="x", revision=1, first_outcome="verifier_error", first_broken=True),
        make_trial("a", "pass", 1.0, task_id="x"),
        make_trial("a", "partial", 0.5, task_id="y"),
    ]
    tally = summarise(entries, {"a": 3}).total
    assert (tally.scored, tally.first_mean) == (3, 0.5)


def test_a_verifier_without_a_verdict_has_none_for_anybody():
    """Neither for those it was silent about nor for those it was content with: the mean would be one-sided."""
    entries = [
        make_trial("a", "pass", 1.0, task_id="x"),
        make_trial("a", "verifier_error", 0.0, task_id="x", broken=True),
        make_trial("b", "pass", 1.0, task_id="x"),
        make_trial("a", "infrastructure_error", None, task_id="x"),
        make_trial("a", "fail", 0.0, task_id="y"),
    ]
    summary = summarise(entries, {"a": 4, "b": 1})
    assert (summary.agents["a"].mean, summary.agents["a"].scored, summary.agents["a"].invalid) == (0.0, 1, 2)
    assert summary.agents["a"].infrastructure == 1
    assert (summary.agents["b"].mean, summary.agents["b"].invalid) == (None, 1)
    assert summary.broken_tasks == ("x",)


def test_disputed_verdicts_have_a_mean_of_their_own_and_change_no_other():
    entries = [
        make_trial("a", "fail", 0.0, disputed_reward=1.0, put_back=3),
        make_trial("a", "pass", 1.0, put_back=1),
        make_trial("a", "fail", 0.0),
        make_trial("a", "verifier_error", 0.0, disputed_reward=1.0),
    ]
    tally = summarise(entries, {"a": 4}).total
    assert tally.mean == pytest.approx(1 / 3)
    assert (tally.disputed, tally.curated) == (1, 2)
    assert tally.believed_mean == pytest.approx(2 / 3)


def test_trials_are_counted_by_what_they_are_warned_of_and_scored_all_the_same():
    entries = [
        make_trial("a", "fail", 0.0, warnings=("no_model_call",)),
        make_trial("a", "pass", 1.0, warnings=("no_model_call",)),
        make_trial("b", "fail", 0.0, warnings=("agent_not_started",)),
    ]
    summary = summarise(entries, {"a": 2, "b": 1})
    assert summary.agents["a"].mean == 0.5
    assert summary_json(summary)["agents"]["a"]["warnings"] == {"no_model_call": 2}
    assert summary.total.warnings == {"no_model_call": 2, "agent_not_started": 1}


def test_what_models_used_is_summed_over_judged_and_failed_trials():
    entries = [
        make_trial("a", "pass", 1.0, 2, 100, 10, 0.25),
        make_trial("a", "infrastructure_error", None, 1, 50, 5, 0.5),
        make_trial("b", "fail", 0.0),
    ]
    summary = summarise(entries, {"a": 2, "b": 1})
    assert summary.agents["a"].usage == UsageTotal(2, 3, 150, 15, 0.75)
    assert summary.agents["b"].usage is None
    assert summary.total.usage == summary.agents["a"].usage
    assert summary_json(summary)["total"]["usage"]["cost_usd"] == 0.75


@pytest.mark.parametrize(
    ("calls", "cost"), [(1, None), (0, 0.25)], ids=["a call without a price", "no call, so nothing to pay"]
)
def test_a_sum_of_money_is_known_only_if_all_of_it_is(calls, cost):
    entries = [make_trial("a", "pass", 1.0, 2, 100, 10, 0.25), make_trial("a", "fail", 0.0, calls, 0, 0, None)]
    usage = summarise(entries, {"a": 2}).total.usage
    assert usage is not None
    assert usage.cost_usd == cost


@given(st.lists(st.builds(make_trial, st.sampled_from("ab"), st.sampled_from(OUTCOMES), st.floats(0.0, 1.0))))
def test_unscored_trials_change_no_mean(entries):
    summary = summarise(entries, {"a": 5, "b": 5})
    judged = summarise([entry for entry in entries if entry.outcome in SCORED], {"a": 5, "b": 5})
    for name, tally in summary.agents.items():
        assert tally.mean == judged.agents[name].mean
        assert tally.interval == judged.agents[name].interval
    assert summary.total.finished == len(entries) == sum(tally.finished for tally in summary.agents.values())


def test_what_is_left_out_is_not_planned_and_is_counted():
    file = job_file(("a", "b", "c"), agents=(NOOP, AgentOptions(name="oracle")), attempts=2)
    left_out = (
        LeftOut(kind="declined", task="a", agent="oracle", reason="no solution"),
        LeftOut(kind="refused", task="d", reason="no sandbox here has GPUs"),
    )
    file = file.model_copy(update={"left_out": left_out})
    assert planned_trials(file) == {"noop": 6, "oracle": 4}
    summary = summarise_job([], file)
    assert (summary.total.planned, summary.total.open) == (10, 10)
    assert summary_json(summary)["left_out"] == [
        {"kind": "declined", "agent": "oracle", "reason": "no solution", "tasks": 1, "examples": ("a",)},
        {"kind": "refused", "agent": None, "reason": "no sandbox here has GPUs", "tasks": 1, "examples": ("d",)},
    ]


def test_tasks_whose_own_solution_needs_its_system_are_named():
    trials = [
        make_trial("x", "pass", 1.0, task_id=task, warnings=("needs_system_of_agent",)) for task in ("b", "a", "b")
    ]
    summary = summarise([*trials, make_trial("x", "pass", 1.0, task_id="c")], {})
    assert summary.system_tasks == ("a", "b")
    assert summary_json(summary)["system_tasks"] == ["a", "b"]
