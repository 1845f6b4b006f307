"""Lines of a running job: columns that align, reasons, and a long reason told once."""

import pytest

from seatrial.cli.trial_lines import TrialLines
from seatrial.model.record import Failure, VerifierRun
from seatrial.trial.events import RolloutFinished, TrialRetried
from tests.cli.job_folders import record

LONG = "no sandbox could be started: the kernel refused a user namespace on attempt {}, see `seatrial doctor`"


def failed(number: int) -> Failure:
    return Failure(phase="setup", cause="SandboxError", message=LONG.format(number))


def test_the_columns_of_all_outcomes_align(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NO_COLOR", "1")
    lines = TrialLines()
    results = (1.0, 0.0, "no_output", "verifier_error", failed(1))
    shown = [lines.finished(record("crc", result, trial_id="crc.1")) for result in results]
    assert {line.index("crc.1") for line in shown} == {len("infrastructure_error      0    2.0 s  ")}


def test_a_long_reason_is_told_once_and_then_referred_to():
    lines = TrialLines()
    shown = [lines.finished(record("t", failed(index), trial_id=f"t.{index}")) for index in range(3)]
    assert LONG.format(0) in shown[0]
    assert [line.partition(": ")[2] for line in shown[1:]] == ["the same as t.0"] * 2


def test_a_short_reason_is_told_each_time():
    lines = TrialLines()
    shown = [lines.finished(record("t", "no_output", trial_id=f"t.{index}")) for index in range(2)]
    assert [line.partition(": ")[2] for line in shown] == ["so it was"] * 2


def test_a_trial_that_fails_again_for_the_same_reason_says_so():
    lines = TrialLines()
    first = lines.retried(TrialRetried("t", 1, failed(1)))
    last = lines.finished(record("t", failed(2), trial_id="t"))
    assert first.startswith("trying again")
    assert "try 2  t: no sandbox" in first
    assert last.endswith("t: the same again")


def test_noteworthy_is_what_counts_do_not_tell_and_each_long_reason_once():
    lines = TrialLines()
    restored = VerifierRun(duration_sec=1, isolation="guarded", restored=(f"/usr/{'x' * 60}",), restored_count=1)
    doubtful = [record(task, 0.0, trial_id=task, verifier_run=restored) for task in "ab"]
    shown = [lines.noteworthy(each) for each in (record("t", 0.0), record("t", 1.0), *doubtful)]
    assert [bool(line) for line in shown] == [False, False, True, False]
    assert "a: put back for the verifier: /usr/xxx" in str(shown[2])
    failures = [lines.noteworthy(record("t", failed(number), trial_id=f"t.{number}")) for number in range(3)]
    assert [bool(line) for line in failures] == [True, False, False]


def test_rollouts_have_the_columns_of_trials_and_reasons_that_are_told_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NO_COLOR", "1")
    lines = TrialLines()
    shown = lines.rollout(RolloutFinished("example 0.1", "toy", "pass", 1.0, 2.0))
    assert shown.index("example") == len("infrastructure_error      0    2.0 s  ")
    assert lines.rollout(RolloutFinished("b", "toy", None)).startswith("not judged")
    assert lines.noteworthy_rollout(RolloutFinished("a", "toy", "pass", 1.0)) is None
    failures = [RolloutFinished(f"c.{n}", "toy", "infrastructure_error", reason=LONG.format(n)) for n in range(2)]
    first, again = map(lines.noteworthy_rollout, failures)
    assert (LONG.format(0) in str(first), again) == (True, None)
