"""V3: the answers that an author ships beside a task are judged as their names say: `pass` passes, `fail` does not."""

from collections.abc import Iterable, Mapping

from seatrial.check.cases import Case, CaseVerdict, CheckResult, Subject, case_id
from seatrial.check.golden import FAIL, LEAST_PASS, PASS
from seatrial.check.judging import concluded, finding_of, skipped
from seatrial.model.check import CheckFinding, CheckId, Weight
from seatrial.model.outcome import format_reward, has_passed

CHECK: CheckId = "V3"
TITLE = "golden answers are judged as they should be"
MOST_FAIL = 0.5


def cases(_: Subject) -> Iterable[Case]:
    """None: golden answers are end states, which are judged anyway."""
    return ()


def findings(subject: Subject, _: Mapping[str, CaseVerdict]) -> CheckResult:
    """Which golden answers are judged otherwise than their author says."""
    tried = {name: verdict for name, verdict in subject.states.items() if name.startswith((PASS, FAIL))}
    missing = [f"{name}: {why}" for name, why in subject.missing.items() if name.startswith((PASS, FAIL))]
    reason = "; ".join([*subject.remarks, *missing]) or None
    if not tried:
        none = "the task ships no golden answers (golden/pass, golden/fail, tests/fixtures/golden_*)"
        return skipped(CHECK, reason or none)
    found = [finding for name, verdict in tried.items() if (finding := _judge(subject, name, verdict))]
    return concluded(CHECK, found, {name: verdict.reward for name, verdict in tried.items()}, reason=reason)


def _judge(subject: Subject, name: str, verdict: CaseVerdict) -> CheckFinding | None:
    reward = verdict.reward or 0.0
    got = format_reward(reward)
    silent = verdict.evaluation is None or not verdict.evaluation.validity.verifier_completed
    passes = has_passed(reward, subject.pass_threshold)
    case, evidence = case_id(CHECK, name), {"reward": verdict.reward}
    if name.startswith(PASS) and (silent or reward < LEAST_PASS):
        said = "gets no verdict" if silent else f"gets {got}"
        message = f"the golden answer {name}, which is to pass, {said}, expected {LEAST_PASS:g} at least"
        fix = "correct the answer or the tests: one of them is wrong"
        weight: Weight = "major" if passes else "critical"
        return finding_of(CHECK, subject, f"golden-pass-rejected:{name}", weight, message, fix, case, evidence)
    if name.startswith(FAIL) and reward > MOST_FAIL:
        message = f"the golden answer {name}, which is to fail, gets {got}, expected {MOST_FAIL:g} at most"
        fix = "let the tests look at what is wrong with this answer, or correct the answer"
        weight = "critical" if passes else "major"
        return finding_of(CHECK, subject, f"golden-fail-accepted:{name}", weight, message, fix, case, evidence)
    return None
