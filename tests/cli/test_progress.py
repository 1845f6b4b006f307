"""Which display suits the output, and that none of them can disturb the job."""

from pathlib import Path
from typing import Any

import pytest

from seatrial.cli.progress import Beginning, Board, LinesDisplay, Telling, TrialLines, choose_display
from seatrial.model.record import Failure, ModelUsage, VerifierRun
from seatrial.store.index import entry_of
from seatrial.trial.events import (
    Event,
    PhaseStarted,
    RolloutFinished,
    TrialFinished,
    TrialPassedOver,
    TrialRetried,
    TrialStarted,
)
from tests.cli.job_folders import BROKEN, FLAKY, record
from tests.store.test_drafts import revision


def started(name: str, tries: int = 1) -> Event:
    return TrialStarted(name, name, "oracle", tries)


def finished(name: str, result: Any) -> Event:
    return TrialFinished(record(name, result, trial_id=name))


def test_it_follows_a_trial():
    board = Board(2, [], 0.0)
    board.apply(started("a"), 1.0)
    assert board.running["a"].phase == "waiting"
    board.apply(PhaseStarted("a", "agent", "first"), 2.0)
    assert (board.running["a"].phase, board.running["a"].since) == ("agent (first)", 1.0)
    board.apply(TrialRetried("a", 1, FLAKY), 3.0)
    assert (board.running, board.retries) == ({}, 1)
    board.apply(started("a", 2), 4.0)
    board.apply(finished("a", 0.5), 5.0)
    assert (board.running, board.finished, board.means()) == ({}, 1, {"oracle": 0.5})


def test_what_is_passed_over_runs_no_more_and_counts_for_nothing():
    board = Board(1, [], 0.0)
    board.apply(started("a"), 1.0)
    board.apply(TrialPassedOver("a", "no end state was kept"), 2.0)
    assert (board.running, board.finished) == ({}, 0)


def test_a_trial_that_is_judged_again_is_not_paid_for_again():
    board = Board(1, [], 0.0)
    board.apply(TrialFinished(revision(1, 0.5, model_usage=ModelUsage(calls=1, cost_usd=2.0))), 1.0)
    assert (board.finished, board.cost_usd) == (1, None)


def test_only_scored_trials_are_in_the_mean():
    board = Board(4, [], 0.0)
    for name, result in (("a", 1.0), ("b", "verifier_error"), ("c", BROKEN), ("d", "no_output")):
        board.apply(finished(name, result), 1.0)
    assert (board.finished, board.means()) == (4, {"oracle": 0.5})


def test_each_agent_has_its_own_mean_by_the_name_it_has_in_the_job():
    board = Board(3, [], 0.0)
    for name, title, result in (("a", "mine", 1.0), ("b", "mine", 0.0), ("c", "theirs", 1.0)):
        board.apply(TrialStarted(name, name, title), 0.0)
        board.apply(finished(name, result), 1.0)
    assert board.means() == {"mine": 0.5, "theirs": 1.0}


def test_the_mean_so_far_is_over_tasks_as_that_of_the_summary():
    board = Board(4, [entry_of(record("a", 1.0), "oracle")], 0.0)
    for name, result in (("a", 1.0), ("a", 0.5), ("b", 0.0)):
        board.apply(finished(name, result), 1.0)
    assert board.means() == {"oracle": pytest.approx((2.5 / 3 + 0.0) / 2)}


def test_the_rest_takes_as_long_as_it_did_so_far():
    earlier = entry_of(record("x", 1.0), "oracle")
    board = Board(10, [earlier, earlier], 0.0)
    assert board.remaining_sec(5.0) is None
    assert (board.finished, board.means()) == (2, {"oracle": 1.0})
    for index in range(4):
        board.apply(finished(str(index), 1.0), 8.0)
    assert board.remaining_sec(8.0) == 8.0


def test_events_of_trials_it_does_not_know_are_taken_as_they_come():
    board = Board(1, [], 0.0)
    board.apply(PhaseStarted("late", "verify"), 1.0)
    assert board.running["late"].phase == "verify"


def test_what_is_known_to_be_spent_adds_up():
    paid: dict[str, Any] = {"model_usage": ModelUsage(calls=1, cost_usd=0.25)}
    board = Board(4, [entry_of(record("x", 1.0), "oracle")], 0.0)
    board.apply(finished("a", 1.0), 1.0)
    assert board.cost_usd is None
    for name in "bc":
        board.apply(TrialFinished(record(name, 1.0, trial_id=name, **paid)), 1.0)
    assert board.cost_usd == 0.5
    assert Board(4, [entry_of(record("x", 1.0, **paid), "oracle")], 0.0).cost_usd == 0.25


def test_rollouts_are_counted_by_what_their_outputs_say():
    board = Board(3, [], 0.0)
    for end in (
        RolloutFinished("example 0.1", "toy", "pass", 1.0),
        RolloutFinished("example 0.2", "toy", "infrastructure_error"),
        RolloutFinished("example 0.3", "toy", None),
    ):
        board.apply(end, 1.0)
    assert (board.finished, board.unjudged, board.means()) == (3, 1, {"toy": 1.0})


def test_an_observer_that_fails_is_told_nothing_more(caplog: pytest.LogCaptureFixture):
    told = []

    def fail(event: Event) -> None:
        told.append(event)
        raise RuntimeError("boom")

    tell = Telling(fail)
    tell(started("a"))
    tell(started("b"))
    assert told == [started("a")]
    assert "the display failed" in caplog.text


def test_lines_end_with_the_reader(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    display = LinesDisplay(lambda: 0.0)
    display.begin(Beginning("job", Path("job"), 1))
    monkeypatch.setattr("click.echo", lambda _: (_ for _ in ()).throw(BrokenPipeError))
    display.observe(finished("a", 1.0))


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"as_json": True, "quiet": True}, "JsonDisplay"),
        ({"as_json": False, "quiet": True}, "QuietDisplay"),
        ({"as_json": False, "quiet": False}, "LinesDisplay"),
    ],
)
def test_the_display_suits_the_output(options, kind):
    assert type(choose_display(**options)).__name__ == kind


@pytest.mark.parametrize(("term", "kind"), [("xterm", "LiveDisplay"), ("dumb", "LinesDisplay")])
def test_a_terminal_gets_the_live_display_if_it_can_draw(monkeypatch: pytest.MonkeyPatch, term, kind):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", term)
    assert type(choose_display(as_json=False, quiet=False)).__name__ == kind


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
