"""Trials in groups: each trial in the groups it belongs to, with every denominator."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.analysis.arms import arms_of
from seatrial.analysis.groups import GROUP_KEYS, Group, HeatCell, group_trials, heat_map, on_front, sort_figures
from seatrial.model.job import AgentOptions, LeftOut, TaskLabels
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
    return {(g.name, g.arm): (g.tasks, g.figures.scored, g.figures.planned) for g in groups}


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
    assert easy.figures.estimate is not None
    assert (easy.figures.mean, easy.figures.estimate.groups, easy.figures.estimate.values) == (0.5, 2, 4)


def test_agents_models_and_jobs_are_across_arms():
    first, second = two_agents(), memory_job([trial("add", "good", 0.0)], name="other")
    arms = arms_of([first, second])
    agents = {group.name: group for group in group_trials(arms, "agent")}
    assert agents["good"].arm is None
    assert agents["good"].figures.mean == 0.25, "add is 0.5 over both jobs, sort is 0"
    assert {group.name for group in group_trials(arms, "model")} == {"m/one", None}
    assert shown(group_trials(arms, "job")) == {("nightly", None): (3, 3, 6), ("other", None): (1, 1, 1)}


def test_outcomes_are_of_what_has_a_record():
    found = group_trials(arms_of([two_agents()]), "outcome")
    assert [(g.name, g.arm, g.figures.finished) for g in found] == [
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
        found = [each.trial_id for group in group_trials(arms, key) for each in group.selected.entries]
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


def test_the_best_arm_and_the_easiest_task_come_first_and_what_was_never_judged_last():
    job = memory_job(
        [
            trial("hard", "weak", 0.0),
            trial("hard", "good", 0.0),
            trial("half", "weak", 0.0),
            trial("half", "good", 1.0),
            trial("easy", "weak", 1.0),
            trial("easy", "good", 1.0),
            trial("broken", "good", None),
        ],
        untried=["alone"],
    )
    found = heat_map(arms_of([job]))
    assert [arm.label for arm in found.arms] == ["good", "weak"]
    assert found.tasks == ("easy", "half", "hard", "alone", "broken")
    assert found.task_means == (1.0, 0.5, 0.0, None, None)
    assert found.cells[1] == (HeatCell(1.0, 1, 1, 1, 1), HeatCell(0.0, 0, 1, 1, 1))
    assert found.cells[4] == (HeatCell(None, 0, 0, 1, 1), HeatCell(None, 0, 0, 0, 1))


def test_cells_count_attempts_and_know_what_was_never_planned():
    first = memory_job(
        [trial("a", "x", 1.0), trial("a", "x", 0.5, 2), trial("a", "x", None, 3)], name="one", attempts=3
    )
    second = memory_job([trial("b", "x", 0.0)], untried=["a"], name="two")
    second.store.file = second.file.model_copy(
        update={"left_out": (LeftOut(kind="declined", task="a", agent="x", reason="no"),)}
    )
    found = heat_map(arms_of([first, second]))
    assert [arm.label for arm in found.arms] == ["x (one)", "x (two)"]
    assert found.cells[0] == (HeatCell(0.75, 1, 2, 3, 3), HeatCell(None, 0, 0, 0, 0))
    assert found.cells[1] == (HeatCell(None, 0, 0, 0, 0), HeatCell(0.0, 0, 1, 1, 1))


def test_nothing_has_an_empty_matrix():
    assert heat_map([]) == heat_map(arms_of([]))
    assert heat_map([]).tasks == ()


POINTS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12)


def test_whoever_is_beaten_in_both_is_behind_the_front():
    assert on_front([(1.0, 0.5), (2.0, 0.4), (2.0, 0.9), (3.0, 0.9)]) == [True, False, True, False]


def test_equals_are_on_it_together():
    assert on_front([(1.0, 0.5), (1.0, 0.5)]) == [True, True]


@given(POINTS)
def test_the_cheapest_of_the_best_is_on_it_and_the_order_does_not_matter(points):
    front = on_front(points)
    best = max(worth for _, worth in points)
    assert front[points.index((min(cost for cost, worth in points if worth == best), best))]
    assert on_front(points[::-1]) == front[::-1]
