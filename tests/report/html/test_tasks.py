from seatrial.report.document import make_document
from seatrial.report.html.tasks import MOST_TASKS, tasks_section
from tests.analysis.memory_jobs import memory_job, trial


def section_of(tasks: int, agents: int = 1):
    trials = [trial(f"t{task:04d}", f"a{agent}", task / tasks) for task in range(tasks) for agent in range(agents)]
    return tasks_section(make_document([memory_job(trials)]))


def test_every_task_has_a_row_that_leads_to_its_trials():
    rows = section_of(3, 2).figures[0].table.rows
    assert [row[0].text for row in rows] == ["t0002", "t0001", "t0000"]
    assert rows[0][1].target == "#trials?agent=a0&task=t0002"


def test_many_tasks_share_rows_and_none_is_lost():
    section = section_of(MOST_TASKS + 1)
    rows = section.figures[0].table.rows
    assert len(rows) <= 100
    assert rows[-1][0].text.endswith(f"to {MOST_TASKS + 1}")
    assert "A row stands for 5 tasks" in section.figures[0].caption
    middle = [float(row[1].text) for row in rows]
    assert middle == sorted(middle, reverse=True)


def test_a_job_without_tasks_has_no_picture():
    assert tasks_section(make_document([memory_job([])])).figures == ()
