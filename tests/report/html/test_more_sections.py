from seatrial.analysis.arms import arms_of
from seatrial.report.document import make_document
from seatrial.report.html.more_sections import comparing_section, cost_per_trial, cost_section, times_section
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


MODEL = {"model_calls": 2, "input_tokens": 10, "output_tokens": 5}


def test_costs_are_those_of_trials_that_called_a_model():
    job = memory_job([trial("t", "a", 1.0, **MODEL, cost_usd=0.5), trial("u", "a", None, **MODEL, cost_usd=0.25)])
    assert cost_per_trial(arms_of([job])[0]) == 0.375


def test_an_agent_whose_cost_is_not_known_is_named_and_not_drawn():
    job = memory_job([trial("t", "a", 1.0, **MODEL, cost_usd=0.5), trial("t", "b", 0.0, **MODEL)])
    section = cost_section(make_document([job]))
    assert section.paragraphs == ("Not in the picture, because their cost is not known: b.",)
    assert [row[0].text for row in section.figures[0].table.rows] == ["a"]


def test_without_costs_there_is_time():
    section = cost_section(make_document([memory_job([trial("t", "a", 1.0), trial("t", "b", 0.0, duration_sec=9.0)])]))
    assert "Here is time instead." in section.paragraphs[0]
    assert [row[-1].text for row in section.figures[0].table.rows] == ["yes", "no"]


def test_without_times_there_is_no_picture_of_them():
    document = make_document([memory_job([trial("t", "a", 1.0, duration_sec=None)])])
    assert times_section(document).figures == ()
    assert cost_section(document).figures == ()


def test_of_many_agents_none_is_missing_from_the_front_and_the_tables():
    crowd = [trial("t", f"a{number}", 0.5, **MODEL, cost_usd=1.0) for number in range(45)]
    best = trial("t", "last", 1.0, **MODEL, cost_usd=0.1)
    document = make_document([memory_job([*crowd, best])])
    (cost,), (times,) = cost_section(document).figures, times_section(document).figures
    assert [row[0].text for row in cost.table.rows if row[-1].text == "yes"] == ["last"]
    assert len(cost.table.rows) == len(times.table.rows) == 46
    assert cost.svg.count("<a ") == times.svg.count("<a ") == 40
    assert ">last<" in cost.svg
    assert "Of 46 agents it has 40" in cost.caption
    assert "the first 40 of 46 agents" in times.caption
