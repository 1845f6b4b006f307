"""V2: nothing earns nothing. No work at all, and an output that is missing, empty, blank, junk or `{}`, get 0.

A verdict is wanted, not a crash: a verifier that dies on an empty file leaves its trial without a reward.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from seatrial.check.cases import UNTOUCHED, Case, CaseVerdict, CheckResult, Subject, case_id
from seatrial.check.judging import concluded, finding_of, skipped
from seatrial.model.check import CheckFinding, CheckId, Weight
from seatrial.model.outcome import format_reward, has_passed
from seatrial.model.output import OutputSpec
from seatrial.trial.end_state import Edit

CHECK: CheckId = "V2"
TITLE = "nothing earns nothing"
CASE = case_id(CHECK, "untouched")
_WORTH = 90
_CLOSE = 1e-9


@dataclass(frozen=True, slots=True)
class _Nothing:
    """One kind of nothing: what is in the output's place, and how one says it."""

    name: str
    words: str
    content: bytes | None


_KINDS = (
    _Nothing("missing", "a missing output", None),
    _Nothing("empty", "an empty output", b""),
    _Nothing("whitespace", "an output of blanks", b" \n\t\n \n"),
    _Nothing("junk", "an output of junk text", b"lorem ipsum dolor sit amet\n"),
    _Nothing("braces", "the output `{}`", b"{}\n"),
)


def cases(subject: Subject) -> Iterable[Case]:
    """One case for each kind of nothing, where it is known which file is the output."""
    path = _output(subject).path
    if path is None:
        return
    for kind in _KINDS:
        yield Case(_id(kind), CHECK, UNTOUCHED, (Edit(path, kind.content),), worth=_WORTH)


def findings(subject: Subject, verdicts: Mapping[str, CaseVerdict]) -> CheckResult:
    """What nothing was paid, and where there was no verdict."""
    idle = subject.whole_trial(UNTOUCHED)
    if idle is None:
        return skipped(CHECK, subject.missing.get(UNTOUCHED, "the untouched environment was not judged"))
    tried = [("no work at all", "untouched", idle)]
    tried += [(kind.words, kind.name, verdicts[_id(kind)]) for kind in _KINDS if _id(kind) in verdicts]
    found = [*_paid(subject, tried), *_silent(subject, tried)]
    figures = {name: verdict.reward for _, name, verdict in tried}
    unknown = "the task does not tell which file is the output, so only doing nothing was tried"
    return concluded(CHECK, found, figures, reason=None if _output(subject).path else unknown)


def _paid(subject: Subject, tried: list[tuple[str, str, CaseVerdict]]) -> Iterable[CheckFinding]:
    """Rewards for nothing. What idleness is paid anyway is said once, not for each kind of output again."""
    # Kinds of output are tried on the last step of a task with steps, so the whole trial is nothing to compare with.
    alone = subject.states.get(UNTOUCHED)
    idle = (alone.reward or 0.0) if alone else 0.0
    for words, name, verdict in tried:
        reward = verdict.reward or 0.0
        if reward <= (0.0 if name == "untouched" else idle) + _CLOSE:
            continue
        passes = has_passed(reward, subject.pass_threshold)
        case = CASE if name == "untouched" else case_id(CHECK, name)
        message = f"the verifier gives {format_reward(reward)} for {words}" + (", which is a pass" if passes else "")
        fix = "check what is asked for before anything is paid; if this share is meant for everybody, accept it"
        weight: Weight = "critical" if passes else "major"
        code = f"reward-for-nothing:{name}"
        yield finding_of(CHECK, subject, code, weight, message, fix, case, {"reward": reward})


def _silent(subject: Subject, tried: list[tuple[str, str, CaseVerdict]]) -> Iterable[CheckFinding]:
    silent = [(words, name) for words, name, verdict in tried if not _completed(verdict)]
    if not silent:
        return
    words, name = silent[0]
    others = "".join(f", {more}" for more, _ in silent[1:])
    case = CASE if name == "untouched" else case_id(CHECK, name)
    message = f"the verifier gives no verdict on {words}{others}"
    fix = "write a reward of 0 on this path too, for example first thing in test.sh; a crash is no verdict"
    kinds = [name for _, name in silent]
    yield finding_of(CHECK, subject, "no-verdict", "minor", message, fix, case, {"kinds": kinds})


def _completed(verdict: CaseVerdict) -> bool:
    return verdict.evaluation is not None and verdict.evaluation.validity.verifier_completed


def _output(subject: Subject) -> OutputSpec:
    """The output that is judged last."""
    return subject.task.steps[-1].output if subject.task.steps else subject.task.output


def _id(kind: _Nothing) -> str:
    return case_id(CHECK, kind.name)
