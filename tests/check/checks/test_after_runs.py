"""V12: what runs say, only where chance does not explain it."""

from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.check.checks.after_runs import AfterRuns, PastAttempt, PastRuns, anomalies, collect, read_runs
from seatrial.errors import SeatrialError
from seatrial.model.outcome import Outcome
from seatrial.tasks.layout import digest_folder
from tests.check.trying import make_subject
from tests.trial.support import write_task

HERE, THERE = "here", "there"


def tries(agent: str, *values: float, task: str = HERE) -> list[PastAttempt]:
    return [PastAttempt(task, agent, "pass" if value == 1 else "fail", value) for value in values]


def silent(agent: str, count: int, outcome: Outcome = "verifier_error") -> list[PastAttempt]:
    return [PastAttempt(HERE, agent, outcome, 0.0 if outcome == "verifier_error" else None)] * count


def codes(*attempts: Iterable[PastAttempt]) -> list[str]:
    return [odd.code for odd in anomalies(HERE, collect(chain(*attempts)))]


ABLE = tries("a", 1, 1, 0, 1, task=THERE)


@pytest.mark.parametrize(
    ("attempts", "expected"),
    [
        ([tries("a", *[0] * 4), tries("b", *[0] * 4), ABLE], ["always-zero"]),
        ([tries("a", *[0] * 4), tries("b", *[0] * 4)], []),
        ([tries("a", *[0] * 4), tries("b", *[0] * 3, 0.1), ABLE], []),
        ([tries("a", *[0] * 3), tries("b", *[0] * 4), ABLE], []),
        ([tries("a", *[0] * 9), ABLE], []),
        ([tries("a", *[1] * 4), tries("b", *[1] * 4)], ["always-one"]),
        ([silent("a", 6), tries("a", 1)], ["no-verdicts"]),
        ([silent("a", 3), tries("a", 1)], []),
        ([silent("a", 9, "infrastructure_error"), tries("a", 1)], []),
        ([silent("a", 10), tries("a", *[0] * 10)], []),
        ([[PastAttempt(HERE, agent, "no_output", 0.0)] * 4 for agent in "ab"] + [ABLE], []),
    ],
    ids=[
        "zero",
        "nobody able",
        "once more than zero",
        "too few",
        "one agent",
        "one",
        "silent",
        "4",
        "machine",
        "half",
        "no output",
    ],
)
def test_what_is_odd(attempts: list[list[PastAttempt]], expected: list[str]) -> None:
    assert codes(*attempts) == expected


def test_a_weak_agent_beats_a_strong_one() -> None:
    elsewhere = [*tries("weak", *[0] * 20, task=THERE), *tries("strong", *[1] * 20, task=THERE)]
    here = [*tries("weak", *[1] * 8), *tries("strong", *[0] * 8)]
    (odd,) = anomalies(HERE, collect([*elsewhere, *here]))
    assert (odd.code, odd.weight) == ("weak-beats-strong", "minor")
    assert odd.message == "weak gets 1.00 and strong 0.00 here; elsewhere it is 0.00 to 1.00"
    assert codes(elsewhere, tries("weak", 1, 1, 1, 0, 0), tries("strong", 0, 0, 1, 0, 0)) == []
    assert codes(elsewhere[:3], elsewhere[20:23], here) == []
    assert codes(elsewhere, tries("strong", *[1] * 8), tries("weak", *[0] * 8)) == []


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([HERE, THERE]), st.floats(0, 1)), max_size=40))
@settings(max_examples=40, deadline=None)
def test_any_rewards(rows: list[tuple[str, str, float]]) -> None:
    for odd in anomalies(HERE, collect(PastAttempt(task, agent, "partial", value) for agent, task, value in rows)):
        assert odd.message


def test_only_runs_of_the_very_same_task_count(tmp_path: Path) -> None:
    root = write_task(tmp_path)
    subject = make_subject(root)
    digest = digest_folder(root)
    attempts = [PastAttempt(digest, agent, "pass", 1.0) for agent in "aabbaabb"]
    found = AfterRuns(collect(attempts, ["jobs/my job"])).findings(subject, {})
    assert [finding.id for finding in found.findings] == ["V12/always-one"]
    assert found.findings[0].reproduce == f"seatrial check {subject.name} --only V12 --runs 'jobs/my job'"
    assert found.outcome.figures == {"attempts": 8, "scored": 8, "mean": 1.0}
    assert AfterRuns(PastRuns({})).findings(subject, {}).outcome.status == "skipped"


def test_a_folder_that_is_no_job(tmp_path: Path) -> None:
    with pytest.raises(SeatrialError):
        read_runs([tmp_path])
