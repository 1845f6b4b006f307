"""`seatrial judge` from outside: from a job to tags and confidence on its records, with a scripted judge."""

import json
from pathlib import Path

import pytest

from seatrial.store.job_store import JobStore
from tests.cli.conftest import Seatrial, cells
from tests.conftest import MakeTask
from tests.jobs.judged_jobs import judged_job

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
