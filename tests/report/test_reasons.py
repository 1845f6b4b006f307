"""The reason beside an outcome: the verifier's word, a time-out, a limit that was reached, a failure in words."""

from typing import Any

import pytest

from seatrial.model.evaluation import ErrorSource, ErrorTag, EvaluationResult, ValidityCheck
from seatrial.model.job import ModelOptions
from seatrial.model.record import AgentResult, Failure, ModelUsage, TrialRecord, VerifierRun
from seatrial.report.reasons import reason
from tests.cli.job_folders import record


def judged(reward: float, *tags: ErrorTag, breakdown: Any = None, **more: Any) -> TrialRecord:
    valid = ValidityCheck(output_parseable=True, schema_valid=True, verifier_completed=True)
    found = EvaluationResult(reward=reward, validity=valid, breakdown=breakdown, error_taxonomy=list(tags) or None)
    return record("t", reward, evaluation=found, **more)


def tag(category: str, description: str | None = None) -> ErrorTag:
    return ErrorTag(category=category, description=description, source=ErrorSource.MECHANICAL)


def agent(status: Any, code: int | None) -> AgentResult:
    return AgentResult(status=status, exit_code=code, duration_sec=90.0)


def test_what_reviewers_say_is_no_reason_of_a_verifier():
    reviewed = ErrorTag(category="wrong-method", description="said by ada", source=ErrorSource.HUMAN)
    found = judged(0.5, reviewed, breakdown={"v": {"score": 0, "evidence": "found 3"}})
    assert reason(found) == "v: found 3"
    assert reason(judged(0.5, reviewed)) == ""


def test_a_pass_needs_no_reason():
    assert reason(judged(1.0, tag("unit_mismatch", "odd"), agent_result=agent("exited", 3))) == ""


@pytest.mark.parametrize(
    ("tags", "breakdown", "said"),
    [
        ((tag("output_missing", "/a does not exist; so it is"), tag("no_output", "/a: no file")), None, "/a: no file"),
        ((tag("output_missing", "/a does not exist; so it is"),), None, "/a does not exist"),
        ((tag("late"),), None, "late"),
        ((tag("program_changed", "programs"),), {"v": {"score": 0, "evidence": "found 3"}}, "v: found 3"),
        ((), {"u": {"score": 1}, "v": {"score": 1, "max_score": 2, "evidence": "half"}, "w": 7}, "v: half"),
        ((), {"v": {"score": 0}}, ""),
    ],
)
def test_a_failed_trial_has_the_verifiers_own_reason(tags, breakdown, said):
    assert reason(judged(0.0, *tags, breakdown=breakdown)) == said


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (agent("timed_out", None), "the agent ran out of time after 1 min 30 s"),
        (agent("killed", -9), "the agent was killed"),
        (agent("exited", 127), "the agent exited with 127"),
        (agent("exited", 0), ""),
    ],
)
def test_how_the_agent_ended_is_told_with_a_zero(result, said):
    assert reason(judged(0.0, agent_result=result)) == said


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (ModelOptions(max_turns=3), "the agent used up its 3 model calls"),
        (ModelOptions(max_tokens=120), "the agent used up its 120 tokens"),
        (ModelOptions(max_cost_usd=0.5), "the agent used up its 0.5 USD"),
        (ModelOptions(max_turns=4, max_tokens=121, max_cost_usd=0.6), ""),
    ],
)
def test_a_limit_that_was_reached_is_told(limits, said):
    used = ModelUsage(calls=3, input_tokens=100, output_tokens=20, cost_usd=0.5)
    assert reason(judged(0.0, model_usage=used), limits) == said
    assert reason(judged(1.0, model_usage=used), limits) == ""


def test_what_was_kept_from_the_verifier_is_told_also_of_a_pass():
    restored = ("/usr/bin/python3",)
    run = VerifierRun(
        duration_sec=1,
        isolation="guarded",
        restored=restored,
        restored_count=3,
        hidden=("/a.pth",),
        hidden_count=1,
    )
    told = (
        "disputed: 1 on the system as the agent left it; put back for the verifier: /usr/bin/python3 and 2 more; "
        "hidden from the verifier: /a.pth"
    )
    assert reason(judged(0.5, verifier_run=run, disputed_reward=1.0, pass_threshold=0.5)) == told


def test_a_verifier_without_a_verdict_says_why():
    assert reason(record("t", "verifier_error")) == "nothing"
    slow = VerifierRun(duration_sec=1, isolation="guarded", timed_out=True)
    assert reason(record("t", "verifier_error", verifier_run=slow)) == "the verifier ran out of time"


def test_a_failure_says_what_happened_before_where():
    failure = Failure(phase="agent", cause="ProviderError", message="the provider answered 500")
    assert reason(record("t", failure)) == "the provider answered 500 (ProviderError, while the agent worked)"


def test_a_reason_is_not_endless():
    assert len(reason(judged(0.0, tag("x", "y" * 5000)))) < 300


def test_a_verifier_that_differs_from_itself_is_told_also_of_a_pass():
    said = "asked 2 times about the same end state, the verifier gave 1 each time, but its breakdown differs in `a`"
    tag = ErrorTag(category="nondeterministic_verifier", description=said, source=ErrorSource.MECHANICAL)
    passed = record("t", 1.0).evaluation
    assert passed is not None
    assert reason(record("t", 1.0, evaluation=passed.model_copy(update={"error_taxonomy": [tag]}))) == said
