"""Jobs whose trials have recorded calls: each turn of an agent is a command, or words."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from seatrial.gateway.calls import CALLS_FILE
from seatrial.jobs.prepare import prepare_job
from seatrial.model.trace import ModelCall
from seatrial.store.job_store import JobStore
from tests.conftest import MakeTask
from tests.jobs.samples import evaluation, job_spec, record
from tests.trajectories.test_first_failure import calls

LOOKS, WRITES, TESTS = "ls", "touch a.py", "pytest -q"


def recorded(commands: Sequence[str], outputs: Sequence[str] = ()) -> list[ModelCall]:
    """The calls of an agent that runs one command after the other; an output with `!` is of a tool that failed."""
    said = [*outputs, *[""] * (len(commands) - len(outputs))]
    made = calls([("bash", {"command": command}, output) for command, output in zip(commands, said, strict=True)])
    return made[:-1]


def write_calls(store: JobStore, trial_id: str, made: Sequence[ModelCall]) -> None:
    lines = b"".join(call.model_dump_json().encode() + b"\n" for call in made)
    (store.trial_folder(trial_id) / CALLS_FILE).write_bytes(lines)


def classified_job(
    make_task: MakeTask, folder: Path, attempts: Mapping[int, tuple[float, Sequence[ModelCall]]]
) -> JobStore:
    """A job with one task: the reward of each attempt at it, and its calls."""
    make_task("tasks/add")
    store = prepare_job(job_spec(tasks=(str(folder / "tasks"),), attempts=len(attempts)), folder / "job").store
    digest = store.file.tasks[0].digest
    for attempt, (reward, made) in attempts.items():
        trial = record("add", attempt, evaluation=evaluation(reward), job=store.file.spec.name, job_id=store.file.id)
        with store.draft(trial.trial_id) as draft:
            draft.commit(trial.model_copy(update={"task": trial.task.model_copy(update={"digest": digest})}))
        if made:
            write_calls(store, trial.trial_id, made)
    return JobStore.open(folder / "job")
