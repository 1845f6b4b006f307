"""Where outputs are kept while an evaluation goes on, so that one that was broken off can be gone on with.

Rollouts that are trials go to the folder of a job, as those of `seatrial run` do (`saving_trials`). Others have no task
and no sandbox that a record could tell of: each is a line of `rollouts.jsonl`.
"""

import asyncio
import hashlib
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from seatrial.env.results import Output, make_output
from seatrial.env.rows import Row
from seatrial.env.state import State
from seatrial.env.stored import dump_output, load_output
from seatrial.errors import JobError
from seatrial.store.files import storing
from seatrial.store.job_file import JOB
from seatrial.store.lock import locked

if TYPE_CHECKING:
    from seatrial.env.environment import Environment
    from seatrial.env.running import RunPlan

ROLLOUTS = "rollouts.jsonl"
_KEY = "key"

_log = logging.getLogger(__name__)

RunRow = Callable[[Row], Awaitable[State]]
"""Runs the rollout of a row and scores it."""


class OutputStore(Protocol):
    """Keeps the outputs of an evaluation."""

    async def produce(self, row: Row, run: RunRow) -> Output:
        """The output of a row: one that is kept already, or a new one. Raises StoreError when it cannot be kept."""
        ...


class UnstoredOutputs:
    """Keeps nothing."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self._columns = columns

    async def produce(self, row: Row, run: RunRow) -> Output:
        """A new output."""
        return make_output(await run(row), self._columns)


class OutputLines:
    """A file with an output a line. Which row and rollout a line is of is told by a digest."""

    def __init__(self, file: BinaryIO, kept: Mapping[str, Output], plan: "RunPlan") -> None:
        self._file = file
        self._kept = kept
        self._plan = plan
        self._seen: dict[str, int] = {}

    async def produce(self, row: Row, run: RunRow) -> Output:
        """An output that is in the file already, or a new one that is put there."""
        row_digest = _digest(row, self._plan)
        number = self._seen[row_digest] = self._seen.get(row_digest, 0) + 1
        key = f"{row_digest}.{number}"
        if key in self._kept:
            return self._kept[key]
        output = make_output(await run(row), self._plan.state_columns)
        line = await asyncio.to_thread(dump_output, {**output, _KEY: key})
        with storing(Path(self._file.name)):
            self._file.write(line)
            self._file.flush()
        return output


@asynccontextmanager
async def open_outputs(environment: "Environment", plan: "RunPlan") -> AsyncIterator[OutputStore]:
    """Where the outputs of a plan go, for the length of a block. Raises JobError when they cannot go there."""
    if plan.save_to is None:
        yield UnstoredOutputs(plan.state_columns)
        return
    from seatrial.env.saving_trials import job_file_of, open_trial_outputs  # noqa: PLC0415 - much, and seldom needed

    job = job_file_of(environment, plan)
    with _open_lines(plan.save_to, plan) if job is None else open_trial_outputs(plan.save_to, job, plan) as store:
        yield store


@contextmanager
def _open_lines(folder: Path, plan: "RunPlan") -> Iterator[OutputStore]:
    path = folder / ROLLOUTS
    with storing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / JOB).exists():
            raise JobError(f"{folder}: holds a job, expected {ROLLOUTS} or nothing; save to another folder")
        if path.exists() and not plan.resume:
            raise JobError(f"{path}: is there already; go on with it by `resume=True`, or choose another folder")
    with locked(folder):
        with storing(path):
            file = path.open("a+b")
        with file:
            yield OutputLines(file, _read_lines(file, path), plan)


def _read_lines(file: BinaryIO, path: Path) -> dict[str, Output]:
    """Outputs by their keys; those that failed for a reason that may have gone are left out."""
    file.seek(0)
    kept: dict[str, Output] = {}
    whole = 0
    for number, line in enumerate(file, 1):
        if not line.endswith(b"\n"):  # a crash while it was written
            file.truncate(whole)
            break
        try:
            output = load_output(line)
            kept[output.pop(_KEY)] = output
        except (ValueError, KeyError, TypeError) as error:
            _log.warning("%s: line %s is no rollout (%s); it is left alone, and made again", path, number, error)
        whole += len(line)
    return {key: output for key, output in kept.items() if not (output["error"] or {}).get("retryable")}


def _digest(row: Row, plan: "RunPlan") -> str:
    """What tells one row, asked of one model in one way, from every other."""
    meant: Any = [row, plan.model, dict(plan.sampling_args)]
    return hashlib.sha256(json.dumps(meant, sort_keys=True, default=str).encode()).hexdigest()[:24]
