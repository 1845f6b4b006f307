"""Verdicts of cases: from a whole trial, or from an end state that was judged, with the end of what was printed."""

from contextlib import suppress
from pathlib import Path

from seatrial.check.cases import CaseVerdict
from seatrial.model.record import Baseline, StepRecord, TrialRecord, outcome_of
from seatrial.trial.end_state import Judged

_LOG_BYTES = 4096


def verdict_of_trial(case: str, record: TrialRecord, folder: Path) -> CaseVerdict:
    """What a whole trial amounts to."""
    if record.failure:
        return CaseVerdict(case, None, failure=f"{record.failure.cause}: {record.failure.message}")
    run = record.verifier_runs[-1] if record.verifier_runs else None
    return CaseVerdict(
        case,
        record.evaluation,
        record.outcome,
        duration_sec=run.duration_sec if run else 0.0,
        exit_code=run.exit_code if run else None,
        timed_out=bool(run and run.timed_out),
        log=log_of(folder / f"steps/{record.steps[-1].name}" if record.steps else folder),
    )


def verdict_of_step(case: str, step: StepRecord, record: TrialRecord, folder: Path) -> CaseVerdict | None:
    """What the verifier of one step said; None where it was not asked."""
    run, evaluation = step.verifier_run, step.evaluation
    if run is None or evaluation is None:
        return None
    outcome = outcome_of(evaluation, record.pass_threshold, run.baseline)
    log = log_of(folder / f"steps/{step.name}")
    return CaseVerdict(case, evaluation, outcome, run.duration_sec, run.exit_code, run.timed_out, log=log)


def verdict_of_judged(case: str, judged: Judged, folder: Path, threshold: float, baseline: Baseline) -> CaseVerdict:
    """What the verifier said to an end state; `baseline` is what it does with the untouched one."""
    run = judged.judgement.run
    outcome = outcome_of(judged.evaluation, threshold, baseline)
    log = log_of(folder)
    return CaseVerdict(case, judged.evaluation, outcome, run.duration_sec, run.exit_code, run.timed_out, log=log)


def log_of(folder: Path) -> str:
    """The end of what a verifier printed, errors last."""
    parts = []
    for name in ("stdout.txt", "stderr.txt"):
        with suppress(OSError), (folder / "verifier" / name).open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _LOG_BYTES))
            parts.append(file.read(_LOG_BYTES).decode(errors="replace"))
    return "".join(parts)
