from seatrial.report.document import make_document
from seatrial.report.html.sections import (
    MOST_TASKS,
    agents_section,
    denominators_section,
    failures_section,
    tasks_section,
)
from tests.analysis.memory_jobs import memory_job, trial

TRIALS = (
    trial("t", "a", 1.0),
    trial("t", "a", 0.0, 2, disputed_reward=1.0),
    trial("u", "a", 0.0),
    trial("u", "a", None, 2),
)


def document():
    return make_document([memory_job(TRIALS, attempts=2, untried=["v"])])


def test_every_denominator_has_its_column():
    counts, _ = denominators_section(document()).tables
    assert counts.head == ("agent", "planned", "run", "judged", "passed", "failed", "infrastructure")
    assert [cell.text for cell in counts.rows[0]] == ["a", "6", "4", "3", "1", "2", "1"]
    assert counts.rows[0][-1].target == "#trials?agent=a&outcome=infrastructure_error"


def test_the_mean_stands_between_the_lowest_and_the_highest_it_can_be():
    _, means = denominators_section(document()).tables
    row = dict(zip(means.head, (cell.text for cell in means.rows[0]), strict=True))
    assert row["mean over tasks"] == "0.250"
    assert row["mean over trials"] == "0.333"
    assert (row["lowest it can be"], row["highest it can be"]) == ("0.250", "0.750")


def test_an_agent_that_was_never_judged_has_a_row():
    section = agents_section(make_document([memory_job([trial("t", "a", None)])]))
    assert [cell.text for cell in section.figures[0].table.rows[0]][:4] == ["a", "-", "-", "-"]
    assert "nothing was judged" in section.figures[0].svg


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


JUDGED = "outcome=pass,partial,fail,invalid_output,no_output"
FAILED = "outcome=partial,fail,invalid_output,no_output"


def table(caption, *trials):
    section = failures_section(make_document([memory_job(trials)]))
    return next(each.rows for each in section.tables if each.caption == caption)


def test_counts_and_shares_lead_to_the_trials_they_are_of():
    wrong = ("mechanical:sign_error",)
    trials = [trial("t", "a", 0.0, tags=wrong), trial("u", "a", 1.0, tags=wrong), trial("v", "a", 0.0)]
    (row,) = table("Failures by category", *trials)
    assert [cell.text for cell in row] == ["sign_error", "mechanical", "a", "2", "0.667", "0.500", "t.a.1"]
    tagged = "#trials?agent=a&tag=sign_error"
    assert [cell.target for cell in row[3:]] == [tagged, tagged, f"{tagged}&{FAILED}", "#trials?agent=a&trial=t.a.1"]
    (total,) = table("Judged trials that did not pass", *trials)
    assert [cell.text for cell in total] == ["a", "3", "2", "1"]
    assert [cell.target for cell in total[1:3]] == [f"#trials?agent=a&{JUDGED}", f"#trials?agent=a&{FAILED}"]


def test_steps_and_what_was_not_judged_lead_to_theirs():
    (step,) = table("First failing step", trial("t", "a", 0.0, failed_step="build"))
    assert (step[0].text, step[2].target) == ("build", "#trials?agent=a&tag=step:%20build")
    (cause,) = table("Not judged, and no fault of an agent", trial("t", "a", None), trial("u", "a", 1.0))
    assert (cause[0].text, cause[3].text) == ("SandboxError: no space left", "1")
    assert cause[3].target == "#trials?agent=a&outcome=infrastructure_error"
