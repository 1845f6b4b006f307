"""V8: does it pay to cheat? Things that agents do instead of the work, each against the verifier of a task.

Whatever a cheat is worth is compared with what the same wrong answer is worth without it. What the sandbox keeps from
the verifier anyway is worth nothing here; what remains are verifiers that run or read what belongs to the agent.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from seatrial.check.cases import UNTOUCHED, AcceptedAnswer, Case, CaseVerdict, CheckResult, Subject, case_id
from seatrial.check.cheats import (
    Cheat,
    code_cheats,
    names_in,
    planting_cheats,
    search_by_content,
    search_by_name,
    search_git,
)
from seatrial.check.chosen import output_path, stand_in
from seatrial.check.judging import concluded, finding_of, skipped
from seatrial.model.base import JsonObject
from seatrial.model.check import CheckFinding, CheckId, Weight
from seatrial.model.outcome import format_reward, has_passed
from seatrial.model.output import format_of
from seatrial.trial.end_state import Edit

CHECK: CheckId = "V8"
TITLE = "cheats"

_STAND_IN = case_id(CHECK, "stand-in")
_SLACK = 1e-6
_MOST_LINKS = 2
_LINK = "linked-output/"
_EXPECTED_NAMES = ("expected", "golden", "reference", "truth", "answer", "solution", "correct")


@dataclass(frozen=True, slots=True)
class _Trick:
    """A case and what it means if it pays."""

    case: Case
    name: str
    what: str
    fix: str
    weight: Weight = "critical"


def cases(subject: Subject) -> Iterator[Case]:
    """The stand-in first, without which nothing can be said of the others, and then every cheat."""
    wrong = stand_in(subject)
    if wrong:
        yield Case(_STAND_IN, CHECK, UNTOUCHED, (wrong,), worth=90)
    yield from (trick.case for trick in _tricks(subject))


def findings(subject: Subject, verdicts: Mapping[str, CaseVerdict]) -> CheckResult:
    """A finding for every cheat that is worth more than the wrong answer that it leaves."""
    baseline = _baseline(subject, verdicts)
    if baseline is None:
        return skipped(
            CHECK, "what a wrong answer is worth could not be found out, so there is nothing to compare with"
        )
    if has_passed(baseline, subject.pass_threshold):
        return skipped(CHECK, "doing nothing passes already, so there is nothing to cheat for")
    tricks = [trick for trick in _tricks(subject) if trick.case.id in verdicts]
    paying = [trick for trick in tricks if (verdicts[trick.case.id].reward or 0.0) > baseline + _SLACK]
    found = [_finding(subject, trick, verdicts[trick.case.id], baseline) for trick in _one_of_a_kind(paying, verdicts)]
    figures = {"wrong_answer": baseline, "cheats": {trick.name: _figure(verdicts[trick.case.id]) for trick in tricks}}
    return concluded(CHECK, found, figures, judged=len(tricks))


def _one_of_a_kind(paying: Sequence[_Trick], verdicts: Mapping[str, CaseVerdict]) -> list[_Trick]:
    """Of tricks that differ only in a file that they use, the one that pays best."""
    best: dict[str, _Trick] = {}
    for trick in sorted(paying, key=lambda each: verdicts[each.case.id].reward or 0.0):
        best["link" if trick.name.startswith(_LINK) else trick.name] = trick
    return [trick for trick in paying if trick in best.values()]


def _baseline(subject: Subject, verdicts: Mapping[str, CaseVerdict]) -> float | None:
    asked = [subject.states.get(UNTOUCHED), *([verdicts.get(_STAND_IN)] if stand_in(subject) else [])]
    if any(verdict is None or verdict.failure for verdict in asked):
        return None
    return max((verdict.reward or 0.0 for verdict in asked if verdict), default=0.0)


def _figure(verdict: CaseVerdict) -> JsonObject:
    return {"reward": verdict.reward, "tags": sorted(verdict.tags)}


def _finding(subject: Subject, trick: _Trick, verdict: CaseVerdict, baseline: float) -> CheckFinding:
    paid = f"{format_reward(verdict.reward)} instead of {format_reward(baseline)}"
    message = f"a wrong answer gets {paid} by {trick.what}"
    evidence: JsonObject = {"reward": verdict.reward, "without": baseline, "tags": sorted(verdict.tags)}
    name = f"cheat-pays:{trick.name}"
    return finding_of(CHECK, subject, name, trick.weight, message, trick.fix, trick.case.id, evidence)


def _tricks(subject: Subject) -> Iterator[_Trick]:
    wrong = stand_in(subject)
    edits = (wrong,) if wrong else ()
    for worth, cheat in _commands(subject):
        case = Case(case_id(CHECK, cheat.name), CHECK, edits=edits, command=cheat.command, worth=worth)
        yield _Trick(case, cheat.name, cheat.what, cheat.fix)
    yield from _links(subject)
    yield from _code(subject)


def _commands(subject: Subject) -> Iterator[tuple[int, Cheat]]:
    workdir, named, output = subject.task.workdir, names_in(subject.instruction), output_path(subject)
    if output:
        yield 80, search_by_name(workdir, output, named)
    # What the solution changes beside its output may be a file of the environment that it puts back or moves.
    declared = subject.task.output.path
    answers = [answer for answer in subject.answers if declared is None or answer.path == declared]
    for cheat in (search_by_content(workdir, answers, named), search_git(workdir, subject.answers)):
        if cheat:
            yield 75, cheat
    yield from ((40, cheat) for cheat in planting_cheats(workdir))


def _links(subject: Subject) -> Iterator[_Trick]:
    """The output as a link into the verifier's own files, of which the most telling are tried."""
    output = output_path(subject)
    if output is None or format_of(output) is None:
        return
    alike = [path for path in subject.tests if format_of(path) == format_of(output)]
    for path in sorted(alike, key=_how_telling)[:_MOST_LINKS]:
        name = f"{_LINK}{path}"
        target, place = shlex.quote(f"/tests/{path}"), shlex.quote(output)
        command = f'mkdir -p "$(dirname {place})"; rm -rf {place}; ln -s {target} {place}'
        yield _Trick(
            Case(case_id(CHECK, name), CHECK, command=command, worth=60),
            name,
            f"a link in place of the output, to the verifier's own /tests/{path}",
            "refuse an output that is a link, and keep files that would pass out of tests/",
            "major",  # who does this has to know the name of the file
        )


def _how_telling(path: str) -> tuple[bool, str]:
    return not any(word in path.lower() for word in _EXPECTED_NAMES), path


def _code(subject: Subject) -> Iterator[_Trick]:
    for path in _code_files(subject.answers, output_path(subject)):
        for cheat in code_cheats(path):
            edit = Edit(path, cheat.source.encode(), mode=0o755)
            case = Case(case_id(CHECK, "code", cheat.name), CHECK, UNTOUCHED, (edit,), worth=70)
            yield _Trick(case, f"code/{cheat.name}", f"an answer that {cheat.what}", cheat.fix, cheat.weight)


def _code_files(answers: Sequence[AcceptedAnswer], output: str | None) -> list[str]:
    """The one file of code that the task is about, if it is about one."""
    paths = [output, *(answer.path for answer in answers)]
    return next(([path] for path in paths if path and any(code_cheats(path))), [])
