"""The battery: every check of one task, from its end states to a grade.

End states are made once. Then all cases are tried, those that are worth most first, as long as there is time; then
each check says what the verdicts mean.
"""

import datetime as dt
import logging
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from seatrial.check.cases import UNTOUCHED, Case, CaseVerdict, Check, CheckResult, Subject
from seatrial.check.checks import (
    cheats,
    contract,
    determinism,
    equivalents,
    golden,
    hostile,
    instruction,
    kill_rate,
    nothing,
    oracle,
    shotgun,
)
from seatrial.check.examiner import Examiner, OutOfTimeError
from seatrial.check.grade import grade_of
from seatrial.check.states import TaskStates, describe, make_states
from seatrial.concurrency import first_error, run_all
from seatrial.errors import SeatrialError
from seatrial.model.check import CheckFinding, CheckId, CheckOutcome, CheckStatus, TaskCheck

# Trying cases: those that are worth most first, several at once, as long as there is time.


@dataclass(frozen=True, slots=True)
class TimeToTry:
    """How many cases are tried at once, and how long: none starts after the budget, and none takes longer than that.

    The budget is spent by what agents and verifiers take, without the time for which they wait for a processor: a
    machine that is busy with other things tries nearly as many cases as one that is not.
    """

    budget_sec: float = 60.0
    workers: int = 4


USUAL_TIME = TimeToTry()


@dataclass(eq=False, slots=True)
class TriedCases:
    """The verdicts on cases by id; `late` ones were not tried in time, and `failed` ones could not be, with the reason.

    In `remade` ones the verifier wrote the file anew that the case had put there: their verdicts say nothing about it.
    """

    verdicts: dict[str, CaseVerdict] = field(default_factory=dict)
    late: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    remade: dict[str, str] = field(default_factory=dict)


async def try_cases(examiner: Examiner, states: TaskStates, cases: Iterable[Case], time: TimeToTry) -> TriedCases:
    """Try cases until all have been, or time is over."""
    tried = TriedCases()
    examiner.longest_sec, end = time.budget_sec, examiner.spent_sec + time.budget_sec

    async def work(case: Case) -> None:
        if why := _unavailable(case, states):
            tried.failed[case.id] = why
        elif examiner.spent_sec >= end:
            tried.late.add(case.id)
        else:
            await _try(examiner, states, case, tried)

    await run_all(sorted(cases, key=lambda case: -case.worth), work, time.workers)
    return tried


async def _try(examiner: Examiner, states: TaskStates, case: Case, tried: TriedCases) -> None:
    state = states.made.get(case.state)
    try:
        verdict = await examiner.try_case(case, state.end if state else None)
    except OutOfTimeError:
        tried.late.add(case.id)
        return
    if verdict.failure:
        tried.failed[case.id] = verdict.failure
    elif verdict.remade and case.state != UNTOUCHED:  # there, a file that the verifier makes is a finding of V2
        tried.remade[case.id] = verdict.remade
    else:
        tried.verdicts[case.id] = verdict


def _unavailable(case: Case, states: TaskStates) -> str | None:
    """Why the end state of a case cannot be judged; None where it can."""
    state = states.made.get(case.state)
    if case.command is not None or (state and state.end):
        return None
    why = (state.fixed if state else states.missing.get(case.state)) or "there is no such end state"
    return f"{case.state}: {why}"


CHECKS: tuple[Check, ...] = (
    oracle,
    nothing,
    golden,
    determinism,
    kill_rate,
    equivalents,
    shotgun,
    cheats,
    hostile,
    contract,
    instruction,
)
"""Every check there is, in the order of the reports. A new one is a module of this package and an entry here."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BatteryPlan:
    """What is to be tried of each task, and how long. `words` of the command line are needed to try a case again."""

    checks: tuple[Check, ...] = CHECKS
    repeats: int = 5
    time: TimeToTry = USUAL_TIME
    words: tuple[str, ...] = ()
    options: str = "0" * 64
    """The digest of all that the results depend on besides the task."""


async def check_task(examiner: Examiner, plan: BatteryPlan, name: str) -> TaskCheck:
    """Everything that can be found out about the verifier of a task. `name` is what a user calls the task.

    Never raises for what one task does: a task that cannot be judged has no grade, and its reasons say why.
    """
    began = time.monotonic()
    try:
        async with examiner.bench:
            return await _check(examiner, plan, name, began)
    except SeatrialError as error:
        return _ungraded(examiner, plan, str(error), began)
    except Exception as error:  # noqa: BLE001 - what goes wrong with one task is no concern of the others
        _log.exception("%s could not be checked", examiner.task.id)
        cause = first_error(error) if isinstance(error, BaseExceptionGroup) else error
        return _ungraded(examiner, plan, f"it could not be checked: {type(cause).__name__}: {cause}", began)


async def _check(examiner: Examiner, plan: BatteryPlan, name: str, began: float) -> TaskCheck:
    states = await make_states(examiner)
    if not states.made:
        return _ungraded(examiner, plan, "; ".join(states.missing.values()), began)
    subject = describe(examiner.task, name, states, examiner.tools.options, plan.words, plan.repeats)
    planned = {check.CHECK: cases_of(check, subject) for check in plan.checks}
    cases = [case for each in planned.values() if not isinstance(each, Exception) for case in each]
    tried = await try_cases(examiner, states, cases, plan.time)
    results = _doubted([_conclude(check, planned[check.CHECK], subject, tried) for check in plan.checks])
    return _summary(examiner, plan, states, results, began)


def cases_of(check: Check, subject: Subject) -> list[Case] | Exception:
    """What a check wants to try, or why it cannot say so."""
    try:
        return list(check.cases(subject))
    except Exception as error:  # noqa: BLE001 - one check that fails is no reason to go without the others
        _log.exception("%s: %s cannot say what to try", subject.task.id, check.CHECK)
        return error


def _conclude(check: Check, cases: Sequence[Case] | Exception, subject: Subject, tried: TriedCases) -> CheckResult:
    """What a check makes of the verdicts on its own cases, with how many there were."""
    if isinstance(cases, Exception):
        return _failed(check.CHECK, cases)
    ids = {case.id for case in cases}
    verdicts = {case: verdict for case, verdict in tried.verdicts.items() if case in ids}
    try:
        result = check.findings(subject, verdicts)
    except Exception as error:  # noqa: BLE001 - as above
        _log.exception("%s: %s cannot say what it found", subject.task.id, check.CHECK)
        return _failed(check.CHECK, error)
    own = sum(verdict.case.startswith(f"{check.CHECK}/") for verdict in subject.states.values())
    remade, late, failed = ids & tried.remade.keys(), ids & tried.late, ids & tried.failed.keys()
    outcome = result.outcome.model_copy(
        update={
            "status": _status(result.outcome.status, any_judged=bool(verdicts or own), any_left=bool(late or failed)),
            "tried": len(verdicts) + len(remade) + own,
            "left_out": len(late) + len(failed),
            "out_of_time": len(late),
            "reason": "; ".join(filter(None, (result.outcome.reason, *_why_unjudged(ids, tried)))) or None,
        }
    )
    return CheckResult(outcome, [_accepted(finding, subject) for finding in result.findings])


def _why_unjudged(ids: Collection[str], tried: TriedCases) -> Iterator[str]:
    """Why there is no verdict on some of the cases of a check."""
    if remade := [path for case, path in tried.remade.items() if case in ids]:
        paths = ", ".join(sorted(set(remade)))
        yield f"the verifier makes {paths} itself, so it judged none of the {len(remade)} versions put there"
    if late := len(tried.late.intersection(ids)):
        yield f"the budget had no room for {late} of its cases"
    if failed := [why for case, why in tried.failed.items() if case in ids]:
        yield f"{len(failed)} could not be tried ({failed[0]})"


def _status(concluded: CheckStatus, *, any_judged: bool, any_left: bool) -> CheckStatus:
    """How a check went: where nothing was judged, it depends on why."""
    if concluded == "not_run" and not any_left:
        return "skipped"
    if concluded == "skipped" and any_left and not any_judged:
        return "not_run"
    return concluded


def _doubted(results: Sequence[CheckResult]) -> list[CheckResult]:
    """The results, in which a reward that fell once is only noted of a verifier whose rewards fall by chance."""
    if not any(finding.id.startswith("V4/flaky") for result in results for finding in result.findings):
        return list(results)
    return [_only_noted(result) if result.outcome.check == "V6" else result for result in results]


def _only_noted(result: CheckResult) -> CheckResult:
    why = "; the verifier is flaky (V4), so this may be chance"
    findings = [each.model_copy(update={"weight": "note", "message": each.message + why}) for each in result.findings]
    status = "passed" if result.outcome.status == "failed" else result.outcome.status
    return CheckResult(result.outcome.model_copy(update={"status": status}), findings)


def _accepted(finding: CheckFinding, subject: Subject) -> CheckFinding:
    """The finding, marked where the task's author says that it is meant."""
    meant = any(finding.is_named_by(pattern) for pattern in subject.task.config.check.accept)
    return finding.model_copy(update={"accepted": True}) if meant else finding


def _failed(check: CheckId, error: Exception) -> CheckResult:
    reason = f"the check itself failed: {type(error).__name__}: {error}"
    return CheckResult(CheckOutcome(check=check, status="error", reason=reason))


def _summary(
    examiner: Examiner, plan: BatteryPlan, states: TaskStates, results: Sequence[CheckResult], began: float
) -> TaskCheck:
    outcomes = tuple(result.outcome for result in results)
    findings = tuple(finding for result in results for finding in result.findings)
    grade, reasons = grade_of(outcomes, findings, states.why_no_answer)
    solved = states.made.get("oracle")
    whole = (solved.whole or solved.verdict) if solved else None
    return _described(
        examiner,
        plan,
        began,
        grade=grade,
        reasons=reasons,
        out_of_time=sum(outcome.out_of_time for outcome in outcomes),
        outcomes=outcomes,
        findings=findings,
        oracle_reward=whole.reward if whole else None,
        states=len(states.made),
    )


def _ungraded(examiner: Examiner, plan: BatteryPlan, reason: str, began: float) -> TaskCheck:
    return _described(examiner, plan, began, grade=None, reasons=(reason or "nothing could be judged",))


def _described(examiner: Examiner, plan: BatteryPlan, began: float, **found: object) -> TaskCheck:
    task, options = examiner.task, examiner.tools.options
    values = {
        "task": task.id,
        "name": task.name,
        "digest": examiner.digest,
        "backend": options.backend,
        "image": options.image,
        "verifications": examiner.verifications,
        "verifying_sec": examiner.verifying_sec,
        "rebuilt": examiner.rebuilt,
        "duration_sec": time.monotonic() - began,
        "finished_at": dt.datetime.now(dt.UTC),
        "options": plan.options,
    }
    return TaskCheck.model_validate({**values, **found})
