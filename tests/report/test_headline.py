import pytest

from seatrial.model.job import TrialOptions
from seatrial.report.document import make_document
from seatrial.report.headline import headline
from tests.analysis.memory_jobs import memory_job, trial


def two(first: list[float], second: list[float]) -> str:
    """The sentence about two agents with these rewards, task by task."""
    trials = [trial(f"t{index}", "a", reward) for index, reward in enumerate(first)]
    trials += [trial(f"t{index}", "b", reward) for index, reward in enumerate(second)]
    return headline(make_document([memory_job(trials)]))


def test_nothing_judged_is_no_mean():
    assert headline(make_document([memory_job([trial("t", "a", None)])])) == "No trial was judged, so there is no mean."


def test_one_agent_has_its_mean():
    assert headline(make_document([memory_job([trial("t", "a", 1.0)])])).startswith("a has a mean reward of 1.000 (0.")


@pytest.mark.parametrize("turned", [False, True])
def test_the_leader_is_named_first_whatever_the_order(turned):
    good, bad = [1.0] * 40, [0.0] * 30 + [1.0] * 10
    leader, other = ("b", "a") if turned else ("a", "b")
    said = two(bad, good) if turned else two(good, bad)
    assert said.startswith(f"{leader} leads {other} by 75.0 points on 40 common tasks (95 % interval ")
    assert "p < 0.001" in said
    assert said.endswith("So large a difference would be rare if both were equally good.")


def test_who_is_behind_on_common_tasks_does_not_lead_by_a_higher_mean_over_its_own():
    easy = [trial(f"easy-{index}", "a", 1.0) for index in range(9)]
    common = [trial(f"t{index}", agent, float(agent == "b")) for index in range(6) for agent in "ab"]
    both = [trial(f"hard-{index}", "b", 0.0) for index in range(9)]
    said = headline(make_document([memory_job([*easy, *common, *both])]))
    assert said.startswith("b leads a by 100.0 points on 6 common tasks (95 % interval ")


def test_what_may_be_chance_is_said_with_what_could_have_been_seen():
    said = two([1.0, 0.0] * 10, [1.0, 0.0] * 9 + [1.0, 1.0])
    assert said.startswith("b leads a by 5.0 points on 20 common tasks")
    assert "That may be chance: with tasks like these, a difference of" in said


def test_equals_are_level():
    assert two([1.0, 0.0, 1.0], [0.0, 1.0, 1.0]).startswith("a and b are level on 3 common tasks")


def test_few_tasks_cannot_show_anything():
    assert two([1.0, 1.0], [0.0, 0.0]).endswith("So few tasks cannot show a difference, however large.")


def test_agents_without_a_common_task_are_not_compared():
    said = headline(make_document([memory_job([trial("t", "a", 1.0), trial("u", "b", 0.5)])]))
    assert said.endswith("but no judged task in common with b.")


def test_agents_whose_rewards_mean_something_else_are_not_compared():
    lower = TrialOptions(pass_threshold=0.5)
    jobs = [memory_job([trial("t", "a", 1.0)]), memory_job([trial("t", "b", 0.5)], name="other", trial=lower)]
    assert "cannot be compared with b" in headline(make_document(jobs))


def test_equal_means_are_not_the_highest_of_one_alone():
    said = headline(make_document([memory_job([trial("t", "a", 0.5), trial("u", "b", 0.5)])]))
    assert said.startswith("a and others have the highest mean, 0.500 (")
