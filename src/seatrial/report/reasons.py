"""Why a trial ended as it did, on one line: what somebody who watches a job wants to read beside the outcome.

The words are the verifier's own where it said why; they are a stranger's, so callers pass them through `harmless`.
"""

from collections.abc import Iterator

from seatrial.model.evaluation import (
    NEEDS_SYSTEM,
    NONDETERMINISTIC,
    OUTPUT_MISSING,
    OUTPUT_UNPARSEABLE,
    ErrorSource,
    ErrorTag,
    EvaluationResult,
)
from seatrial.model.job import ModelOptions
from seatrial.model.outcome import format_reward
from seatrial.model.record import Failure, Phase, TrialRecord, VerifierRun
from seatrial.report.text import counted, format_duration
from seatrial.verify.integrity import SUSPICIONS

NO_LIMITS = ModelOptions()

_PHASES: dict[Phase, str] = {
    "setup": "while the sandbox was set up",
    "agent": "while the agent worked",
    "collect": "while the agent's files were collected",
    "verify": "while the verifier ran",
    "score": "while the verdict was read",
    "store": "while the result was stored",
}
# Tags about what the agent did to the system. They are evidence, and explain no verdict.
_EVIDENCE = frozenset(suspicion.category for suspicion in SUSPICIONS) | {
    "changed_during_verification",
    "changes_truncated",
    "disputed_verdict",
    "hidden_from_verifier",
    NEEDS_SYSTEM,
    "processes_left_running",
    "reference_units",
    "system_changed",
    "verifier_tools_restored",
    NONDETERMINISTIC,
}
_OUR_WORDS = frozenset({OUTPUT_MISSING, OUTPUT_UNPARSEABLE})
_LONGEST = 240


def reason(record: TrialRecord, limits: ModelOptions = NO_LIMITS) -> str:
    """Why a trial has no full reward, and what to know about one that has; empty when there is nothing to say.

    `limits` are those of the job, to tell an agent that reached one.
    """
    if record.failure:
        return failure_in_words(record.failure)
    return _shortened("; ".join(dict.fromkeys([*remarks(record), *causes(record, limits)])))


def causes(record: TrialRecord, limits: ModelOptions = NO_LIMITS) -> list[str]:
    """Why a trial ended as it did, without what is only to be known before one believes it."""
    if record.failure:
        return [failure_in_words(record.failure)]
    return [*dict.fromkeys([*_agent(record, limits), *_verdict(record)])]


def failure_in_words(failure: Failure) -> str:
    """A failure: what happened, then where and of which kind."""
    return f"{failure.message} ({failure.cause}, {_PHASES[failure.phase]})"


def remarks(record: TrialRecord) -> list[str]:
    """What a reader should know about a verdict before believing it, one short line each."""
    lines = [*_was(record), *(warning.message for warning in record.warnings)]
    if record.disputed_reward is not None:
        lines.append(f"disputed: {format_reward(record.disputed_reward)} on the system as the agent left it")
    runs = _runs(record)
    tags = (record.evaluation.error_taxonomy if record.evaluation else None) or ()
    lines += [tag.description or tag.category for tag in tags if tag.category == NONDETERMINISTIC]
    restored = [path for run in runs for path in run.restored]
    lines += _named("put back for the verifier", restored, sum(run.restored_count for run in runs))
    hidden = [path for run in runs for path in run.hidden]
    lines += _named("hidden from the verifier", hidden, sum(run.hidden_count for run in runs))
    return lines


def _was(record: TrialRecord) -> Iterator[str]:
    """What a trial that was judged again amounted to when it ran, if that was something else."""
    first = record.regrade.first if record.regrade else None
    reward = record.evaluation.reward if record.evaluation else None
    if first and (first.outcome, first.reward) != (record.outcome, reward):
        yield f"was {first.outcome} with {format_reward(first.reward)} when it ran"


def _named(what: str, files: list[str], count: int) -> Iterator[str]:
    if files:
        others = f" and {count - 1:,} more" if count > 1 else ""
        yield f"{what}: {files[0]}{others}"


def _verdict(record: TrialRecord) -> Iterator[str]:
    """The verifier's own word, or what was found when its files were read."""
    evaluation = record.evaluation
    if evaluation is None or record.outcome == "pass":
        return
    if record.outcome == "verifier_error":
        timed_out = record.verifier_run is not None and record.verifier_run.timed_out
        yield "the verifier ran out of time" if timed_out else _first_error(evaluation)
    elif said := _said_by_tags(evaluation) or _said_by_breakdown(evaluation):
        yield said


def _first_error(evaluation: EvaluationResult) -> str:
    faults = [line for line in evaluation.validity.errors if not line.startswith("note: ")]
    return faults[0].partition(": ")[2] if faults else "the verifier gave no verdict"


def _said_by_tags(evaluation: EvaluationResult) -> str | None:
    """What the verifier's tags say. Those of reviewers came after the verdict, so they are no reason for it."""
    every = [tag for tag in evaluation.error_taxonomy or () if tag.source != ErrorSource.HUMAN]
    tags = [tag for tag in every if tag.category not in _EVIDENCE]
    if not tags:
        return None
    tag = next((tag for tag in tags if tag.category not in _OUR_WORDS), tags[0])
    return _tag_in_words(tag)


def _tag_in_words(tag: ErrorTag) -> str:
    described = (tag.description or "").partition("; ")[0]
    return described or tag.category


def _said_by_breakdown(evaluation: EvaluationResult) -> str | None:
    """What the verifier says about the first dimension that lost points."""
    for name, entry in (evaluation.breakdown or {}).items():
        if isinstance(entry, dict) and _lost_points(entry) and (said := entry.get("evidence")):
            return f"{name}: {said}"
    return None


def _lost_points(entry: dict[str, object]) -> bool:
    score, best = entry.get("score"), entry.get("max_score", 1.0)
    return isinstance(score, int | float) and isinstance(best, int | float) and score < best


def _agent(record: TrialRecord, limits: ModelOptions) -> Iterator[str]:
    """How the agent ended, where that may explain what it left."""
    result = record.agent_result
    if result and result.status == "timed_out":
        yield f"the agent ran out of time after {format_duration(result.duration_sec)}"
    elif result and result.status == "killed":
        yield "the agent was killed"
    elif result and result.exit_code and record.outcome != "pass":
        yield f"the agent exited with {result.exit_code}"
    if record.outcome != "pass":
        yield from _reached(record, limits)


def _reached(record: TrialRecord, limits: ModelOptions) -> Iterator[str]:
    usage = record.model_usage
    if usage is None:
        return
    if limits.max_turns is not None and (usage.calls or 0) >= limits.max_turns:
        yield f"the agent used up its {counted(limits.max_turns, 'model call')}"
    if limits.max_tokens is not None and usage.input_tokens + usage.output_tokens >= limits.max_tokens:
        yield f"the agent used up its {counted(limits.max_tokens, 'token')}"
    if limits.max_cost_usd is not None and (usage.cost_usd or 0.0) >= limits.max_cost_usd:
        yield f"the agent used up its {limits.max_cost_usd:g} USD"


def _runs(record: TrialRecord) -> list[VerifierRun]:
    runs = [step.verifier_run for step in record.steps] or [record.verifier_run]
    return [run for run in runs if run]


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
