"""What checks are judged with: an agent that does what a case says, its verdicts, and how a check ends."""

import posixpath
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from seatrial.agents.api import AgentContext, AgentLaunch
from seatrial.check.answers import says_the_same
from seatrial.check.cases import Case, CaseVerdict, CheckResult, Subject
from seatrial.model.base import JsonObject
from seatrial.model.check import CheckFinding, CheckId, CheckOutcome, CheckStatus, Weight
from seatrial.model.record import AgentRef, Baseline, StepRecord, TrialRecord, outcome_of
from seatrial.model.task import TaskConfig
from seatrial.trial.end_state import Edit, Judged
from seatrial.untrusted.files import read_end

_ROOT = "/."  # a tree at the root itself, as archives name it


class CaseAgent:
    """Runs a command in the task's own directory, after the files of `tree` were laid over `/`."""

    is_reference = True

    def __init__(self, name: str, command: str, tree: Path | None = None) -> None:
        self._name = name
        self._command = command
        self._tree = tree

    @property
    def ref(self) -> AgentRef:
        return AgentRef(name=self._name, command=self._command)

    def templates(self, _: TaskConfig) -> Mapping[str, str]:
        """None: a case asks for nothing of this machine."""
        return {}

    def prepare(self, _: AgentContext) -> AgentLaunch | None:
        trees = {_ROOT: self._tree} if self._tree else {}
        return AgentLaunch(("/bin/sh", "-c", self._command), trees=trees)


def lay_out(edits: Iterable[Edit], tree: Path) -> str:
    """Write the files of edits below a new folder; returns a command that removes what is to be gone."""
    tree.mkdir(parents=True)
    gone = []
    for edit in edits:
        if edit.content is None:
            gone.append(f"rm -rf -- {shlex.quote(edit.path)}")
            continue
        file = tree / posixpath.normpath(f"/{edit.path}").lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(edit.content)
        file.chmod((0o644 if edit.mode is None else edit.mode) | 0o400)  # or it could not be packed
    return "; ".join(gone)


# Verdicts: from a whole trial or from a judged end state, with the end of what was printed.

_LOG_BYTES = 4096


def verdict_of_trial(case: str, record: TrialRecord, folder: Path) -> CaseVerdict:
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


def verdict_of_judged(case: Case, judged: Judged, folder: Path, threshold: float, baseline: Baseline) -> CaseVerdict:
    """What the verifier said to an end state; `baseline` is what it does with the untouched one."""
    run = judged.judgement.run
    return CaseVerdict(
        case.id,
        judged.evaluation,
        outcome_of(judged.evaluation, threshold, baseline),
        run.duration_sec,
        run.exit_code,
        run.timed_out,
        log=log_of(folder),
        remade=_remade(case, judged.rewritten),
    )


def _remade(case: Case, rewritten: Mapping[str, bytes]) -> str | None:
    """A file of a case in whose place the verifier has put another answer; the same one in other bytes is none."""
    edits = {edit.path: edit.content for edit in case.edits}
    return next((path for path, now in rewritten.items() if not says_the_same(edits[path] or b"", now, path)), None)


def log_of(folder: Path) -> str:
    """The end of what a verifier printed, errors last."""
    parts = []
    for name in ("stdout.txt", "stderr.txt"):
        with suppress(OSError):
            parts.append(read_end(folder / "verifier" / name, _LOG_BYTES).decode(errors="replace"))
    return "".join(parts)


# The outcome of a check: passed, failed, not run, or skipped with a reason.


def concluded(
    check: CheckId,
    findings: Sequence[CheckFinding],
    figures: JsonObject | None = None,
    *,
    judged: int = 1,
    reason: str | None = None,
) -> CheckResult:
    """The result of a check that looked at so many things: without any, it was not run. A note alone fails nothing."""
    failed = any(finding.weight != "note" for finding in findings)
    status: CheckStatus = "failed" if failed else "passed" if judged or findings else "not_run"
    return CheckResult(CheckOutcome(check=check, status=status, figures=figures or {}, reason=reason), tuple(findings))


def skipped(check: CheckId, reason: str) -> CheckResult:
    """The result of a check that has nothing to look at."""
    return CheckResult(CheckOutcome(check=check, status="skipped", reason=reason))


def finding_of(
    check: CheckId,
    subject: Subject,
    name: str,
    weight: Weight,
    message: str,
    fix: str,
    case: str | None = None,
    evidence: JsonObject | None = None,
) -> CheckFinding:
    """A finding by its name, a code alone or such as `no-verdict:junk`; its case shows it, or else the whole check."""
    code, _, what = name.partition(":")
    return CheckFinding(
        check=check,
        code=code,
        subject=what,
        weight=weight,
        message=message,
        fix=fix,
        reproduce=subject.reproduce(case) if case else subject.check_again("--only", check),
        case=case,
        evidence=evidence,
    )
