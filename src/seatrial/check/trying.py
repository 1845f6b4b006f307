"""Trying the cases of a task: those that are worth most first, several at once, as long as there is time."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from seatrial.check.cases import Case, CaseVerdict
from seatrial.check.examiner import Examiner, OutOfTimeError
from seatrial.check.states import TaskStates
from seatrial.concurrency import side_by_side


@dataclass(frozen=True, slots=True)
class TimeToTry:
    """How many cases are tried at once, and how long: none starts after the budget, and none takes longer than that.

    What counts is the time that the task's own cases take, whatever else the machine does meanwhile.
    """

    budget_sec: float = 60.0
    workers: int = 4


USUAL_TIME = TimeToTry()


@dataclass(eq=False, slots=True)
class TriedCases:
    """The verdicts on cases by id; `late` ones were not tried in time, and `failed` ones could not be."""

    verdicts: dict[str, CaseVerdict] = field(default_factory=dict)
    late: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)


async def try_cases(examiner: Examiner, states: TaskStates, cases: Iterable[Case], time: TimeToTry) -> TriedCases:
    """Try cases until all have been, or time is over."""
    tried = TriedCases()
    waiting = iter(sorted(cases, key=lambda case: -case.worth))
    examiner.longest_sec, end = time.budget_sec, examiner.busy_sec + time.budget_sec

    async def work() -> None:
        for case in waiting:
            if why := _unavailable(case, states):
                tried.failed[case.id] = why
            elif examiner.busy_sec >= end:
                tried.late.add(case.id)
            else:
                await _try(examiner, states, case, tried)

    await side_by_side(work, time.workers)
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
    else:
        tried.verdicts[case.id] = verdict


def _unavailable(case: Case, states: TaskStates) -> str | None:
    """Why the end state of a case cannot be judged; None where it can."""
    state = states.made.get(case.state)
    if case.command is not None or (state and state.end):
        return None
    why = (state.fixed if state else states.missing.get(case.state)) or "there is no such end state"
    return f"{case.state}: {why}"
