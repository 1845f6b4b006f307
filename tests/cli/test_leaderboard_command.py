"""`seatrial leaderboard`: a row for each arm, with notes; as a table, JSON and Markdown."""

import json
import re

import pytest

from seatrial.model.record import ModelUsage
from tests.cli.conftest import SEATRIAL, Seatrial, cells, on_terminal
from tests.cli.job_folders import BROKEN, make_job, record

USAGE = ModelUsage(calls=1, input_tokens=10, output_tokens=1, cost_usd=0.25)


@pytest.fixture
def job(tmp_path):
    """Two agents that are far apart, on ten tasks; one has no verdict at a task."""
    records = [record(f"task-{n}", 1.0, "good", model_usage=USAGE) for n in range(9)]
    records += [record("task-9", BROKEN, "good", model_usage=USAGE)]
    records += [record(f"task-{n}", 0.0, "weak|`@x`") for n in range(10)]
    make_job(tmp_path / "job", *records)
    return tmp_path / "job"


def test_a_row_for_each_arm_with_the_ranks_it_may_have(seatrial: Seatrial, job):
    shown = seatrial("leaderboard", job)
    assert shown.code == 0
    answer, columns, first, second, *lines = shown.out.splitlines()
    assert answer == "good is first: better than every other, beyond chance."
    assert cells(columns)[:4] == ["rank", "tie", "agent", "mean"]
    assert [*cells(first)[:4], cells(first)[-1]] == ["1", "A", "good [1]", "1.000", "0.2778"]
    assert [*cells(second)[:4], cells(second)[-1]] == ["2", "B", "weak|`@x`", "0.000", "-"]
    assert lines[0] == "[1] judged on 9 of its 10 tasks"
    assert "1 pair compared on the tasks that both were judged on" in lines[2]


def test_as_json(seatrial: Seatrial, job):
    document = json.loads(seatrial("leaderboard", job, "--json").out)
    assert [row["label"] for row in document["rows"]] == ["good", "weak|`@x`"]
    assert document["rows"][0]["rank"]["worst"] == 1
    assert document["rows"][0]["notes"] == [1]
    assert document["notes"] == ["judged on 9 of its 10 tasks"]
    assert document["rows"][0]["figures"]["mean"]["groups"] == 9


def test_markdown_keeps_strangers_names_in_their_cells(seatrial: Seatrial, job):
    table, *_ = seatrial("leaderboard", job, "--markdown").out.split("\n\n")
    rows = table.splitlines()
    assert len({row.count("|") for row in rows}) == 1
    assert "`" not in table
    assert rows[2].startswith("| 1 | A | <code>good</code> [1] | 1.000 |")


def test_what_cannot_be_ranked_is_refused(seatrial: Seatrial, job, tmp_path):
    chosen = seatrial("leaderboard", job, "--where", "outcome=pass")
    assert chosen.code == 2
    assert "trials that are chosen by what became of them cannot be ranked" in chosen.err
    assert "no trial is as asked for by --where task=none" in seatrial("leaderboard", job, "--where", "task=none").err
    assert "-1 is not in the range x>=0" in seatrial("leaderboard", job, "--seed", "-1").err
    assert seatrial("leaderboard", job, "--json", "--markdown").code == 2
    assert seatrial("leaderboard", tmp_path / "gone").code == 2
    assert seatrial("leaderboard").code == 2


@pytest.mark.parametrize("command", [("leaderboard",), ("show",), ("report", "-o", "-", "--format", "csv")])
def test_a_job_that_is_named_twice_does_not_count_twice(seatrial: Seatrial, job, command):
    twice = seatrial(*command, job, job.parent / "." / ".." / job.parent.name / job.name)
    assert (twice.code, twice.out) == (2, "")
    assert "is given twice, and its trials would count twice; name each job once" in twice.err


def test_jobs_without_verdicts_have_no_ranks(seatrial: Seatrial, tmp_path):
    make_job(tmp_path / "empty", missing_tasks=2)
    make_job(tmp_path / "broken", record("crc", BROKEN, "agent"))
    shown = seatrial("leaderboard", tmp_path / "empty", tmp_path / "broken")
    assert shown.code == 0
    assert shown.out.startswith("No agent has a mean that could be ranked.\n")
    assert [cells(line)[:2] for line in shown.out.splitlines()[2:4]] == [["-", "-"], ["-", "-"]]


def test_usual_names_fit_80_columns(job):
    shown = on_terminal((*SEATRIAL, "leaderboard", str(job)), columns=80)
    lines = [re.sub(r"\x1b\[\d*m", "", line) for line in shown.splitlines()]
    assert [line for line in lines if len(line) > 80] == []
