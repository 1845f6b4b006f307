"""`seatrial classify` from outside: from recorded calls to behaviours, likeness, reports, and failures by name."""

import json
from pathlib import Path
from typing import Any

import pytest

from seatrial.store.job_store import JobStore
from tests.cli.conftest import Seatrial, Shown, cells
from tests.conftest import MakeTask
from tests.jobs.classified_jobs import LOOKS, TESTS, WRITES, classified_job, recorded

USUAL = [LOOKS, WRITES, TESTS] * 4


@pytest.fixture
def job(make_task: MakeTask, tmp_path: Path) -> JobStore:
    failing = recorded([LOOKS, WRITES, "./run"], ["a", "", "!boom"])
    return classified_job(
        make_task, tmp_path, {1: (1.0, recorded(USUAL)), 2: (1.0, recorded(USUAL)), 3: (0.0, failing), 4: (0.0, [])}
    )


def answered(*turns: str, **changed: Any) -> str:
    """What a judge answers to turns; a name with another answer in place of a sure `deliberation`."""
    table = {
        f"turn_{turn}": {"reason": "it plans", "quotes": [], "answer": "deliberation", "confidence": 0.9}
        for turn in turns
    }
    return json.dumps({**table, **changed})


def judged(seatrial: Seatrial, job: JobStore, script: Any, *more: str) -> Shown:
    path = job.path.parent / "judge.json"
    path.write_text(json.dumps(script))
    return seatrial("classify", job.path, "--judge", "scripted", "--upstream", f"scripted:{path}", *more)


def lines(shown: Shown) -> list[dict[str, Any]]:
    return [json.loads(line) for line in shown.out.splitlines()]


def test_rules_classify_every_turn_and_compare_with_other_passed_trials(seatrial: Seatrial, job):
    shown = seatrial("classify", job.path)
    assert shown.code == 0, shown.err
    assert "1 trial has no recorded turns" in shown.err
    rows = [cells(line) for line in shown.out.splitlines()]
    assert rows[0] == [
        "trial",
        "outcome",
        "source",
        "turns",
        "below 0.75",
        "others",
        "cosine",
        "cosine p",
        "distance",
        "distance p",
    ]
    assert rows[1] == ["add.noop.1", "pass", "mechanical", "12", "0", "1", "1.00", "0.005", "0.0 (0.00)", "0.005"]
    assert rows[3][:6] == ["add.noop.3", "fail", "mechanical", "3", "1", "2"]
    assert ["noop", "mechanical", "3", "27", "1"] in [row[:5] for row in rows]
    assert ["exploration", "0.00", "0.00", "0.00", "1.00"] in rows


def test_programs_get_a_line_for_each_trial(seatrial: Seatrial, job):
    third = lines(seatrial("classify", job.path, "--json"))[2]
    assert [(turn["behaviour"], turn["confidence"]) for turn in third["turns"]] == [
        ("exploration", 0.9),
        ("execution", 0.9),
        ("execution", 0.6),
    ]
    assert third["turns"][0] == {
        "call": 0,
        "thread": "main",
        "step": None,
        "behaviour": "exploration",
        "confidence": 0.9,
        "rationale": "runs ls",
        "unscored": None,
    }
    assert third["likeness"]["others"] == 2


def test_the_first_failing_step_has_its_place(seatrial: Seatrial, make_task, tmp_path):
    calls = recorded([LOOKS, "./run", "./run", WRITES], ["", "!boom", "!boom", ""])
    job = classified_job(make_task, tmp_path, {1: (0.0, calls)})
    (line,) = lines(seatrial("classify", job.path, "--json"))
    assert line["first_failure"] == {
        "call": 1,
        "thread": "main",
        "step": None,
        "at": 0.5,
        "reason": "bash (run): the tool says that it failed",
    }
    assert line["likeness"] is None
    assert "first failure" in seatrial("show", job.path, "add").out


def test_the_same_command_stores_nothing_twice(seatrial: Seatrial, job):
    seatrial("classify", job.path)
    before = (job.path / "behaviour.jsonl").read_bytes()
    seatrial("classify", job.path)
    assert (job.path / "behaviour.jsonl").read_bytes() == before


def test_a_trial_shows_its_turns_without_being_classified_before(seatrial: Seatrial, job):
    shown = seatrial("show", job.path, "add.noop.3").out
    assert "turns       3 turns: 2 execution, 1 exploration (1 with confidence below 0.75); mechanical" in shown
    assert not (job.path / "behaviour.jsonl").exists()


def test_a_report_has_the_behaviour_of_agents_once_it_is_classified(seatrial: Seatrial, job):
    before = seatrial("report", job.path, "-o", "-", "--format", "markdown").out
    assert "What agents did" not in before
    seatrial("classify", job.path)
    after = seatrial("report", job.path, "-o", "-", "--format", "markdown").out
    assert "What agents did, turn by turn" in after
    page = job.path.parent / "report.html"
    assert seatrial("report", job.path, "-o", page).code == 0
    assert "What did agents do?" in page.read_text()


def test_judges_classify_beside_rules_in_batches_with_earlier_turns(seatrial: Seatrial, job):
    script = [answered("0", "1", "2", "3", "4"), answered("5", "6", "7", "8", "9"), answered("10", "11")]
    shown = judged(seatrial, job, script, "--where", "attempt=1", "--json")
    assert shown.code == 0, shown.err
    rules, judges = lines(shown)
    assert (rules["source"], judges["source"]) == ("mechanical", "scripted")
    assert {turn["behaviour"] for turn in judges["turns"]} == {"deliberation"}
    assert len(judges["turns"]) == 12
    again = judged(seatrial, job, ["no answer"], "--where", "attempt=1", "--json")
    assert again.code == 0
    assert lines(again) == lines(shown)


def test_a_turn_that_does_not_come_back_is_unscored_and_the_others_stay(seatrial: Seatrial, job):
    doubled = answered("0")[:-1] + ', "turn_1": {"answer": "execution"}, "turn_1": {"answer": "execution"}}'
    script = [doubled, "hm", "hm", "hm"]
    (_, judges) = lines(judged(seatrial, job, script, "--where", "attempt=3", "--json"))
    assert [turn["behaviour"] for turn in judges["turns"]] == ["deliberation", None, None]
    assert "malformed" in judges["turns"][2]["unscored"] or "missing" in judges["turns"][2]["unscored"]
    shown = seatrial("show", job.path, "add.noop.3").out
    assert "3 turns: 1 deliberation (2 unscored); scripted" in shown


def test_a_confidence_that_is_none_leaves_its_turn_unscored(seatrial: Seatrial, job):
    wrong = {"reason": "r", "quotes": [], "answer": "execution", "confidence": 7}
    script = [answered("0", "2", turn_1=wrong)] * 4
    (_, judges) = lines(judged(seatrial, job, script, "--where", "attempt=3", "--json"))
    assert [turn["behaviour"] for turn in judges["turns"]] == ["deliberation", None, "deliberation"]
    assert "expected a confidence from 0 to 1, found 7" in judges["turns"][1]["unscored"]


def test_a_vocabulary_names_failures_which_become_tags_and_a_worklist(seatrial: Seatrial, job):
    answer = {"reason": "it edits tests", "quotes": [], "answer": ["reward_hacking", "Quite new!"]}
    guard = json.dumps({"addresses_evaluator": {"reason": "no", "quotes": [], "answer": False}})
    shown = judged(seatrial, job, [json.dumps({"harbor": answer}), guard], "--vocabulary", "harbor")
    assert shown.code == 0, shown.err
    tags = json.loads(seatrial("show", job.path, "add.noop.3", "--json").out)["evaluation"]["error_taxonomy"]
    assert [(tag["category"], tag["source"]) for tag in tags] == [("reward_hacking", "judge"), ("quite_new", "judge")]
    report = seatrial("report", job.path, "-o", "-", "--format", "markdown").out
    assert "What to do" in report
    assert "fix the verifier" in report
    page = job.path.parent / "report.html"
    seatrial("report", job.path, "-o", page)
    assert "fix the verifier" in page.read_text()


def test_a_vocabulary_of_ones_own_names_its_own_actions(seatrial: Seatrial, job):
    file = job.path.parent / "mine.toml"
    file.write_text(
        'guard = false\n[[question]]\nid = "mine"\ntext = "Which?"\nkind = "labels"\n'
        'labels = [{ name = "slow", text = "too slow", action = "buy a machine" }]\n'
    )
    answer = json.dumps({"mine": {"reason": "so", "quotes": [], "answer": ["slow"]}})
    assert judged(seatrial, job, [answer], "--vocabulary", str(file)).code == 0
    assert "buy a machine" in seatrial("report", job.path, "-o", "-", "--format", "markdown").out


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--vocabulary", "mast"], "add --judge MODEL"),
        (["--vocabulary", "most", "--judge", "x", "--upstream", "openai"], "there is no vocabulary 'most'"),
        (["--where", "attempt=4"], "there is nothing to classify"),
        (["--vocabulary", "mast", "--judge", "x", "--where", "attempt=1"], "no trial failed"),
    ],
)
def test_what_cannot_be_done_is_an_error(seatrial: Seatrial, job, more, said):
    shown = seatrial("classify", job.path, *more)
    assert shown.code in (1, 2)
    assert said in shown.err


def test_damaged_calls_leave_only_their_trial_out(seatrial: Seatrial, job):
    (job.trial_folder("add.noop.1") / "calls.jsonl").write_text("{\n")
    shown = seatrial("classify", job.path, "--json")
    assert shown.code == 0
    assert "2 trials have no recorded turns" in shown.err
    assert [line["trial_id"] for line in lines(shown) if line["turns"]] == ["add.noop.2", "add.noop.3"]


def test_a_job_of_an_earlier_version_is_read_with_its_assessments(seatrial: Seatrial, job):
    """Lines of before there were turns, confidence and actions."""
    line = {
        "id": "0" * 16,
        "trial_id": "add.noop.3",
        "rubric": "report",
        "rubric_digest": "a" * 64,
        "prompt_digest": "b" * 64,
        "evidence_digest": "c" * 64,
        "judges": [{"model": "j"}],
        "questions": [{"id": "units", "kind": "yes_no", "answer": True, "votes": [{"judge": "j", "answer": True}]}],
        "tags": [{"category": "cheating", "source": "judge"}],
        "started_at": "2026-05-01T12:00:00Z",
        "finished_at": "2026-05-01T12:00:00Z",
    }
    (job.path / "assessments.jsonl").write_text(json.dumps(line) + "\n")
    assert "assessment  report by j" in seatrial("show", job.path, "add.noop.3").out
    report = seatrial("report", job.path, "-o", "-", "--format", "markdown").out
    assert "propose a task" in report
    assert "What agents did" not in report
