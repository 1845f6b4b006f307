"""Heat maps as characters: they fit the screen, lose no cell, and read without colours."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.analysis.arms import arms_of
from seatrial.analysis.groups import HeatCell, heat_map
from seatrial.report.heat_text import LEGEND, heat_lines, mark
from seatrial.report.text import shown_width
from tests.analysis.memory_jobs import memory_job, trial


def drawn(heat, width, **more):
    return ["".join(text for text, _ in line) for line in heat_lines(heat, width, **more)]


def heat_of(tasks: int, agents: int, name: str = "task"):
    trials = [
        trial(f"{name}-{task}", f"agent-{agent}", float(task < agent))
        for task in range(tasks)
        for agent in range(agents)
    ]
    return heat_map(arms_of([memory_job(trials)]))


@pytest.mark.parametrize(
    ("cell", "sign"),
    [
        (HeatCell(1.0, 1, 1, 1, 1), "█"),
        (HeatCell(0.99, 0, 1, 1, 1), "▓"),
        (HeatCell(0.5, 0, 1, 1, 1), "▒"),
        (HeatCell(0.01, 0, 1, 1, 1), "░"),
        (HeatCell(0.0, 0, 1, 1, 1), "."),
        (HeatCell(None, 0, 0, 1, 1), "!"),
        (HeatCell(None, 0, 0, 0, 1), "?"),
        (HeatCell(None, 0, 0, 0, 0), " "),
    ],
)
def test_every_kind_of_cell_has_a_character_of_its_own(cell, sign):
    assert mark(cell) == sign
    assert sign in LEGEND


def test_few_tasks_have_rows_with_names_and_numbers():
    lines = drawn(heat_of(2, 2), 80)
    assert lines[0] == "task    agent-1  agent-0"
    assert lines[1].split() == ["task-0", "█", "1.00", ".", "0.00"]
    assert lines[-1] == LEGEND


def test_many_arms_are_numbered_and_stand_in_blocks():
    lines = drawn(heat_of(3, 20), 80)
    assert lines[0] == "1 = agent-10"
    assert sum(line.startswith("task  ") for line in lines) == 3, "eight arms of eight columns fit beside the names"
    assert max(map(len, lines)) <= 80


def test_many_tasks_have_a_character_each_and_fold():
    heat = heat_of(200, 2)
    lines = drawn(heat, 80)
    assert max(map(len, lines)) <= 80
    first = [line.removeprefix("agent-1").strip() for line in lines if line.startswith("agent-1")]
    assert "".join(first) == "█" + 199 * "."
    assert len(drawn(heat, 80, everything=True)) > 200
    assert len(drawn(heat, None)) == 5, "a pipe folds nothing"


@given(st.text(min_size=1), st.text(min_size=1, max_size=200), st.sampled_from([1, 70]))
def test_hostile_names_steer_nothing_and_fit(task, agent, tasks):
    trials = [trial(f"{task}{number}", agent, 0.5, number) for number in range(tasks)]
    lines = drawn(heat_map(arms_of([memory_job(trials)])), 80)
    assert all(line.isprintable() for line in lines)
    assert max(map(shown_width, lines)) <= 80
    assert sum(line.count("▒") for line in lines) >= tasks + 1


def test_nothing_to_draw_is_said():
    assert drawn(heat_map([]), 80) == ["there is no task to draw"]
