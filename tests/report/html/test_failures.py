from seatrial.report.document import make_document
from seatrial.report.html.failures import failures_section
from tests.analysis.memory_jobs import memory_job, trial

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
    tagged = "#trials?agent=a&tag=mechanical:sign_error"
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
