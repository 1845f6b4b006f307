"""Every number of the page leads to trials; where it counts trials, to as many of them."""

import json
import re
from collections.abc import Iterator
from urllib.parse import parse_qs

import pytest

from seatrial.analysis.loaded import LoadedJob
from seatrial.report.document import ReportDocument, make_document
from seatrial.report.html.page import page_sections, trial_data
from seatrial.report.html.parts import PageCell, PageTable, marks_of, notes_of
from tests.analysis.memory_jobs import memory_job, trial
from tests.report.sample_reports import sample_job
from tests.review.journals import reviewed_job, said

COUNTS = {"run", "judged", "failed", "of these unclassified", "trials", "passed", "people pass", "people fail"}
"""The heads of columns that count trials."""


@pytest.fixture(scope="module")
def documents(tmp_path_factory) -> list[ReportDocument]:
    words = [("t0", "p"), ("t1", "p"), ("t2", "f"), ("t3", "p"), ("t4", "d")]
    said_so = [said(f"{task}.oracle.1", who, word) for task, word in words for who in ("ada", "eve")]
    rewards = {f"t{number}": float(number % 2) for number in range(6)}
    reviewed = reviewed_job(tmp_path_factory.mktemp("jobs") / "job", rewards, *said_so)
    return [make_document([sample_job(8, 2)]), make_document([reviewed])]


def tables(document: ReportDocument) -> Iterator[PageTable]:
    for section in page_sections(document):
        yield from section.tables
        yield from (figure.table for figure in section.figures)


def cells(document: ReportDocument) -> Iterator[tuple[str, PageCell]]:
    """Every cell with a number, with the head of its column."""
    for table in tables(document):
        for row in table.rows:
            for head, cell in zip(table.head, row, strict=True):
                if cell.kind == "number" and re.search(r"\d", cell.text):
                    yield head, cell


def reached(document: ReportDocument, target: str | None) -> int:
    """How many trials the page's list shows for a link, as its script selects them."""
    asked = {key: values[0] for key, values in parse_qs((target or "").partition("?")[2]).items()}
    data = json.loads(trial_data(document.arms, None))
    arms = [arm["label"] for arm, run in zip(data["arms"], data["runs"], strict=True) for _ in range(run)]
    agents = [arm["agent"] for arm, run in zip(data["arms"], data["runs"], strict=True) for _ in range(run)]
    notes = [data["notes"][note] for note in data["note"]] or [[]] * len(arms)
    return sum(
        asked.get("agent", arm) in (arm, agent)
        and data["outcomes"][outcome] in asked.get("outcome", data["outcomes"][outcome]).split(",")
        and ("tag" not in asked or any(mark == asked["tag"] or mark.endswith(f":{asked['tag']}") for mark in marks))
        for arm, agent, outcome, marks in zip(arms, agents, data["outcome"], notes, strict=True)
    )


def test_every_number_leads_to_trials(documents):
    found = [pair for document in documents for pair in cells(document)]
    assert len(found) > 150
    assert [(head, cell.text) for head, cell in found if not cell.target] == []
    assert {"p", "won", "planned", "as sure as", "rank", "value", "people pass"} <= {head for head, _ in found}
    drawn = [figure.svg for document in documents for section in page_sections(document) for figure in section.figures]
    outside = [re.sub(r"<a [^>]*>.*?</a>", "", svg) for svg in drawn]
    assert [text for svg in outside for text in re.findall(r'class="value"[^>]*>[^<]*\d', svg)] == []


def test_a_number_of_trials_leads_to_as_many(documents):
    for document in documents:
        counted = [(cell.text, cell.target) for head, cell in cells(document) if head in COUNTS]
        assert len(counted) > 5
        assert [(text, reached(document, target)) for text, target in counted] == [
            (text, int(text)) for text, _ in counted
        ]


def test_what_people_say_is_a_mark_that_can_be_asked_for():
    failed = trial("t", "a", 0.0)
    entries = [said(failed.trial_id, "ada", "p"), said(failed.trial_id, "eve", "f")]
    assert marks_of(failed) == ("unclassified",)
    assert marks_of(failed, entries[:1]) == ("unclassified", "reviewed", "people: pass")
    assert marks_of(failed, entries) == ("unclassified", "reviewed by several", "people: disagree")
    assert notes_of(failed, entries) == ("reviewed by several", "people: disagree")


@pytest.mark.parametrize("names", [("one",), ("one", "two"), ("one", "two", "three")])
def test_what_was_reviewed_of_an_agent_is_what_it_leads_to_in_any_number_of_jobs(names):
    document = make_document([_reviewed_in_memory(name) for name in names])
    (table,) = [each for each in tables(document) if "corrected" in each.caption]
    found = [[reached(document, cell.target) for cell in (row[1], row[4])] for row in table.rows]
    assert [row[4].text for row in table.rows] == [f"{3 * len(names)} of {6 * len(names)}"] * 2
    assert found == [[6 * len(names), 3 * len(names)]] * 2


def _reviewed_in_memory(name: str) -> LoadedJob:
    """Two agents at six tasks each; people agree on three, disagree on one, and defer on one."""
    trials = [trial(f"t{number}", agent, float(number % 2)) for number in range(6) for agent in ("a", "b")]
    job = memory_job(trials, name=name)
    words = {"t0": "pp", "t1": "pp", "t2": "ff", "t3": "pf", "t4": "dd"}
    job.__dict__["reviews"] = {
        f"{task}.{agent}.1": [said(f"{task}.{agent}.1", who, word) for who, word in zip("xy", both, strict=True)]
        for task, both in words.items()
        for agent in ("a", "b")
    }
    return job


def test_a_reward_of_nearly_one_is_no_one_in_the_list():
    arms = make_document([memory_job([trial("t", "a", 0.99999999), trial("u", "a", 1 / 3)])]).arms
    assert json.loads(trial_data(arms, None))["reward"] == [0.99999999, 0.333333]
