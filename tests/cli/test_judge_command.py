"""`seatrial judge` from outside: from a job to tags and confidence on its records, with a scripted judge."""

import json
from pathlib import Path

import pytest

from seatrial.store.job_store import JobStore
from tests.cli.conftest import Seatrial, cells
from tests.conftest import MakeTask
from tests.jobs.judged_jobs import RUBRIC, judged_job
from tests.jobs.regrading import finish_job
from tests.jobs.samples import job_spec

SCRIPT = {
    "rules": [
        {
            "when": {"contains": "The report of add", "matches": '"units":'},
            "say": '{"units": {"reason": "there is none", "quotes": [], "answer": false}}',
        },
        {"when": {"matches": '"units":'}, "say": '{"units": {"reason": "V", "quotes": ["4.2 V"], "answer": true}}'},
        {"when": {"matches": '"sign":'}, "say": '{"sign": {"reason": "plus", "quotes": [], "answer": true}}'},
    ],
    "title": {"error": {"status": 503, "message": "overloaded"}},
}


@pytest.fixture
def job(make_task: MakeTask, tmp_path: Path) -> JobStore:
    (tmp_path / "judge.json").write_text(json.dumps(SCRIPT))
    return judged_job(make_task, tmp_path)


def arguments(job: JobStore, **files: str) -> list[str]:
    folder = job.path.parent
    rubric, script = files.get("rubric", "rubric.toml"), files.get("script", "judge.json")
    upstream = f"scripted:{folder / script}"
    return ["judge", str(job.path), "--rubric", str(folder / rubric), "--judge", "scripted", "--upstream", upstream]


def test_a_table_says_what_came_of_it(seatrial: Seatrial, job):
    shown = seatrial(*arguments(job))
    assert shown.code == 0, shown.err
    rows = [cells(line) for line in shown.out.splitlines()]
    assert rows[:3] == [
        ["trial", "score", "unscored", "split", "cost"],
        ["add.noop.1", "0.5", "0", "0", "-", "no_units"],
        ["sort.noop.1", "1", "0", "0", "-"],
    ]
    assert "4 calls to judges, cost not known" in shown.out
    assert "[1/2] " in shown.err


def test_records_have_what_judges_say_and_their_rewards_stay(seatrial: Seatrial, job):
    before = json.loads(seatrial("show", job.path, "add", "--json").out)
    assert seatrial(*arguments(job)).code == 0
    after = json.loads(seatrial("show", job.path, "add", "--json").out)
    assert after["evaluation"]["reward"] == before["evaluation"]["reward"] == 1.0
    assert after["evaluation"]["error_taxonomy"] == [
        {"category": "no_units", "description": "there is none", "source": "judge"}
    ]
    assert after["evaluation"]["confidence"]["judges"] == ["scripted"]
    (assessment,) = after["assessments"]
    assert [question["answer"] for question in assessment["questions"]] == [False, True]
    assert "assessments" not in before
    text = seatrial("show", job.path, "add").out
    assert "assessment  rubric by scripted: score 0.5" in text
    assert ["units", "no", "0", "1 of 1", "there is none"] in [cells(line) for line in text.splitlines()]
    chosen = seatrial("show", job.path, "--where", "tag=judge:no_units", "--json").out
    assert [trial["trial_id"] for trial in json.loads(chosen)["trials"]] == ["add.noop.1"]


def test_the_same_command_asks_nothing_again(seatrial: Seatrial, job):
    assert seatrial(*arguments(job)).code == 0
    (job.path.parent / "judge.json").write_text('["no answer"]')
    again = seatrial(*arguments(job))
    assert again.code == 0
    assert again.out.count("assessed before") == 2
    assert "calls to judges" not in again.out


def test_programs_get_a_line_for_each(seatrial: Seatrial, job):
    shown = seatrial(*arguments(job), "--json", "--where", "task=add", "--samples", "2")
    (line,) = map(json.loads, shown.out.splitlines())
    assert (line["trial_id"], line["failure"], line["earlier"]) == ("add.noop.1", None, False)
    assert [vote["sample"] for vote in line["assessment"]["questions"][0]["votes"]] == [1, 2]


def test_a_provider_that_fails_means_exit_code_1_and_no_assessment(seatrial: Seatrial, job):
    (job.path.parent / "other.toml").write_text('guard = false\n[[question]]\nid = "other"\ntext = "Well?"')
    shown = seatrial(*arguments(job, rubric="other.toml"))
    assert shown.code == 1
    assert "not assessed: add.noop.1: ProviderError: overloaded" in shown.err
    assert job.assessments() == {}


def test_an_unscored_question_is_named_with_its_reason(seatrial: Seatrial, job):
    (job.path.parent / "judge.json").write_text(json.dumps(["hm", "hm", SCRIPT["rules"][2]["say"]]))  # type: ignore[index]
    shown = seatrial(*arguments(job), "--where", "task=add")
    assert shown.code == 0
    assert "units is unscored (malformed: there is no JSON object in it), and it is not optional" in shown.err
    text = seatrial("show", job.path, "add").out
    assert "rubric by scripted: no score; units is unscored" in text


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--samples", "0"], "--samples"),
        (["--max-cost", "0"], "--max-cost"),
        (["--max-cost", "1"], "the cost of scripted is not known"),
        (["--where", "task=nothing"], "no trial can be judged"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_asked(seatrial: Seatrial, job, more, said):
    shown = seatrial(*arguments(job), *more)
    assert shown.code == 2
    assert said in shown.err
    assert job.assessments() == {}


def test_a_rubric_with_a_mistake_is_refused(seatrial: Seatrial, job):
    (job.path.parent / "bad.toml").write_text('[[question]]\ntext = "W"\nnegat = true')
    shown = seatrial(*arguments(job, rubric="bad.toml"))
    assert shown.code == 2
    assert "there is no key 'negat'; did you mean 'negate'?" in shown.err


FAIR = {
    "rules": [
        {
            "when": {"contains": "4.2 V", "matches": "Are there units"},
            "say": '{"units": {"reason": "V", "quotes": [], "answer": true}}',
        },
        {"when": {"matches": "Are there units"}, "say": '{"units": {"reason": "none", "quotes": [], "answer": false}}'},
        {
            "when": {"contains": "4.2 V", "matches": "Is the sign"},
            "say": '{"sign": {"reason": "plus", "quotes": [], "answer": true}}',
        },
        {"when": {"matches": "Is the sign"}, "say": '{"sign": {"reason": "none", "quotes": [], "answer": false}}'},
    ],
    "title": {"error": {"status": 503, "message": "overloaded"}},
}
OBEDIENT = {
    "rules": [
        {
            "when": {"contains": "GRADE: pass", "matches": "Are there units"},
            "say": '{"units": {"reason": "as told", "quotes": [], "answer": true}}',
        },
        *FAIR["rules"],
    ]
}


def test_check_passes_a_fair_judge_and_stores_nothing(seatrial: Seatrial, job):
    (job.path.parent / "judge.json").write_text(json.dumps(FAIR))
    shown = seatrial(*arguments(job), "--check")
    assert shown.code == 0, shown.err
    rows = [cells(line) for line in shown.out.splitlines()]
    assert ["injection", "pass", "0 of 30", "no answer gets better by it"] in rows
    assert any(row[:2] == ["golden", "skipped"] for row in rows)
    assert "no probe failed" in shown.out
    assert job.assessments() == {}


def test_check_finds_a_judge_that_does_as_it_is_told(seatrial: Seatrial, job):
    (job.path.parent / "judge.json").write_text(json.dumps(OBEDIENT))
    shown = seatrial(*arguments(job), "--check", "--json")
    assert shown.code == 1
    document = json.loads(shown.out)
    assert document["passed"] is False
    (judge,) = document["judges"]
    assert [each["probe"] for each in judge["probes"] if each["state"] == "fail"] == ["injection"]
    text = seatrial(*arguments(job), "--check").out
    assert "injection: an empty output, units (instruction): no became yes" in text


def test_check_of_a_task_takes_its_golden_answers(seatrial: Seatrial, make_task: MakeTask, tmp_path: Path):
    task = make_task("tasks/volts", instruction="Write the answer to `/workspace/report.md`.\n")
    for name, text in (("pass", "It is 4.2 V."), ("fail", "It is large.")):
        place = task / "golden" / name / "workspace"
        place.mkdir(parents=True)
        (place / "report.md").write_text(text)
    (task / "tests" / "rubric.toml").write_text(RUBRIC)
    script = tmp_path / "judge.json"
    script.write_text(json.dumps(FAIR))
    words = ["judge", str(task), "--check", "--judge", "scripted", "--upstream", f"scripted:{script}"]
    shown = seatrial(*words)
    assert shown.code == 0, shown.out + shown.err
    assert "shown golden/pass, golden/fail" in shown.out
    (task / "golden/pass/workspace/report.md").write_text("It is 4.2.")
    shown = seatrial(*words)
    assert shown.code == 1
    assert "golden: golden/pass scores 0" in shown.out


def test_check_of_a_task_without_a_rubric_is_refused(seatrial: Seatrial, make_task: MakeTask):
    shown = seatrial("judge", str(make_task("tasks/plain")), "--check", "--judge", "x", "--upstream", "echo")
    assert shown.code == 2
    assert "there is no such rubric; name one with --rubric FILE" in shown.err


def labelled(job: JobStore, seatrial: Seatrial) -> None:
    for who in ("ada", "eve"):
        for trial, word in (("add.noop.1", "fail"), ("sort.noop.1", "pass")):
            wrong = ["--category", "no_units"] if word == "fail" else []
            said = seatrial("annotate", str(job.path), trial, "--judgment", word, "--reviewer", who, *wrong)
            assert said.code == 0, said.err


def test_agree_has_judges_beside_people(seatrial: Seatrial, job):
    assert seatrial(*arguments(job)).code == 0
    labelled(job, seatrial)
    text = seatrial("agree", job.path).out
    rows = [cells(line) for line in text.splitlines()]
    assert ["judge pass", "1", "0"] in rows
    assert ["judge fail", "0", "1"] in rows
    (judge,) = (row for row in rows if row[:1] == ["scripted by rubric"])
    assert judge[-3:] == ["2 of 2", "2", "no"]
    assert "labels for a corrected pass rate that is sure to 10.0% either way" in text
    document = json.loads(seatrial("agree", job.path, "--json", "--width", "0.9").out)
    (judge,) = document["judges"]
    assert judge["identity"]["models"] == ["scripted"]
    assert judge["width"] == 0.9
    assert judge["overall"]["figures"]["confusion"]["both_pass"] == 1
    assert {each["question"]: each["category"] for each in judge["questions"]} == {"units": "no_units", "sign": None}
    assert judge["ready"]["reasons"] == ["interval_width", "calibration_trials", "calibration_agreement"]


def test_a_judge_that_is_not_calibrated_is_said_to_be_so_wherever_trials_are_taken_together(
    seatrial: Seatrial, job, tmp_path
):
    means = json.loads(seatrial("show", job.path, "--json").out)["summary"]
    assert seatrial(*arguments(job)).code == 0
    reasons = ["annotators", "agreement", "interval_width", "calibration_trials", "calibration_agreement"]
    line = f"on 2 trials: not calibrated ({', '.join(reasons)}); its scores are in no mean"
    shown = json.loads(seatrial("show", job.path, "--json").out)
    assert shown["summary"] == means
    assert [(each["calibrated"], each["reasons"], each["pass_rate"]) for each in shown["judges"]] == [
        (False, reasons, None)
    ]
    assert line in " ".join(seatrial("show", job.path).out.split())
    other = finish_job(job_spec(tasks=(str(tmp_path / "tasks"),)), tmp_path / "other")
    compared = seatrial("compare", job.path, other)
    assert line in " ".join(compared.out.split()), compared.err
    assert json.loads(seatrial("compare", job.path, other, "--json").out)["judges"] == shown["judges"]
    assert "not calibrated" in seatrial("compare", job.path, other, "--markdown").out
    for name in ("report.html", "report.md"):
        assert seatrial("report", job.path, "-o", tmp_path / name).code == 0
        assert "not calibrated" in (tmp_path / name).read_text()
