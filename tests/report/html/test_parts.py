"""Links to trials, and the same section aimed at where another page has them."""

import json
import re
from collections.abc import Mapping
from urllib.parse import parse_qs

import pytest

from seatrial.analysis.arms import arms_of
from seatrial.report.document import make_document
from seatrial.report.html.page import trial_data
from seatrial.report.html.parts import SCORED_OUTCOMES, aimed, trials_link
from seatrial.report.html.sections import agents_section, failures_section, tasks_section
from tests.analysis.memory_jobs import memory_job, trial
from tests.report.sample_reports import HOSTILE, hostile_job, sample_job


@pytest.mark.parametrize("name", HOSTILE)
def test_a_link_finds_its_name_again_and_has_no_sign_that_ends_it(name):
    link = trials_link(task=name)
    assert parse_qs(link.removeprefix("#trials?")) == {"task": [name]}
    assert not set(link) & set("\"'<> \n\u2028")


def test_an_arm_is_named_by_its_label():
    arm = arms_of([hostile_job()])[0]
    link = trials_link(arm, outcome=SCORED_OUTCOMES)
    assert parse_qs(link.removeprefix("#trials?"))["agent"] == [arm.label]
    assert "pass,partial,fail" in link
    assert trials_link() == "#trials"


def test_half_a_sign_is_replaced():
    assert trials_link(task="a\udcffb") == "#trials?task=a%EF%BF%BDb"


def test_a_link_to_a_long_tag_asks_for_what_the_list_of_trials_has_of_it():
    tag = f"mechanical:{'w' * 3_000}"
    job = memory_job([trial("t", "a", 0.0, tags=(tag,))])
    listed = json.loads(trial_data(arms_of([job]), None))["notes"][1]
    assert parse_qs(trials_link(tag=tag).removeprefix("#trials?")) == {"tag": listed}


@pytest.mark.parametrize("make", [agents_section, tasks_section, failures_section])
def test_every_link_of_a_section_is_aimed_with_what_it_chooses_by(make):
    asked: list[Mapping[str, str]] = []

    def aim(chosen: Mapping[str, str]) -> str:
        asked.append(chosen)
        return '/there?x="<'

    section = aimed(make(make_document([sample_job()])), aim)
    tables = [*section.tables, *(figure.table for figure in section.figures)]
    targets = {cell.target for table in tables for row in table.rows for cell in row}
    assert targets <= {None, '/there?x="<'}
    drawn = "".join(figure.svg for figure in section.figures)
    assert set(re.findall(r'href="([^"]*)"', drawn)) <= {"/there?x=&quot;&lt;"}
    assert {"agent": "careful"} in asked or make is tasks_section
    assert {key for each in asked for key in each} <= {"agent", "outcome", "task", "tag", "trial"}


def test_names_survive_whatever_is_in_them():
    document = make_document([hostile_job()])
    tasks: list[str] = []

    def aim(chosen: Mapping[str, str]) -> str:
        tasks.append(chosen["task"])
        return "/there"

    aimed(tasks_section(document), aim)
    assert set(tasks) == set(HOSTILE)
    assert trials_link() == "#trials"
