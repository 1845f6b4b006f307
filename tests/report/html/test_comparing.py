from seatrial.report.document import make_document
from seatrial.report.html.comparing import comparing_section
from tests.analysis.memory_jobs import memory_job, trial


def test_each_mean_of_a_flipped_task_leads_to_the_trials_it_is_of():
    trials = [trial(f"t{index}", agent, float(agent == "b")) for index in range(2) for agent in "ab"]
    (figure,) = comparing_section(make_document([memory_job(trials)])).figures
    first = figure.table.rows[0]
    assert [cell.text for cell in first] == ["t0", "0.000", "1.000", "+100.0"]
    assert [cell.target for cell in first[:3]] == [
        "#trials?task=t0",
        "#trials?agent=a&task=t0",
        "#trials?agent=b&task=t0",
    ]


def test_agents_without_a_common_task_have_a_row_without_numbers():
    document = make_document([memory_job([trial("t", "a", 1.0), trial("u", "b", 0.0)])])
    section = comparing_section(document)
    assert [cell.text for cell in section.tables[0].rows[0]] == ["b", "a", "no judged task in common", *["-"] * 7]
    assert section.figures == ()
