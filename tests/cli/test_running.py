"""Gates: each agent's mean, and the share of trials that could not be run."""

import pytest

from seatrial.analysis.summary import summarise
from seatrial.cli.running import Gates, missed_gates
from seatrial.store.index import entry_of
from tests.cli.job_folders import BROKEN, record

ENTRIES = [entry_of(record(str(index), 1.0), "good") for index in range(3)]
BAD = [entry_of(record("x", 0.25), "bad"), entry_of(record("y", BROKEN), "bad")]


@pytest.mark.parametrize(
    ("gates", "reasons"),
    [
        (Gates(), ["1 of 5 trials could not be run"]),
        (Gates(max_failed=0.2), []),
        (Gates(fail_under=0.25, max_failed=0.2), []),
        (Gates(fail_under=0.3, max_failed=0.2), ["bad: mean reward 0.25 is below --fail-under 0.3"]),
        (Gates(fail_under=0.3), ["bad: mean reward 0.25", "1 of 5 trials could not be run"]),
    ],
)
def test_every_agent_must_reach_the_mean_and_the_machinery_the_share(gates, reasons):
    found = missed_gates(summarise(ENTRIES + BAD, {"good": 3, "bad": 2}), gates)
    assert len(found) == len(reasons)
    assert all(line.startswith(reason) for line, reason in zip(found, reasons, strict=True))


def test_verifiers_that_cannot_judge_count_as_well():
    silent = [entry_of(record("z", "verifier_error"), "good")]
    summary = summarise(ENTRIES + silent, {"good": 4})
    (reason,) = missed_gates(summary, Gates())
    assert reason.startswith("the verifier could not judge 1 of 4 trials, more than the share --max-invalid 0")
    assert missed_gates(summary, Gates(max_invalid=0.25)) == []


def test_rounding_misses_no_gate():
    entries = [entry_of(record(str(index), 0.7), "a") for index in range(3)]
    assert missed_gates(summarise(entries, {"a": 3}), Gates(fail_under=0.7)) == []
    failed = [entry_of(record(str(index), BROKEN), "a") for index in range(29)]
    judged = [entry_of(record(str(index), 1.0), "a") for index in range(71)]
    assert missed_gates(summarise(failed + judged, {"a": 100}), Gates(max_failed=0.29)) == []


def test_an_empty_job_misses_only_the_mean():
    nothing = summarise([], {"good": 1})
    assert missed_gates(nothing, Gates()) == []
    assert missed_gates(nothing, Gates(fail_under=0.0)) == [
        "good: no scored trials, --fail-under wants a mean reward of 0"
    ]
