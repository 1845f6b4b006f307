"""Trying the cases of a check for real: each as a trial of an agent that leaves what the case is about."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from seatrial.check.cases import ORACLE, UNTOUCHED, AcceptedAnswer, Case, CaseVerdict, Check, CheckResult, Subject
from seatrial.model.output import format_of
from seatrial.tasks.load import load_task
from tests.trial.support import Desk, Ran


def test_files(root: Path) -> dict[str, bytes]:
    """The files of a task's tests/, by their paths in it."""
    folder = root / "tests"
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


test_files.__test__ = False  # type: ignore[attr-defined]  # pytest would take it for a test


def make_subject(root: Path, *answers: AcceptedAnswer, **states: CaseVerdict) -> Subject:
    """A task as checks see it, with verdicts on some of its states."""
    task = load_task(root)
    instruction = (root / "instruction.md").read_text()
    return Subject(task, f"tasks/{root.name}", instruction, test_files(root), states, answers)


def accepted(path: str, content: str, state: str = ORACLE) -> AcceptedAnswer:
    """An answer that some state was rewarded for."""
    return AcceptedAnswer(state, path, content.encode(), format_of(path), 1.0)


@dataclass(frozen=True, slots=True)
class Bench:
    """Tries cases one after the other; only states that a command can make."""

    desk: Desk

    def check(self, check: Check, root: Path, *answers: AcceptedAnswer, only: Iterable[str] = ()) -> CheckResult:
        """Try the cases of a check, or those whose ids end in one of some words, and say what came of them."""
        subject = make_subject(root, *answers, **{UNTOUCHED: verdict_of(UNTOUCHED, self.desk.run(root))})
        wanted = tuple(only)
        chosen = [case for case in check.cases(subject) if not wanted or case.id.endswith(wanted)]
        return check.findings(subject, {case.id: self._try(root, case) for case in chosen})

    def _try(self, root: Path, case: Case) -> CaseVerdict:
        lines = [_laid_out(edit.path, edit.content or b"", edit.mode) for edit in case.edits]
        return verdict_of(case.id, self.desk.run(root, "\n".join([*lines, case.command or "true"])))


def _laid_out(path: str, content: bytes, mode: int | None) -> str:
    octal = "".join(f"\\{byte:03o}" for byte in content)
    place, allowed = shlex.quote(path), 0o644 if mode is None else mode
    return f"mkdir -p \"$(dirname {place})\"; printf '{octal}' > {place}; chmod {allowed:o} {place}"


def verdict_of(case: str, ran: Ran) -> CaseVerdict:
    """What a trial says about its case."""
    run = ran.run
    return CaseVerdict(case, ran.evaluation, ran.record.outcome, run.duration_sec, run.exit_code, run.timed_out)
