"""The first sentence of a leaderboard: who is ahead, and never more than the pairs say."""

import pytest

from seatrial.analysis.arms import arms_of
from seatrial.analysis.leaderboard import rank_arms
from seatrial.report.leaderboard import leaderboard_answer, leaderboard_lines, leaderboard_table
from tests.analysis.memory_jobs import memory_job, trial

TASKS = [f"t{number:02d}" for number in range(20)]
HALF = dict.fromkeys(TASKS, 0.5)
BETTER = dict.fromkeys(TASKS, 0.6)
UNSTEADY = {task: float(number < 9) for number, task in enumerate(TASKS)}
ELSEWHERE = dict.fromkeys(TASKS, 0.4) | {f"other-{number}": 1.0 for number in range(40)}


@pytest.mark.parametrize(
    ("agents", "answer"),
    [
        ([BETTER, HALF], "a is first: better than every other, beyond chance."),
        ([BETTER], "a is alone: there is nobody to rank it with."),
        ([HALF, HALF], "No clear winner: a and others have the highest mean, and a cannot be told apart from b."),
        # b is told apart from a, and c is not, though b and c share a letter
        ([BETTER, HALF, UNSTEADY], "No clear winner: a has the highest mean, and cannot be told apart from c."),
        (
            [ELSEWHERE, HALF],
            "No clear winner: a has the highest mean, but b is better, beyond chance, at tasks that both have.",
        ),
    ],
)
def test_the_answer_says_what_pairs_say(agents, answer):
    jobs = [
        memory_job([trial(task, name, reward) for task, reward in rewards.items()], name=name)
        for name, rewards in zip("abc", agents, strict=False)
    ]
    assert leaderboard_answer(rank_arms(arms_of(jobs))) == answer


def test_who_is_better_at_common_tasks_has_another_letter():
    jobs = [
        memory_job([trial(task, name, reward) for task, reward in rewards.items()], name=name)
        for name, rewards in (("a", ELSEWHERE), ("b", HALF))
    ]
    rows = rank_arms(arms_of(jobs)).rows
    assert [(row.arm.label, row.rank.best, row.tie) for row in rows if row.rank] == [("a", 2, "A"), ("b", 1, "B")]


def test_few_tasks_are_named_instead_of_ranks():
    jobs = [memory_job([trial(f"t{at}", name, float(name == "a")) for at in range(8)], name=name) for name in "abcde"]
    board = rank_arms(arms_of(jobs))
    answer = leaderboard_answer(board)
    assert answer.startswith("No ranks: so few common tasks cannot tell any two agents apart, however large")
    assert answer.endswith("with all of the tasks won, p = 0.078 after Holm for 10 pairs.")
    assert {row[0] for row in leaderboard_table(board).rows} == {"-"}
    assert not any("a rank is" in line for line in leaderboard_lines(board))
