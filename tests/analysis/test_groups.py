"""Trials in groups: each trial in the groups it belongs to, with every denominator."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.analysis.arms import arms_of
from seatrial.analysis.groups import GROUP_KEYS, Group, group_trials, sort_figures
from seatrial.model.job import AgentOptions, TaskLabels
from tests.analysis.memory_jobs import memory_job, trial

LABELS = {
    "add": TaskLabels(category="maths", difficulty="easy", tags=("fast", "old", "fast")),
    "sort": TaskLabels(category="data", difficulty="easy", tags=("fast",)),
    "prove": TaskLabels(category="maths", family="proofs"),
}


def two_agents():
    return memory_job(
        [
            trial("add", "good", 1.0, cost_usd=0.5, model_calls=1),
            trial("sort", "good", 0.0, cost_usd=0.25, model_calls=1),
            trial("prove", "good", None),
            trial("add", "weak", 0.5, duration_sec=8.0),
        ],
        labels=LABELS,
        agents=[AgentOptions(name="good", model="m/one"), AgentOptions(name="weak")],
    )


def shown(groups: list[Group]):
    return {(g.name, g.arm): (g.tasks, g.figures.tally.scored, g.figures.tally.planned) for g in groups}


def test_tasks_are_grouped_by_what_they_say_of_themselves_for_each_arm():
    arms = arms_of([two_agents()])
    assert shown(group_trials(arms, "category")) == {
        ("data", "good"): (1, 1, 1),
        ("data", "weak"): (1, 0, 1),
        ("maths", "good"): (2, 1, 2),
        ("maths", "weak"): (2, 1, 2),
    }
    assert [group.name for group in group_trials(arms, "difficulty")] == ["easy", "easy", None, None]
    assert {group.name for group in group_trials(arms, "family")} == {"proofs", None}


def test_a_task_with_several_tags_counts_in_each_and_once_in_each():
    found = shown(group_trials(arms_of([two_agents()]), "tag"))
    assert found["fast", "good"] == (2, 2, 2)
    assert found["old", "good"] == (1, 1, 1)
    assert found[None, "good"] == (1, 0, 1)


def test_the_mean_of_a_group_is_over_its_tasks():
    repeated = memory_job([trial("add", "x", 1.0, n) for n in range(1, 4)] + [trial("sort", "x", 0.0)], labels=LABELS)
    (easy,) = group_trials(arms_of([repeated]), "difficulty")
    assert easy.figures.mean is not None
    assert (easy.figures.mean.value, easy.figures.mean.groups, easy.figures.mean.values) == (0.5, 2, 4)


def test_agents_models_and_jobs_are_across_arms():
    first, second = two_agents(), memory_job([trial("add", "good", 0.0)], name="other")
    arms = arms_of([first, second])
    agents = {group.name: group for group in group_trials(arms, "agent")}
    assert agents["good"].arm is None
    assert agents["good"].figures.mean is not None
    assert agents["good"].figures.mean.value == 0.25, "add is 0.5 over both jobs, sort is 0"
    assert {group.name for group in group_trials(arms, "model")} == {"m/one", None}
    assert shown(group_trials(arms, "job")) == {("nightly", None): (3, 3, 6), ("other", None): (1, 1, 1)}


def test_outcomes_are_of_what_has_a_record():
    found = group_trials(arms_of([two_agents()]), "outcome")
    assert [(g.name, g.arm, g.figures.tally.finished) for g in found] == [
        ("fail", "good", 1),
        ("infrastructure_error", "good", 1),
        ("partial", "weak", 1),
        ("pass", "good", 1),
    ]


def test_of_a_filtered_job_only_what_fits_is_planned():
    arms = arms_of([two_agents().where("outcome=pass")])
    assert shown(group_trials(arms, "category")) == {("maths", "good"): (1, 1, 1)}


def test_of_chosen_tasks_those_without_a_trial_stay_planned():
    arms = arms_of([two_agents().where("category=maths")])
    assert shown(group_trials(arms, "task"))["prove", "weak"] == (1, 0, 1)
    assert {name for name, _ in shown(group_trials(arms, "task"))} == {"add", "prove"}


@pytest.mark.parametrize("key", GROUP_KEYS)
def test_nothing_has_no_groups(key):
    assert group_trials([], key) == []


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xy"), st.sampled_from([0.0, 0.5, 1.0, None]))))
def test_no_trial_is_lost_or_counted_twice(drawn):
    trials = [trial(task, agent, reward, number) for number, (task, agent, reward) in enumerate(drawn)]
    arms = arms_of([memory_job(trials)])
    for key in ("task", "agent", "job", "category", "outcome"):
        found = [each.trial_id for group in group_trials(arms, key) for each in group.pool.trials]
        assert sorted(found) == sorted(each.trial_id for each in trials)


@pytest.mark.parametrize(
    ("key", "order"),
    [("name", ["good", "weak"]), ("time", ["weak", "good"]), ("cost", ["good", "weak"]), ("scored", ["good", "weak"])],
)
def test_numbers_are_sorted_from_the_largest_and_what_has_none_comes_last(key, order):
    rows = [(group.name or "", group.figures) for group in group_trials(arms_of([two_agents()]), "agent")]
    assert [rows[at][0] for at in sort_figures(rows, key)] == order
    other = [rows[at][0] for at in sort_figures(rows, key, reverse=True)]
    assert other == (order if key == "cost" else order[::-1]), "weak has no cost at all"
