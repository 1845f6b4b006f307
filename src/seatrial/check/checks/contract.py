"""V10: does the verifier keep its contract? A reward on every path, a valid one, in good time, and without a network.

It looks at verdicts on states that are there anyway, at one more on an output that is junk, and at the scripts.
"""

import re
from collections.abc import Iterator, Mapping

from seatrial.check.cases import ORACLE, UNTOUCHED, Case, CaseVerdict, CheckResult, Subject, case_id
from seatrial.check.chosen import output_path
from seatrial.check.judging import concluded, finding_of
from seatrial.model.base import JsonObject
from seatrial.model.check import CheckFinding, CheckId, Weight
from seatrial.model.outcome import has_passed
from seatrial.model.task import VerifierPhaseSpec
from seatrial.tasks.lint import lint
from seatrial.trial.end_state import Edit
from seatrial.verify.facts import find_needs

CHECK: CheckId = "V10"
TITLE = "contract"

_JUNK = case_id(CHECK, "junk")
_LONG_SEC, _MUCH, _MOST = 3600.0, 0.5, 0.9
_WHERE = {
    UNTOUCHED: "when the agent did nothing",
    _JUNK: "when the output is junk",
    ORACLE: "on the task's own solution",
}
_FAULTS: Mapping[str, tuple[str, Weight, str]] = {
    "reward_invalid": ("reward-invalid", "major", "write one number from 0 to 1"),
    "reward_conflict": ("reward-conflict", "minor", "write one reward file, or the same number to both"),
    "details_invalid": ("details-unreadable", "minor", "write details.json as one JSON object"),
}
_CAUSES = ("set-e", "no-reward-written", "reward-near-miss", "missing-tool", "crlf-script")
_FETCH = re.compile(r"^[^#\n]*\b(?:curl|wget|git\s+clone)\b[^#\n]*?https?://([\w.-]+)", re.MULTILINE)
_OWN = re.compile(r"localhost|127\.|0\.0\.0\.0")


def cases(subject: Subject) -> Iterator[Case]:
    """Junk in place of the output, where it is known."""
    path = output_path(subject)
    if path and not path.endswith("/"):
        yield Case(_JUNK, CHECK, UNTOUCHED, (Edit(path, b"\x00\xff junk\n"),), worth=50)


def findings(subject: Subject, verdicts: Mapping[str, CaseVerdict]) -> CheckResult:
    judged = {**subject.states, **{case: verdict for case, verdict in verdicts.items() if case == _JUNK}}
    found = [*_silences(subject, judged), *_faults(subject, judged), *_time(subject, judged), *_network(subject)]
    return concluded(CHECK, found, _figures(subject, judged))


def _figures(subject: Subject, judged: Mapping[str, CaseVerdict]) -> JsonObject:
    slowest = max((verdict.duration_sec for verdict in judged.values()), default=None)
    return {"slowest_sec": slowest, "limit_sec": _phase(subject).timeout_sec}


def _phase(subject: Subject) -> VerifierPhaseSpec:
    config = subject.task.config
    return config.steps[-1].verifier if config.steps else config.verifier


def _is_silent(verdict: CaseVerdict | None) -> bool:
    return bool(verdict and verdict.evaluation and not verdict.evaluation.validity.verifier_completed)


def _silences(subject: Subject, judged: Mapping[str, CaseVerdict]) -> Iterator[CheckFinding]:
    """States on which there is no verdict. Where there is none on the solution either, V1 says so."""
    if _is_silent(judged.get(ORACLE)):
        return
    weights: tuple[tuple[str, Weight], ...] = ((UNTOUCHED, "major"), (_JUNK, "minor"))
    for state, weight in weights:
        verdict = judged.get(state)
        if verdict is None or not _is_silent(verdict):
            continue
        how = (
            "runs until its time is over"
            if verdict.timed_out
            else f"writes no reward (exit status {verdict.exit_code})"
        )
        message = f"the verifier {how} {_WHERE[state]}; such a trial has no verdict, where it should have a 0"
        fix = "look for what it waits for, and give that a limit of its own" if verdict.timed_out else _cause(subject)
        yield _finding(subject, f"no-verdict:{state.rpartition('/')[2]}", weight, message, fix, state)
        return  # the same cause has the same effect on the other


def _cause(subject: Subject) -> str:
    """What to do about it, by what is known of the scripts."""
    for problem in lint(subject.task, {}):
        if problem.code in _CAUSES:
            return f"{problem}; {problem.fix}"
    return "write a reward of 0 first, or in `trap … EXIT`, so that every way out has one"


def _faults(subject: Subject, judged: Mapping[str, CaseVerdict]) -> Iterator[CheckFinding]:
    """Rewards and details that cannot be read, each kind once."""
    told = set()
    for state, verdict in judged.items():
        for line in verdict.evaluation.validity.errors if verdict.evaluation else ():
            code, _, said = line.partition(": ")
            if code in _FAULTS and code not in told:
                told.add(code)
                name, weight, fix = _FAULTS[code]
                where = _WHERE.get(state, f"on the state {state}")
                yield _finding(subject, name, weight, f"{where}: {said}", fix, state)


def _time(subject: Subject, judged: Mapping[str, CaseVerdict]) -> Iterator[CheckFinding]:
    limit = _phase(subject).timeout_sec
    verdict = judged.get(ORACLE)
    if verdict and verdict.duration_sec > _MUCH * limit:
        took = f"{verdict.duration_sec:.1f} s of the {limit:g} s that it may take"
        weight: Weight = "major" if verdict.duration_sec > _MOST * limit else "minor"
        message = f"on the task's own solution, the verifier takes {took}: on a slower machine it has no verdict"
        yield _finding(subject, "slow", weight, message, "raise `timeout_sec` in [verifier], or do less", ORACLE)
    elif verdict and limit > _LONG_SEC and verdict.duration_sec < limit / 100:
        message = (
            f"the verifier may take {limit:g} s and needs {verdict.duration_sec:.1f} s: one that hangs is found late"
        )
        yield _finding(subject, "long-limit", "note", message, "lower `timeout_sec` in [verifier]", ORACLE)


def _network(subject: Subject) -> Iterator[CheckFinding]:
    scripts = {path: content.decode("utf-8", "replace") for path, content in subject.tests.items()}
    shell = [text for path, text in scripts.items() if path.endswith(".sh")]
    hosts = {host for text in shell for host in _FETCH.findall(text) if not _OWN.match(host)}
    fetched = sorted(find_needs(_COMMENT.sub("", text) for text in shell).installs | hosts)
    if not fetched:
        return
    what = ", ".join(fetched[:5]) + (", …" if len(fetched) > 5 else "")
    policy = _phase(subject).network or subject.task.config.verifier.network or subject.task.config.environment.network
    fix = "install it in environment/Dockerfile"
    if policy.mode != "no-network":
        message = f"the verifier fetches {what} while it judges: verdicts depend on other people's servers"
        yield _finding(subject, "fetches", "minor", message, fix, None)
    elif _passes(subject):
        message = (
            f"the verifier tries to fetch {what} while it judges, though the task has no network, and does without"
        )
        yield _finding(subject, "fetches", "minor", message, f"{fix}, or leave it out", None)
    else:
        message = f"the verifier fetches {what} while it judges, and the task has no network to fetch it from"
        weight: Weight = "major" if ORACLE in subject.states else "minor"
        yield _finding(subject, "needs-network", weight, message, f"{fix}, or allow the verifier a network", None)


_COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)


def _passes(subject: Subject) -> bool:
    """Whether something passes as things are, so that whatever is fetched is not needed."""
    rewards = [verdict.reward for verdict in subject.states.values() if verdict.reward is not None]
    return any(has_passed(reward, subject.pass_threshold) for reward in rewards)


def _finding(subject: Subject, name: str, weight: Weight, message: str, fix: str, case: str | None) -> CheckFinding:
    return finding_of(CHECK, subject, name, weight, message, fix, case if case == _JUNK else None)
