"""`seatrial regrade` from outside: what it judges, what it says, its exit codes, and what `show` makes of it."""

import json
import re
from pathlib import Path

import pytest

from seatrial.errors import UsageError
from seatrial.jobs import regrade as module
from seatrial.testing.null import NullBackend
from seatrial.trial.regrade import RegradeSpec
from tests.backends.stand_ins import stand_in
from tests.cli.conftest import Seatrial, cells
from tests.conftest import MakeTask
from tests.jobs.regrading import FakeRegrades, finish_job
from tests.jobs.samples import job_spec


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeRegrades:
    stand_in(monkeypatch, NullBackend)
    made = FakeRegrades()
    monkeypatch.setattr(module, "regrade_trial", made)
    return made


@pytest.fixture
def job(make_task: MakeTask, tmp_path: Path) -> Path:
    for name in ("add", "sort"):
        make_task(f"tasks/{name}")
    return finish_job(job_spec(tasks=(str(tmp_path / "tasks"),)), tmp_path / "job")


def test_trials_are_judged_again_and_both_verdicts_are_told(seatrial: Seatrial, fake, job):
    shown = seatrial("regrade", job, "-n", "1")
    assert shown.code == 0
    assert "[1/2] partial " in shown.out
    assert "add.noop.1: was pass with 1 when it ran" in shown.out
    assert "noop: 2 trials were judged again; the mean was 1.000 before" in shown.out
    of_job, of_trial = seatrial("show", job), seatrial("show", job, "add")
    assert "partial, revision 1" in of_job.out
    rows = [cells(line) for line in of_trial.out.splitlines() if re.match(r"[01] ", line)]
    assert [row[:3] for row in rows] == [["0", "pass", "1"], ["1", "partial", "0.5"]]
    assert rows[1][-1].startswith("another verdict")


def test_programs_get_all_of_it(seatrial: Seatrial, fake, job):
    events = [json.loads(line) for line in seatrial("regrade", job, "--json").out.splitlines()]
    assert [event["revision"] for event in events if event["event"] == "trial_finished"] == [1, 1]
    assert events[-1]["summary"]["total"]["first_mean"] == 1.0
    trial = json.loads(seatrial("show", job, "add", "--json").out)
    assert (trial["revision"], trial["parent"]) == (1, "add.noop.1")
    assert [each["evaluation"]["reward"] for each in trial["revisions"]] == [1.0, 0.5]
    whole = json.loads(seatrial("show", job, "--json").out)
    assert [(entry["revision"], entry["first_reward"]) for entry in whole["trials"]] == [(1, 1.0), (1, 1.0)]


def test_what_cannot_be_judged_again_is_named_and_the_exit_code_says_so(seatrial: Seatrial, fake, job):
    def act(asked: RegradeSpec) -> float:
        if asked.spec.task.id == "add":
            raise UsageError(f"{asked.spec.trial_id}: no end state was kept")
        return 1.0

    fake.act = act
    shown = seatrial("regrade", job)
    assert shown.code == 1
    assert "not judged again" in shown.out
    assert "1 trial was not judged again, and the verdicts stay:\n  add.noop.1: no end state was kept" in shown.err
    told = [json.loads(line) for line in seatrial("regrade", job, "--json").out.splitlines()]
    assert [event["reason"] for event in told if event["event"] == "trial_passed_over"] == ["no end state was kept"]


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        (["--trial", "add"], ["add"]),
        (["--where", "task=s*"], ["sort"]),
        (["--only-changed"], []),
    ],
)
def test_only_some_trials(seatrial: Seatrial, fake, job, options, asked):
    assert seatrial("regrade", job, *options).code == 0
    assert [each.spec.task.id for each in fake.asked] == asked


def test_options_of_the_verification_and_gates(seatrial: Seatrial, fake, job):
    shown = seatrial("regrade", job, "--trust", "as-left", "--repeat", 3, "--fail-under", 0.75)
    assert (shown.code, "is below --fail-under 0.75" in shown.err) == (1, True)
    assert {each.spec.options.trust for each in fake.asked} == {"as_left"}
    assert {each.spec.options.verify_repeats for each in fake.asked} == {3}
    assert [each.options for each in fake.asked] == [{"trust": "as_left"}] * 2


def test_what_is_not_there_is_a_mistake_of_the_user(seatrial: Seatrial, fake, job, tmp_path):
    assert seatrial("regrade", tmp_path / "none").code == 2
    shown = seatrial("regrade", job, "--tests", tmp_path / "none")
    assert (shown.code, "no such folder" in shown.err, fake.asked) == (2, True, [])


def test_a_trial_of_a_newer_version_is_not_judged_again(seatrial: Seatrial, fake, job):
    later = job / "revisions" / "add.noop.1.1"
    later.mkdir(parents=True)
    (later / "record.json").write_text('{"schema_version": 2}')
    shown = seatrial("regrade", job)
    assert "revision add.noop.1.1 does not count: its record.json has version 2" in shown.err
    assert "it is left alone" in shown.err
    assert [path.name for path in (job / "revisions").iterdir()] == ["add.noop.1.1", "sort.noop.1.1"]
