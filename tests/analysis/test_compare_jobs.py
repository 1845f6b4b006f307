"""Which agents are compared, what is refused, and that several comparisons are corrected together."""

import pytest

from seatrial.analysis.compare import CompareOptions, compare_jobs
from seatrial.cli.compare_command import set_json
from seatrial.errors import JobError
from seatrial.model.job import TrialOptions
from seatrial.model.record import ImportedJob
from tests.analysis.in_memory import entries, job

TASKS = {"a": [1.0], "b": [0.0]}


def with_agents(name, *agents, **more):
    return job(name, [trial for agent in agents for trial in entries(TASKS, agent)], **more)


def compared(first, second=None, agents=()):
    made = compare_jobs(first, second, agents)
    return [(each.first.label, each.second.label) for each in made.comparisons], list(made.left_out)


def test_agents_of_the_same_name_are_compared_and_the_others_are_named():
    first, second = with_agents("x", "p", "q", "old"), with_agents("y", "q", "p", "new")
    assert compared(first, second) == ([("p (x)", "p (y)"), ("q (x)", "q (y)")], ["old", "new"])


def test_one_agent_each_needs_no_name():
    assert compared(with_agents("x", "p"), with_agents("y", "q")) == ([("p", "q")], [])


def test_agents_can_be_named():
    first, second = with_agents("x", "p", "q"), with_agents("y", "p", "q")
    assert compared(first, second, agents=["p"]) == ([("p (x)", "p (y)")], [])
    assert compared(first, second, agents=["p", "q"]) == ([("p (x)", "q (y)")], [])


def test_within_a_job_all_are_compared_with_the_first():
    three = with_agents("x", "p", "q", "r")
    assert compared(three) == ([("p", "q"), ("p", "r")], [])
    assert compared(three, agents=["r", "p"]) == ([("r", "p")], [])
    assert compared(three, agents=["q"]) == ([("q", "p"), ("q", "r")], [])


@pytest.mark.parametrize(
    ("jobs", "agents", "said"),
    [
        ((with_agents("x", "p"),), (), "/jobs/x: has one agent, p; give a second job"),
        ((with_agents("x", "p"), with_agents("x", "p")), (), "/jobs/x: is given twice"),
        ((with_agents("x", "p", "q"), with_agents("y", "r")), (), "no agent of the same name: p, q; r"),
        ((with_agents("x", "p"), with_agents("y", "p")), ("z",), "/jobs/x: has no agent 'z'; it has p"),
        ((with_agents("x", "p"), with_agents("y", "p")), ("p", "p", "p"), "3 agents are named"),
    ],
)
def test_what_cannot_be_compared_says_why(jobs, agents, said):
    with pytest.raises(JobError) as caught:
        compare_jobs(jobs[0], jobs[1] if len(jobs) > 1 else None, agents)
    assert said in str(caught.value)


def test_a_reward_that_means_something_else_is_refused_unless_forced():
    first, second = with_agents("x", "p"), with_agents("y", "p", trial=TrialOptions(pass_threshold=0.5))
    with pytest.raises(JobError) as caught:
        compare_jobs(first, second)
    assert "pass_threshold: 1 / 0.5" in str(caught.value)
    assert "--force" in str(caught.value)
    made = compare_jobs(first, second, options=CompareOptions(force=True))
    assert [each.name for each in made.forced] == ["pass_threshold"]
    assert set_json(made)["forced"] is True


def test_several_comparisons_are_corrected_after_holm():
    rewards = {
        "p": {f"t{index}": [0.0] for index in range(8)},
        "q": {f"t{index}": [1.0] for index in range(8)},
        "r": {f"t{index}": [float(index < 4)] for index in range(8)},
    }
    made = compare_jobs(job("x", [trial for agent, tasks in rewards.items() for trial in entries(tasks, agent)]))
    alone = [each.paired.p_value for each in made.comparisons if each.paired]
    assert alone == [2 / 2**8, 2 / 2**4]
    assert [each.adjusted_p for each in made.comparisons] == [2 * alone[0], alone[1]]
    assert set_json(made)["corrected"] == "holm"
    assert compare_jobs(with_agents("x", "p", "q")).comparisons[0].adjusted_p is None


def test_so_few_tasks_can_show_one_difference_and_none_of_several():
    """All of six tasks won is p = 0.031 alone, and 0.094 after Holm where three are compared with the first."""
    rewards = {agent: {f"t{index}": [float(agent != "p")] for index in range(6)} for agent in "pqrs"}
    trials = [trial for agent, tasks in rewards.items() for trial in entries(tasks, agent)]
    assert {each.verdict for each in compare_jobs(job("x", trials)).comparisons} == {"inconclusive"}
    (one,) = compare_jobs(job("x", trials), agents=("p", "q")).comparisons
    assert one.verdict == "better"


def test_labels_of_strangers_steer_no_terminal():
    with pytest.raises(JobError) as caught:
        compare_jobs(with_agents("x", "\x1b[2Jp"))
    assert "\x1b" not in str(caught.value)


def test_an_agent_is_not_compared_with_itself():
    with pytest.raises(JobError, match="p is named twice"):
        compare_jobs(with_agents("x", "p", "q"), agents=("p", "p"))


def test_what_was_imported_cannot_be_judged_again():
    jobs = [job(name, entries({"t": [1.0]})) for name in "xy"]
    source = ImportedJob(format="verifiers", sha256="d" * 64, reward_range=(0.0, 2.0))
    jobs[1].store.file = jobs[1].file.model_copy(update={"imported": source})
    with pytest.raises(JobError, match="Import one of them again as the other"):
        compare_jobs(jobs[0], jobs[1])
