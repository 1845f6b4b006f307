"""What people say, in words and in reports; a report of what nobody reviewed says nothing of it."""

import io

import pytest

from seatrial.report import people
from seatrial.report.comment import write_markdown
from seatrial.report.document import make_document
from seatrial.report.html.page import render_html
from seatrial.review.agreement import agreement_report
from tests.review.journals import drawn, reviewed_job, said

TASKS = {f"t{number}": float(number % 2) for number in range(6)}
MARKUP = "<img src=x onerror=alert(1)>|`"


@pytest.fixture
def job(tmp_path):
    entries = [
        said(f"{task}.oracle.1", who, "fp"[number % 2] if task != "t1" else "f", categories=[MARKUP], blind=True)
        for number, task in enumerate(TASKS)
        for who in ("ada", MARKUP)
    ]
    return reviewed_job(tmp_path / "job", TASKS, *entries)


def test_sentences_for_a_report(job):
    agree, verifier, rate = people.people_lines(agreement_report([job]))
    assert agree == (
        "2 reviewers looked at 6 of 6 trials. Cohen's κ is 1.000 (0.122 to 1.000); this measure, because there are two "
        "raters."
    )
    assert verifier.startswith("Of 6 trials that both judged, people agree with the verifier on 83.3% (")
    assert verifier.endswith("it passed 1 that they fail and failed 0 that they pass.")
    assert rate.startswith("The verifier passes 50.0% of 6 trials; corrected by what people say it would be 33.3% (")


def test_what_is_weighted_says_so(tmp_path):
    rare, sure = drawn("random", 0.4), drawn("disputed", 1.0)
    entries = [
        said("t1.oracle.1", "ada", "p", sampling=rare),
        said("t3.oracle.1", "ada", "f", sampling=sure),
        said("t2.oracle.1", "ada", "f", sampling=rare),
    ]
    report = agreement_report([reviewed_job(tmp_path / "job", TASKS, *entries)])
    verifier = report.overall.verifier
    assert [row[0] for row in people.shares_table(verifier).rows] == [
        "precision, weighted",
        "recall, weighted",
        "specificity, weighted",
    ]
    assert [row[0] for row in people.rates_table(verifier).rows][1:] == ["corrected, weighted"] * 2
    assert "corrected, weighted" in people.agents_table(report.agents, report.overall.verifier).columns
    _, agreed, rate = people.people_lines(report)
    assert "%, weighted (" in agreed
    assert "corrected, weighted by what people say" in rate


def test_where_agreement_cannot_be_told_the_reason_is(tmp_path):
    alone = reviewed_job(tmp_path / "job", TASKS, said("t1.oracle.1", "ada", "p"))
    (line, *_) = people.people_lines(agreement_report([alone]))
    assert line == (
        "1 reviewer looked at 1 of 6 trials. How far they agree cannot be said: it takes two items that two raters "
        "judged, found 0."
    )
    assert people.measures_table(agreement_report([alone]).overall).rows == []


def test_how_trials_stand_and_how_often_reviewers_deferred(tmp_path):
    entries = [
        said("t1.oracle.1", "ada", "p"),
        said("t1.oracle.1", "eve", "f"),
        said("t2.oracle.1", "eve", "d"),
    ]
    found = agreement_report([reviewed_job(tmp_path / "job", TASKS, *entries)]).overall
    assert people.review_lines(found) == ["trials: 1 to be settled, 1 left open", "deferred: 33.3% of first verdicts"]


def test_reports_have_a_short_section_and_no_markup_of_reviewers(job):
    document = make_document([job])
    out = io.BytesIO()
    write_markdown(document, out)
    comment, page = out.getvalue().decode(), render_html(document).decode()
    assert "### What people say\n" in comment
    assert "Cohen's κ is 1.000" in comment
    assert 'id="people"' in page
    assert "How far reviewers agree" in page
    assert MARKUP not in page
    assert "human" in page


def test_without_reviews_nothing_is_said(tmp_path):
    document = make_document([reviewed_job(tmp_path / "job", TASKS)])
    out = io.BytesIO()
    write_markdown(document, out)
    assert document.people is None
    assert b"people" not in out.getvalue()
    assert b'id="people"' not in render_html(document)
