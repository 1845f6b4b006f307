"""Readiness: each gate with what was found, and reasons that programs can read."""

from seatrial.review.agreement import agreement_report, readiness
from tests.review.journals import reviewed_job, said

TASKS = [f"t{number:02}" for number in range(60)]


def job(folder, errors=0, gold=60, people=("ada", "eve")):
    """Every second task is right; eve is wrong about the first ones."""
    entries = []
    for number, task in enumerate(TASKS):
        right = "pf"[number % 2]
        wrong = "fp"[number % 2]
        for who in people:
            what = wrong if who == "eve" and number < errors else right
            entries.append(said(f"{task}.oracle.1", who, what))
        if number < gold:
            entries.append(said(f"{task}.oracle.1", "kim", right, role="gold"))
    return reviewed_job(folder, dict.fromkeys(TASKS, 1.0), *entries)


def judged(job):
    return readiness(agreement_report([job]).overall)


def test_all_gates_are_open_where_people_agree_and_are_right(tmp_path):
    found = judged(job(tmp_path / "job"))
    assert (found.state, found.reasons) == ("open", ())
    assert [gate.name for gate in found.gates] == [
        *("annotators", "agreement", "interval_width", "calibration_trials", "calibration_agreement"),
    ]


def test_each_gate_that_is_closed_is_a_reason(tmp_path):
    found = judged(job(tmp_path / "job", errors=14, gold=5))
    assert found.state == "closed"
    assert found.reasons == ("agreement", "interval_width", "calibration_trials", "calibration_agreement")
    agreement, width, trials, right = found.gates[1:]
    assert (agreement.relation, agreement.needed, width.relation, width.needed) == ("at least", 0.8, "below", 0.2)
    assert trials.reason == "found 5 by ada, needed at least 12"
    assert right.reason == "found 0 by eve, needed at least 0.8"


def test_one_reviewer_is_not_enough_and_agreement_cannot_be_told(tmp_path):
    found = judged(job(tmp_path / "job", people=("ada",)))
    assert found.state == "closed"
    assert found.reasons == ("annotators", "agreement", "interval_width")
    assert [gate.state for gate in found.gates[:3]] == ["closed", "unknown", "unknown"]


def test_without_any_review_nobody_can_tell(tmp_path):
    found = judged(reviewed_job(tmp_path / "job", {"t1": 1.0}))
    assert found.state == "unknown"
    assert found.gates[0].reason == "nobody has reviewed anything"
