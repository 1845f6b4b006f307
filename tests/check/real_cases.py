"""What tests of checks share: subjects made of verdicts, and a driver that has a real verifier judge cases."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from seatrial.check.cases import UNTOUCHED, Case, CaseVerdict, Subject
from seatrial.model.evaluation import EvaluationResult, ValidityCheck
from seatrial.model.record import FileChanges
from seatrial.tasks.load import load_task
from seatrial.trial.end_state import EndState, StateBench
from seatrial.trial.place import find_place
from seatrial.trial.rounds import rounds_of
from seatrial.trial.spec import Machinery
from seatrial.trial.verification import Verification
from seatrial.trial.work import DID_NOTHING, Work
from tests.trial.support import Desk, trial_spec


def verdict(reward: float | None, case: str = "state", **fields: Any) -> CaseVerdict:
    """A verdict of a verifier that came to its end; without a reward it gave none."""
    breakdown = fields.pop("breakdown", None)
    validity = ValidityCheck(output_parseable=True, schema_valid=True, verifier_completed=reward is not None)
    evaluation = EvaluationResult(reward=reward or 0.0, validity=validity, breakdown=breakdown)
    return CaseVerdict(case, evaluation, **fields)


def subject_of(root: Path, states: Mapping[str, CaseVerdict], **fields: Any) -> Subject:
    """A task as checks see it, with the verdicts on its states."""
    return Subject(load_task(root), root.name, "", {}, states, **fields)


def judge_cases(desk: Desk, root: Path, cases: Iterable[Case], files: Mapping[str, Path]) -> dict[str, CaseVerdict]:
    """Have the verifier of a task judge cases, each in a sandbox of its own; `files` are those of its states."""
    spec, machinery = trial_spec(root), Machinery(desk.backend)
    (round_, *_) = rounds_of(spec.task)
    nothing = FileChanges()

    async def judge(case: Case) -> CaseVerdict:
        folder = desk.new_folder()
        work = Work(None, nothing, nothing, (), (), folder / "artifacts")
        place = await find_place(spec, machinery)
        verification = Verification(spec, round_, place, folder, DID_NOTHING, work)
        state = EndState(verification, files=files.get(case.state))
        judged = await StateBench(machinery).judge(state, folder, case.edits, case.conditions)
        run = judged.judgement.run
        return CaseVerdict(case.id, judged.evaluation, exit_code=run.exit_code, timed_out=run.timed_out)

    return {case.id: desk.wait(judge(case)) for case in cases}


def with_states(desk: Desk, root: Path, files: Mapping[str, Path], **fields: Any) -> Subject:
    """A subject whose states are the untouched environment and some with files, each judged once."""
    asked = [Case(state, "V3", state) for state in (UNTOUCHED, *files)]
    subject = subject_of(root, judge_cases(desk, root, asked, files), **fields)
    return replace(subject, repeats=fields.get("repeats", 2))
