"""What is exported of a trial: its trajectory, or lines of training data, with what became of the trial beside them."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from seatrial.errors import StoreError
from seatrial.gateway.calls import CALLS_FILE, MOST_BYTES, RecordedCalls, parse_calls
from seatrial.model.evaluation import Annotation
from seatrial.model.record import TrialRecord
from seatrial.model.trace import ModelCall
from seatrial.trajectories.atif import TrajectoryFiles, make_trajectory, session_of
from seatrial.trajectories.export import chat_line, dialogues
from seatrial.trajectories.threads import MAIN, find_threads
from seatrial.untrusted.files import open_below

_MOST_OF_A_LINE = 2**28


@dataclass(frozen=True, slots=True)
class TrialTalk:
    """The calls of a trial or of one of its steps, what it was, and what reviewers said of the trial."""

    record: TrialRecord
    step: str | None
    path: Path
    job: Path
    annotations: Sequence[Annotation] = ()

    def stored(self) -> Iterator[bytes]:
        """The lines of the calls as they are stored, which may be gigabytes; of one that is too long, its pieces.

        Raises StoreError for a file that is a link, or lies behind one in the job.
        """
        with open_below(self.path, self.job) as descriptor, open(descriptor, "rb", closefd=False) as file:
            if os.fstat(descriptor).st_size > 2 * MOST_BYTES:
                raise StoreError(f"{self.path}: cannot be read: it has more than {2 * MOST_BYTES:,} bytes")
            while line := file.readline(_MOST_OF_A_LINE):
                yield line

    def calls(self) -> list[ModelCall]:
        """The calls. Raises ValueError for damaged ones, and as `stored` does."""
        return parse_calls(self.stored())

    @property
    def place(self) -> str:
        """The trial's id, with the step's name below it."""
        trial = self.record.trial_id
        return f"{trial}/steps/{self.step}" if self.step else trial

    @property
    def session(self) -> str:
        """The same as in the trajectory that the trial itself has left."""
        return session_of(self.record.trial_id, self.step)

    @property
    def facts(self) -> dict[str, Any]:
        """What goes with everything that is exported."""
        record, evaluation = self.record, self.record.evaluation
        steps = {each.name: each.evaluation for each in record.steps}
        judged = steps.get(self.step, evaluation) if self.step else evaluation
        facts = {
            "trial_id": record.trial_id,
            "task": record.task.id,
            "task_digest": record.task.digest,
            "agent": record.agent.name,
            "agent_version": record.agent.version,
            "model": record.agent.model,
            "attempt": record.attempt,
            "outcome": record.outcome,
            "reward": judged.reward if judged else None,
            "annotations": [said.model_dump(mode="json") for said in self.annotations],
        }
        return {**facts, "step": self.step} if self.step else facts


@dataclass(frozen=True, slots=True)
class TrainingLine:
    """A line of training data, and what it is of."""

    line: dict[str, Any]
    facts: dict[str, Any]


def find_talks(record: TrialRecord, folder: Path, annotations: Sequence[Annotation] = ()) -> list[TrialTalk]:
    """Where the calls of a trial are; a task with steps has those of each step. `annotations` are the trial's.

    Links are taken for files here, so that whoever reads them says that they are links.
    """
    names = dict.fromkeys([*(step.name for step in record.steps), *_step_folders(folder)])
    places: dict[str | None, Path] = {None: folder / CALLS_FILE}
    places.update({name: folder / "steps" / name / CALLS_FILE for name in names})
    job = folder.parent.parent
    return [TrialTalk(record, step, path, job, annotations) for step, path in places.items() if os.path.lexists(path)]


def trajectory_of(talk: TrialTalk) -> TrajectoryFiles | None:
    """The trajectory of a trial; None if it has no conversation. Raises StoreError, or ValueError for damaged calls."""
    threads = find_threads(talk.calls())
    if not threads:
        return None
    made = make_trajectory(threads, talk.record.agent, talk.session)
    extra = {**(made.trajectory.extra or {}), "trial": talk.facts}
    return TrajectoryFiles(made.trajectory.model_copy(update={"extra": extra}), made.images)


def training_lines(talk: TrialTalk, *, threads: Literal["main", "all"]) -> Iterator[TrainingLine]:
    """The lines of a trial, one for each thread, or for each stretch of one that was compacted.

    Raises StoreError, or ValueError for damaged calls.
    """
    calls = talk.calls()
    recorded = RecordedCalls(calls)
    for thread in find_threads(calls):
        if threads == "main" and thread.name != MAIN:
            continue
        for dialogue in dialogues(recorded, thread):
            facts = {**talk.facts, "thread": dialogue.thread, "part": dialogue.number, "model": dialogue.model}
            yield TrainingLine(chat_line(dialogue), facts)


def _step_folders(folder: Path) -> list[str]:
    # A step in which the machinery failed may be missing from the record; its calls are there all the same.
    return sorted(path.parent.name for path in folder.glob(f"steps/*/{CALLS_FILE}"))
