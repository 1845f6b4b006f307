"""A trial in words: what was not counted is said to be not counted, and nothing is claimed that was not measured."""

import pytest

from seatrial.model.evaluation import ClaimedAgreement, ConfidenceMetadata, EvaluationResult, ValidityCheck
from seatrial.model.record import (
    AgentRef,
    LimitSpec,
    ModelUsage,
    Provenance,
    ResourceUse,
    SandboxRef,
    StepRecord,
    VerifierRun,
)
from seatrial.report.trial import breakdown_table, compare, confidence, evidence, headline, machine, revisions_table
from tests.cli.job_folders import BROKEN, record
from tests.jobs.samples import broken_machine, evaluation
from tests.jobs.samples import record as samples_record
from tests.store.test_drafts import revision


def test_an_agent_is_named_with_its_version_and_model():
    agent = AgentRef(name="codex", version="0.166.0", model="gpt-5")
    assert dict(headline(record("t", 1.0).model_copy(update={"agent": agent})))["agent"] == "codex 0.166.0 · gpt-5"


def test_a_reward_of_a_verifier_that_could_not_judge_is_not_counted():
    assert dict(headline(record("t", "verifier_error")))["reward"] == "0, not counted: the verifier could not judge"


def test_a_failure_has_no_reward_and_a_reason():
    facts = dict(headline(record("t", BROKEN)))
    assert facts["reward"] == "none: the trial was never judged"
    assert facts["failure"] == "the disk  [31mburns (SandboxError, while the sandbox was set up)"


def test_another_threshold_is_said():
    assert dict(headline(record("t", 0.5, pass_threshold=0.5)))["reward"] == "0.5 (passes from 0.5)"


def test_a_verifier_out_of_time_is_said():
    run = VerifierRun(timed_out=True, duration_sec=600.0, isolation="kill")
    assert dict(evidence(record("t", "verifier_error", verifier_run=run), None)) == {
        "verifier": "timed out after 10 min 00 s",
        "isolation": "kill",
    }


@pytest.mark.parametrize(
    ("baseline", "outcome", "said"),
    [
        ("judged", "fail", "so this agent silenced it"),
        ("silent", "verifier_error", "gives no verdict even where no agent"),
    ],
)
def test_what_a_silent_verifier_does_without_an_agent_is_said(baseline, outcome, said):
    run = VerifierRun(duration_sec=1.0, isolation="guarded", baseline=baseline)
    told = record("t", "verifier_error", verifier_run=run)
    assert (told.outcome, said in dict(evidence(told, None))["baseline"]) == (outcome, True)


@pytest.mark.parametrize(
    ("use", "said"), [(ResourceUse(), "not measured"), (ResourceUse(disk_bytes=2**20), "1.0 MiB disk")]
)
def test_what_was_not_measured_is_not_claimed(use, said):
    assert dict(machine(record("t", 1.0, resources=use)))["used"] == said


def test_limits_are_told_and_those_that_do_not_hold_apart():
    asked, ours = LimitSpec(memory_mb=64, cpus=0.5), LimitSpec(memory_mb=64, cpus=0.5, pids=9)
    sandbox = SandboxRef(backend="b", image="i", network="none", limits_asked=asked, limits_enforced=ours)
    assert dict(machine(record("t", 1.0, sandbox=sandbox))) == {
        "sandbox": "b, image i, network none",
        "limits": "cpus 0.5, memory_mb 64, pids 9",
    }
    weaker = sandbox.model_copy(update={"limits_enforced": LimitSpec(cpus=0.5)})
    facts = dict(machine(record("t", 1.0, sandbox=weaker)))
    assert (facts["limits"], facts["not held"]) == ("cpus 0.5", "memory_mb 64")
    open_to_all = weaker.model_copy(update={"network": "host", "network_asked": "none"})
    assert open_to_all.not_held == {"memory_mb": 64, "network": "none"}


def test_the_models_share_is_told_with_its_cost():
    usage = ModelUsage(calls=3, input_tokens=100, output_tokens=20, cost_usd=0.01234)
    facts = dict(machine(record("t", 1.0, model_usage=usage)))
    assert "left out" not in facts
    usage = usage.model_copy(update={"omitted": ("store", "tools[3] (web_search)")})
    facts = dict(machine(record("t", 1.0, model_usage=usage)))
    assert facts["left out"] == "store, tools[3] (web_search) (the model's dialect has no place for it)"
    assert facts["model"] == "3 calls, 100 tokens in, 20 out, 0.0123 USD"


def test_how_sure_one_may_be_is_told_once():
    evaluation = record("t", 1.0).evaluation
    assert evaluation is not None
    assert confidence(evaluation) == ""
    sure = ConfidenceMetadata(annotator_count=3, confidence_interval=(0.25, 1.0), agreement_metric="kappa")
    told = evaluation.model_copy(update={"confidence": sure, "breakdown": {"confidence": {"annotator_count": 3}}})
    assert confidence(told) == "annotator count 3, agreement metric kappa, confidence interval 0.25 to 1"
    reviewed = ConfidenceMetadata(annotator_count=1, claimed=ClaimedAgreement(annotator_count=3))
    told = evaluation.model_copy(update={"confidence": reviewed})
    assert confidence(told) == "annotator count 1; the verifier claims annotator count 3"
    assert breakdown_table(told).rows == []


def test_verdicts_of_repeats_are_told_with_where_they_were_given():
    run = VerifierRun(duration_sec=1.0, isolation="guarded", repeats=(1.0, None, 0.5), repeated_in="fresh")
    facts = dict(evidence(record("t", 0.5, verifier_run=run), None))
    assert facts["repeats"] == "1, no verdict and 0.5, in a fresh sandbox each; the lowest counts"


TESTS, OTHERS = Provenance(tests_digest="a" * 64), Provenance(tests_digest="b" * 64)
FIRST = samples_record(provenance=TESTS)
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
            samples_record(failure=broken_machine()),
            later(),
            "another verdict, by a verifier that could not be run before (no space left)",
        ),
    ],
)
def test_what_differs_is_named(before, after, told):
    assert compare(before, after, "0.2") == told


def test_a_row_for_each_revision_and_none_where_there_is_one():
    assert revisions_table([FIRST], "0.2").rows == []
    first, second = revisions_table([FIRST, asked_twice(0.5, 0.25)], "0.2").rows
    assert first[:4] == ("0", "pass", "1", "a" * 12)
    assert second[:3] == ("1", "partial", "0.5, 0.25")
