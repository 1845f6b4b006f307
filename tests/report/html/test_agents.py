from seatrial.report.document import make_document
from seatrial.report.html.agents import agents_section, denominators_section
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
