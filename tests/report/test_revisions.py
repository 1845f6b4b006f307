"""Why two verdicts on one end state differ, in words."""

import pytest

from seatrial.model.evaluation import EvaluationResult, ValidityCheck
from seatrial.model.record import Provenance, StepRecord, VerifierRun
from seatrial.report.revisions import compare, revision_rows
from tests.jobs.samples import broken_machine, evaluation, record
from tests.store.test_revisions import revision

TESTS, OTHERS = Provenance(tests_digest="a" * 64), Provenance(tests_digest="b" * 64)
FIRST = record(provenance=TESTS)
NOTHING_ELSE = (
    "another verdict by the same tests, options and Seatrial: the verifier goes by more than what the agent left"
)
SILENT = EvaluationResult(
    reward=0.0, validity=ValidityCheck(output_parseable=True, schema_valid=True, verifier_completed=False)
)


def later(reward: float = 0.5, provenance: Provenance = TESTS, **changes):
    """A revision by the same Seatrial, with changes of how it came about."""
    made = revision(1, reward, provenance=provenance)
    return made.model_copy(update={"regrade": made.regrade.model_copy(update=changes) if made.regrade else None})


def asked_twice(*rewards: float):
    """A revision whose verifier was asked more than once."""
    run = VerifierRun(duration_sec=1.0, isolation="guarded", repeats=rewards, repeated_in="fresh")
    return later().model_copy(update={"verifier_run": run})


def by_steps(made, digest: str):
    step = StepRecord(name="one", provenance=Provenance(tests_digest=digest * 64), evaluation=evaluation())
    return made.model_copy(update={"steps": (step,), "provenance": None})


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (FIRST, later(1.0), "the same verdict"),
        (FIRST, later(1.0, OTHERS), "the same verdict, by other tests"),
        (FIRST, later(provenance=OTHERS), "another verdict, by other tests"),
        (FIRST, later(provenance=OTHERS, tests="/t"), "another verdict, by other tests from /t"),
        (by_steps(FIRST, "a"), by_steps(later(), "c"), "another verdict, by other tests"),
        (FIRST, later(seatrial_version="0.3"), "another verdict, by Seatrial 0.3 and not 0.2"),
        (FIRST, later(task_digest="c" * 64), "another verdict, by other files of the task, though the same tests"),
        (
            FIRST,
            later(options={"trust": "as_left"}),
            "another verdict, by the option trust as_left and not as the job has it",
        ),
        (
            FIRST,
            later().model_copy(update={"evaluation": SILENT}),
            "another verdict, by a verifier that gave no verdict this time",
        ),
        (
            FIRST,
            asked_twice(0.5, 1.0),
            "another verdict, by a verifier that gave different rewards in 2 runs of it",
        ),
        (
            FIRST,
            later(),
            NOTHING_ELSE,
        ),
        (
            record(failure=broken_machine()),
            later(),
            "another verdict, by a verifier that could not be run before (no space left)",
        ),
    ],
)
def test_what_differs_is_named(before, after, told):
    assert compare(before, after, "0.2") == told


def test_a_row_for_each_revision_and_none_where_there_is_one():
    assert revision_rows([FIRST], "0.2") == []
    first, second = revision_rows([FIRST, asked_twice(0.5, 0.25)], "0.2")
    assert first[:4] == ("0", "pass", "1", "a" * 12)
    assert second[:3] == ("1", "partial", "0.5, 0.25")
