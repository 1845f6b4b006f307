"""V1: the task's own solution gets full marks, or what its author says it gets."""

from collections.abc import Iterable, Mapping

from seatrial.check.cases import ORACLE, Case, CaseVerdict, CheckResult, Subject, case_id
from seatrial.check.golden import least_accepted
from seatrial.check.judging import concluded, finding_of, skipped
from seatrial.model.base import JsonObject
from seatrial.model.check import CheckFinding, CheckId, Weight
from seatrial.model.outcome import format_reward
from seatrial.scoring.missing_tools import missing_tools

CHECK: CheckId = "V1"
TITLE = "the task's own solution passes"
CASE = case_id(CHECK, ORACLE)
_CLOSE = 1e-9
_INSTALL = "bring it with the image of the task, or name the image that has it with --image"


def cases(_: Subject) -> Iterable[Case]:
    """None: the solution is run anyway, for its end state."""
    return ()


def findings(subject: Subject, _: Mapping[str, CaseVerdict]) -> CheckResult:
    verdict = subject.whole_trial(ORACLE)
    if verdict is None:
        return skipped(CHECK, subject.missing.get(ORACLE, "it was not run"))
    found = _judge(subject, verdict)
    return concluded(CHECK, [found] if found else [], {"reward": verdict.reward})


def _judge(subject: Subject, verdict: CaseVerdict) -> CheckFinding | None:
    said, reward = subject.task.config.check.oracle_reward, verdict.reward
    wanted = 1.0 if said is None else said
    script = subject.tests.get("test.sh", b"").decode(errors="replace")
    tools = ", ".join(missing_tools([verdict.log.encode()], script, subject.instruction))
    lacks = f"; the verifier did not find {tools}" if tools else ""
    if verdict.outcome == "verifier_error" or reward is None:
        message = f"the verifier gives no verdict on the task's own solution, so it has none for any agent{lacks}"
        fix = "run the command below and read what the verifier printed; a reward must be written on every path"
        return finding_of(CHECK, subject, "no-verdict", "critical", message, _INSTALL if tools else fix, CASE)
    if abs(reward - wanted) <= _CLOSE:
        return None
    got, due = format_reward(reward), format_reward(wanted)
    if reward > wanted:
        message = f"the task's own solution gets {got}, and task.toml says that it is to get {due}"
        fix = f"set `oracle_reward = {got}` in [check] of task.toml, or correct the tests"
        return finding_of(CHECK, subject, "above-expected", "minor", message, fix, CASE)
    weight: Weight = "critical" if reward < least_accepted(subject.task, subject.pass_threshold) else "major"
    message = f"the task's own solution gets {got} where {due} is expected{lacks}"
    fix = "correct the solution or the tests; where less is meant, set `oracle_reward` in [check] of task.toml"
    evidence: JsonObject = {"reward": reward, "expected": wanted}
    return finding_of(CHECK, subject, "solution-rejected", weight, message, _INSTALL if tools else fix, CASE, evidence)
