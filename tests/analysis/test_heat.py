"""The matrix of tasks and arms."""

from seatrial.analysis.arms import arms_of
from seatrial.analysis.heat import HeatCell, heat_map
from seatrial.model.job import LeftOut
from tests.analysis.memory_jobs import memory_job, trial


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
