"""`seatrial.compare` takes folders, loaded jobs and agents of them, and all say the same."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import seatrial
from seatrial.analysis.compare import (
    GateResult,
    after_holm,
    compare_arms,
    dimension_differences,
    group_differences,
    judge_gate,
    measured_differences,
    worst_verdict,
)
from seatrial.errors import JobError, UsageError
from seatrial.model.job import TaskLabels
from seatrial.stats.paired import PairTest
from seatrial.stats.sign_flips import is_told_apart
from tests.analysis.in_memory import arms, entries, entry, job
from tests.cli.job_folders import make_job, record

TASKS = [f"t{number}" for number in range(6)]


@pytest.fixture
def jobs(tmp_path):
    for name, reward in (("old", 0.0), ("new", 1.0)):
        make_job(tmp_path / name, *(record(task, reward, agent) for task in TASKS for agent in ("x", "y")))
    return tmp_path / "old", tmp_path / "new"


def answers(made):
    return [(each.first.agent, each.second.agent, each.paired.difference) for each in made.comparisons]


def test_folders_and_loaded_jobs_are_compared_alike(jobs):
    old, new = jobs
    expected = [("x", "x", 1.0), ("y", "y", 1.0)]
    assert answers(seatrial.compare(old, str(new))) == expected
    assert answers(seatrial.load_job(old).compare(seatrial.load_job(new))) == expected
    assert answers(seatrial.compare(old, new, agent="y")) == expected[1:]
    assert answers(seatrial.compare(old, new, agent=("x", "y"))) == [("x", "y", 1.0)]


def test_agents_of_one_job_and_of_two(jobs):
    old, new = map(seatrial.load_job, jobs)
    assert answers(old.compare()) == [("x", "y", 0.0)]
    assert answers(seatrial.compare(old.arms[1], old.arms[0])) == [("y", "x", 0.0)]
    assert answers(seatrial.compare(old.arms[1], new.arms[0])) == [("y", "x", 1.0)]


def test_a_part_of_a_job_is_compared_on_that_part(jobs):
    old, new = map(seatrial.load_job, jobs)
    (made,) = seatrial.compare(old.where("task=t[012]"), new, agent="x").comparisons
    assert len(made.pairs) == 3


def test_what_cannot_be_compared(jobs):
    old = seatrial.load_job(jobs[0])
    with pytest.raises(UsageError, match="give two of them"):
        seatrial.compare(old.arms[0], jobs[1])
    with pytest.raises(UsageError, match="is given twice"):
        seatrial.compare(old.arms[0], old.arms[0])
    with pytest.raises(UsageError, match="no agent="):
        seatrial.compare(*old.arms, agent="x")
    with pytest.raises(JobError, match="has no agent 'z'"):
        seatrial.compare(*jobs, agent="z")


def test_a_record_and_its_annotations_are_at_hand(jobs):
    job = seatrial.load_job(jobs[0])
    assert job.record("t0.x.1").trial_id == "t0.x.1"
    assert job.annotations == {}


@pytest.mark.parametrize("wrong", [{"level": 0}, {"level": 1.0}, {"level": "0.95"}, {"seed": -1}, {"seed": "x"}])
def test_levels_and_seeds_without_a_meaning_are_refused(jobs, wrong):
    (name,) = wrong
    with pytest.raises(UsageError, match=f"the {name} is .*, expected a"):
        seatrial.compare(*jobs, **wrong)


def compared(first, second, **options):
    return compare_arms(*arms(job("x", entries(first)), job("y", entries(second))), **options)


def tasks(count, reward):
    return {f"t{index:02}": [reward] for index in range(count)}


def test_only_tasks_that_both_were_judged_on_count():
    found = compared({"a": [1.0, 0.0], "b": [1.0], "c": [None]}, {"a": [1.0], "c": [1.0], "d": [1.0]})
    assert [(pair.task_id, pair.first, pair.second) for pair in found.pairs] == [("a", 0.5, 1.0)]
    assert compared({"a": [1.0]}, {"b": [1.0]}).paired is None


@pytest.mark.parametrize(
    ("count", "first", "second", "verdict"),
    [
        (20, 0.0, 1.0, "better"),
        (20, 1.0, 0.0, "worse"),
        (20, 0.5, 0.5, "no difference seen"),
        (5, 0.0, 1.0, "inconclusive"),
        (6, 0.0, 1.0, "better"),
        (8, 0.0, 1.0, "better"),
        (0, 0.0, 1.0, "inconclusive"),
    ],
)
def test_the_verdict(count, first, second, verdict):
    assert compared(tasks(count, first), tasks(count, second)).verdict == verdict


LOST = (0.21, 0.28, 0.38, 0.40, 0.45, 0.50, 0.55, 0.63)


def test_eight_tasks_of_eight_lost_are_worse_and_the_interval_does_not_reach_0():
    found = compared(tasks(8, 1.0), {f"t{at:02}": [1.0 - lost] for at, lost in enumerate(LOST)})
    assert found.paired is not None
    assert (found.paired.p_value, found.verdict) == (2 / 2**8, "worse")
    assert (found.paired.low, found.paired.high) == pytest.approx((-0.5433, -0.2967), abs=1e-4)


def test_a_difference_is_believed_by_its_p_value_after_holm_and_the_interval_follows():
    made = compared(tasks(8, 0.0), {f"t{at:02}": [won] for at, won in enumerate(LOST)})
    two, ten = after_holm([made] * 2)[0], after_holm([made] * 10)[0]
    assert made.interval is not None
    assert two.interval is not None
    assert (two.adjusted_p, two.verdict) == (2 * 2 / 2**8, "better")
    assert 0.0 < two.interval[0] < made.interval[0]
    assert (ten.adjusted_p, ten.verdict, ten.interval) == (10 * 2 / 2**8, "inconclusive", (-1.0, 1.0))


@given(
    st.lists(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0]), min_size=9, max_size=9), min_size=2, max_size=4)
)
def test_after_holm_no_interval_contradicts_its_p_value_or_its_verdict(differences):
    made = after_holm([gate_compared(*each) for each in differences])
    for each in made:
        assert each.interval is not None
        assert each.p_value is not None
        low, high = each.interval
        assert (not low <= 0.0 <= high) is is_told_apart(each.p_value, 0.05)
        assert each.verdict == ("better" if low > 0.0 else "worse" if high < 0.0 else "no difference seen")


def test_tests_that_are_shown_elsewhere_are_corrected_for_too():
    made = compared(tasks(8, 0.0), tasks(8, 1.0))
    (found,) = after_holm([made], [PairTest(8.0, 2 / 2**8, 2 / 2**8)])
    assert (found.adjusted_p, found.adjusted_least) == (4 / 2**8, 4 / 2**8)


def test_what_one_passed_and_the_other_did_not_is_what_the_other_passed_in_no_attempt():
    """Also where both passed in half of their attempts or less."""
    first = {"never": [0.0, 0.9, 0.0], "once": [1.0, 0.0, 0.0], "same": [1.0], "drop": [0.0, 1.0], "half": [1.0, 0.0]}
    second = {"never": [0.0, 1.0, 0.0], "once": [1.0, 1.0, 1.0], "same": [1.0], "drop": [0.9, 0.0], "half": [1.0, 1.0]}
    found = compared(first, second)
    (gained,), (dropped,) = found.gained, found.dropped
    assert (gained.task_id, gained.passed) == ("never", (0, 1))
    assert gained.second == ("never.oracle.2", "never.oracle.1", "never.oracle.3")
    assert (dropped.task_id, dropped.passed, dropped.first[0]) == ("drop", (1, 0), "drop.oracle.2")


def test_what_was_passed_most_often_comes_first():
    found = compared({"a": [0.0] * 2, "b": [0.0] * 2, "c": [0.0]}, {"a": [1.0, 0.0], "b": [1.0] * 2, "c": [1.0]})
    assert [flip.task_id for flip in found.gained] == ["b", "c", "a"]


def test_wins_and_losses_are_in_the_order_of_their_size():
    found = compared({"a": [0.5], "b": [0.0], "c": [1.0]}, {"a": [0.6], "b": [1.0], "c": [0.2]})
    assert [pair.task_id for pair in found.won] == ["b", "a"]
    assert [pair.task_id for pair in found.lost] == ["c"]


def test_tasks_of_one_family_are_no_more_than_one_when_it_is_asked_so():
    first, second = tasks(20, 0.0), tasks(20, 1.0)
    families = dict.fromkeys(first, "one")
    found = compare_arms(*arms(job("x", entries(first)), job("y", entries(second))), families=families)
    assert (found.family_count, found.too_few, found.verdict) == (1, True, "inconclusive")
    half = dict.fromkeys(list(first)[10:], "t00")  # a family with the name of a task is not that task
    assert compare_arms(*arms(job("x", entries(first)), job("y", entries(second))), families=half).family_count == 11


def test_mcnemar_is_the_sign_flip_test_of_one_binary_trial_each():
    first = {f"t{index}": [float(index < 20)] for index in range(60)}
    many = compared(first, {task: [float(task == "t1")] for task in first})
    assert many.paired is not None
    assert (many.paired.wins, many.paired.losses) == (0, 19)
    assert many.mcnemar_p == many.paired.p_value == 2 / 2**19
    more = compared(
        {task: [0.0] for task in first}, {task: [float(index % 3 == 0)] for index, task in enumerate(first)}
    )
    assert more.mcnemar_p == pytest.approx(2 / 2**20)
    assert compared({"a": [0.5]}, {"a": [1.0]}).mcnemar_p is None
    assert compared({"a": [0.0, 1.0]}, {"a": [1.0]}).mcnemar_p is None


def contrasts_compared(first, second, **more):
    return compare_arms(*arms(job("x", first, **more), job("y", second, **more)))


def test_only_parts_that_both_have_are_compared_and_only_where_both_have_them():
    first = [entry("a", 0.5, dimensions={"speed": 0.5, "own": 1.0}), entry("b", 0.5, dimensions={"speed": 0.0})]
    second = [entry("a", 1.0, dimensions={"speed": 1.0, "new": 1.0}), entry("b", 1.0)]
    (part,) = dimension_differences(contrasts_compared(first, second))
    assert (part.name, part.first, part.second, part.tasks) == ("speed", 0.5, 1.0, 1)


def test_differences_by_label_leave_out_tasks_without_one():
    labels = {"a": TaskLabels(category="x", tags=("p", "q")), "b": TaskLabels(category="y", tags=("q",))}
    first = [entry(task, 0.0) for task in "abc"]
    found = contrasts_compared(first, [entry("a", 1.0), entry("b", 0.5), entry("c", 1.0)], labels=labels)
    by_category = {part.name: (part.difference, part.tasks) for part in group_differences(found, "category")}
    assert by_category == {"x": (1.0, 1), "y": (0.5, 1)}
    assert {part.name: part.tasks for part in group_differences(found, "tag")} == {"p": 1, "q": 2}
    assert group_differences(found, "difficulty") == []


def test_the_part_that_is_all_of_it_has_the_interval_of_the_whole():
    labels = {f"t{index}": TaskLabels(category="x") for index in range(10)}
    first = [entry(task, float(index % 2)) for index, task in enumerate(labels)]
    found = contrasts_compared(
        first, [entry(task, float(index % 3 > 0)) for index, task in enumerate(labels)], labels=labels
    )
    (part,) = group_differences(found, "category")
    assert found.paired is not None
    assert (part.difference, part.low, part.high) == (found.paired.difference, found.paired.low, found.paired.high)


def test_amounts_are_means_over_the_tasks_where_both_know_them_of_every_trial():
    first = [entry("a", 1.0, cost_usd=1.0), entry("a", 1.0, attempt=2, cost_usd=3.0), entry("b", 1.0, cost_usd=9.0)]
    second = [entry("a", 1.0, cost_usd=5.0), entry("b", 1.0, cost_usd=1.0), entry("b", 1.0, attempt=2)]
    cost, time = measured_differences(contrasts_compared(first, second))
    assert (cost.name, cost.unit, cost.amounts.tasks) == ("cost", "USD", 1)
    assert (cost.amounts.first, cost.amounts.second, cost.amounts.difference) == (2.0, 5.0, 3.0)
    assert cost.amounts.low is cost.amounts.high is None  # one task has no interval
    assert (time.name, time.amounts.tasks, time.amounts.low, time.amounts.high) == ("whole time", 2, 0.0, 0.0)


def comparison(difference, low, high):
    made = compare_arms(*arms(job("x", entries({"a": [1.0]})), job("y", entries({"a": [1.0]}))))
    assert made.paired is not None
    return replace(made, paired=replace(made.paired, difference=difference, low=low, high=high))


def gate_compared(*differences):
    """Of as many tasks."""
    first, second = ({f"t{at}": [max(0.0, sign * each)] for at, each in enumerate(differences)} for sign in (-1, 1))
    return compare_arms(*arms(job("x", entries(first)), job("y", entries(second))))


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.01, 0.1, "not worse"),
        (-0.02, 0.1, "not worse"),
        (-0.0201, 0.1, "inconclusive"),
        (-0.2, -0.02, "inconclusive"),
        (-0.2, -0.0201, "worse"),
    ],
)
def test_the_interval_decides(low, high, verdict):
    assert judge_gate(comparison((low + high) / 2, low, high), 0.02).verdict == verdict


@pytest.mark.parametrize(("differences", "margin"), [((1.0, 0.0, 0.0, -1.0, 0.0), 0.1), ((0.0,) * 7, 0.05)])
def test_so_many_tasks_decide(differences, margin):
    """The interval has to lie beyond the margin not only on average, but four times out of five."""
    found = judge_gate(gate_compared(*differences), margin)
    assert found.verdict == "inconclusive"
    assert found.needed is not None
    times = found.needed // len(differences) + 1
    assert judge_gate(gate_compared(*(differences * times)), margin).verdict == "not worse"
    assert judge_gate(gate_compared(*(differences * (times // 4))), margin).verdict == "inconclusive"


def test_where_no_task_differs_as_many_are_named_as_it_takes():
    assert judge_gate(gate_compared(*[0.0] * 30), 0.02).needed == 183
    assert [judge_gate(gate_compared(*[0.0] * tasks), 0.02).verdict for tasks in (182, 183)] == [
        "inconclusive",
        "not worse",
    ]


def test_a_difference_at_the_margin_but_for_rounding_is_at_the_margin():
    found = gate_compared(*[-0.2, 0.0] * 5, -0.1)
    assert judge_gate(found, 0.1) == GateResult("inconclusive", 0.1)
    assert judge_gate(gate_compared(*[0.1 - 0.3, 0.0] * 5), 0.1) == GateResult("inconclusive", 0.1)


def test_what_is_not_decided_takes_more_tasks_than_there_were():
    made = gate_compared(*[0.9] * 10)
    assert made.paired is not None
    undecided = replace(made, paired=replace(made.paired, low=-0.03))
    assert judge_gate(undecided, 0.02).needed == 11


def test_nothing_in_common_is_inconclusive():
    found = compare_arms(*arms(job("x", entries({"a": [1.0]})), job("y", entries({"b": [1.0]}))))
    assert judge_gate(found, 0.02) == GateResult("inconclusive", 0.02)


def test_all_gates_have_to_be_passed():
    results = [GateResult("not worse", 0.02), GateResult("inconclusive", 0.02), GateResult("worse", 0.02)]
    assert [worst_verdict(results[:count]) for count in (1, 2, 3)] == ["not worse", "inconclusive", "worse"]
