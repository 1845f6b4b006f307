"""Leaderboards: ranks that arms may have, ties, and arms that cannot be ranked together."""

from seatrial.analysis.arms import arms_of
from seatrial.analysis.leaderboard import rank_arms
from tests.analysis.in_memory import entries, job
from tests.analysis.memory_jobs import memory_job, trial

TASKS = [f"task-{number:02d}" for number in range(12)]


def arm(agent: str, passes: int, name: str = "nightly", **more):
    trials = [trial(task, agent, float(at < passes)) for at, task in enumerate(TASKS)]
    return memory_job(trials, name=name, **more)


def test_who_cannot_be_told_apart_shares_a_letter_and_a_range_of_ranks():
    jobs = [arm("middle", 11, "one"), arm("best", 12, "two"), arm("worst", 0, "three")]
    board = rank_arms(arms_of(jobs))
    assert [row.arm.label for row in board.rows] == ["best", "middle", "worst"]
    assert [(row.rank.best, row.rank.worst) for row in board.rows if row.rank] == [(1, 2), (1, 2), (3, 3)]
    assert [row.tie for row in board.rows] == ["A", "A", "B"]
    assert (board.notes, board.compared) == ((), 3)


def test_rewards_that_mean_something_else_are_not_ranked():
    other = arm("lenient", 12, "two")
    trial_options = other.file.spec.trial.model_copy(update={"pass_threshold": 0.5})
    spec = other.file.spec.model_copy(update={"trial": trial_options})
    other.store.file = other.file.model_copy(update={"spec": spec})
    board = rank_arms(arms_of([arm("a", 3, "one"), other, arm("b", 5, "three")]))
    assert [(row.arm.label, row.rank is None, row.tie) for row in board.rows] == [
        ("b", False, "A"),
        ("a", False, "A"),
        ("lenient", True, None),
    ]
    assert board.rows[2].notes == (1,)
    assert "its rewards do not mean what those of b mean" in board.notes[0]
    assert "pass_threshold: 1 / 0.5" in board.notes[0]


def test_other_tasks_and_tasks_without_a_verdict_are_noted():
    full = arm("full", 12, "one")
    some = memory_job([trial(TASKS[0], "some", 0.0), trial("new", "some", None)], name="two")
    board = rank_arms(arms_of([full, some]))
    assert board.reference is not None
    assert board.reference.label == "full"
    assert board.rows[1].notes == (1, 2)
    assert board.notes == ("has 2 tasks, 1 of them among the 12 of full", "judged on 1 of its 2 tasks")


def test_what_was_never_judged_comes_last_and_has_no_rank():
    broken = memory_job([trial(task, "broken", None) for task in TASKS], name="two")
    board = rank_arms(arms_of([broken, arm("fine", 1, "one")]))
    assert [(row.arm.label, row.rank is None) for row in board.rows] == [("fine", False), ("broken", True)]
    alone = rank_arms(arms_of([broken]))
    assert (alone.reference, alone.compared, [row.tie for row in alone.rows]) == (None, 0, [None])
    assert rank_arms([]).rows == ()


def test_what_means_something_else_than_any_of_them_is_not_ranked_with_them():
    """The first and the third share no task that was changed; the second and the third do."""
    tasks = [f"t{index}" for index in range(20)]
    first, second = job("x", entries({t: [1.0] for t in tasks[:10]})), job("y", entries({t: [1.0] for t in tasks[10:]}))
    changed = job("z", entries({t: [0.0] for t in tasks}), digests=dict.fromkeys(tasks[10:], "f" * 64))
    board = rank_arms(arms_of([first, second, changed]))
    assert [(row.arm.job.name, row.rank is None) for row in board.rows] == [("x", False), ("y", False), ("z", True)]
    assert "do not mean what those of oracle (y) mean" in board.notes[board.rows[-1].notes[0] - 1]


def test_one_task_is_no_plural():
    board = rank_arms(arms_of([arm("full", 12), memory_job([trial(TASKS[0], "single", 1.0)], name="two")]))
    assert board.notes == ("has 1 task, 1 of them among the 12 of full",)


def test_where_so_few_tasks_could_tell_no_two_apart_none_has_a_rank():
    """Eight tasks and ten pairs: 10 times 0.0078."""
    jobs = [arm(name, 12 * (name == "e"), name) for name in "abcde"]
    few = [memory_job([each for each in job.trials if each.task_id < "task-08"], name=job.name) for job in jobs]
    board, enough = rank_arms(arms_of(few)), rank_arms(arms_of(few[2:]))
    assert board.ranking.too_few
    assert [(row.arm.label, row.rank, row.tie) for row in board.rows] == [(name, None, None) for name in "eabcd"]
    assert [(row.arm.label, row.tie) for row in enough.rows] == [("e", "A"), ("c", "B"), ("d", "B")]
