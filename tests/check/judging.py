"""Checks on a verifier that is a function: it takes the bytes of an answer, and says what they are worth."""

from collections.abc import Callable, Mapping
from pathlib import Path

from seatrial.check.cases import AcceptedAnswer, Case, CaseVerdict, Check, CheckResult, Subject
from seatrial.model.evaluation import EvaluationResult, ValidityCheck
from seatrial.model.output import format_of
from tests.check.trying import make_subject
from tests.trial.support import write_task

Verifier = Callable[[bytes], float]
WORKDIR = '[environment]\nnetwork_mode = "no-network"\nworkdir = "/workspace"\n'


def subject_with(
    tmp_path: Path, instruction: str, answers: Mapping[str, str | bytes], tests: str = "", *, toml: str = ""
) -> Subject:
    """A task that wants some files in /workspace, by their names there, and accepts these."""
    files = {"tests/verify.py": tests} if tests else {}
    root = write_task(tmp_path / "task", instruction=instruction, files=files, toml=f"{toml}\n{WORKDIR}")
    return make_subject(root, *(_accepted(name, content) for name, content in answers.items()))


def _accepted(name: str, content: str | bytes) -> AcceptedAnswer:
    data = content.encode() if isinstance(content, str) else content
    return AcceptedAnswer("oracle", f"/workspace/{name}", data, format_of(name), 1.0)


def judge_with(check: Check, subject: Subject, **verifiers: Verifier) -> CheckResult:
    """Try every case of a check; each verifier judges the file of its name, `result` any `result.…`. All must agree."""
    return check.findings(subject, {case.id: _verdict(case, verifiers) for case in check.cases(subject)})


def _verdict(case: Case, verifiers: Mapping[str, Verifier]) -> CaseVerdict:
    rewards = [1.0]
    for edit in case.edits:
        verifier = verifiers.get(Path(edit.path).stem)
        if verifier:
            rewards.append(verifier(edit.content or b""))
    return verdict(case.id, min(rewards))


def verdict(case: str, reward: float, *, completed: bool = True, timed_out: bool = False) -> CaseVerdict:
    """What a verifier says that wrote a reward, or none."""
    validity = ValidityCheck(output_parseable=True, schema_valid=True, verifier_completed=completed)
    evaluation = EvaluationResult(reward=reward, validity=validity)
    return CaseVerdict(case, evaluation, None if completed else "verifier_error", timed_out=timed_out)


def told(result: CheckResult) -> dict[str, str]:
    """What was found, by id without the check, and its weight."""
    return {finding.id.partition("/")[2]: finding.weight for finding in result.findings}
