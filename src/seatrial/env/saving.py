"""Where outputs are kept while an evaluation goes on, so that one that was broken off can be gone on with.

Rollouts that are trials go to the folder of a job, as those of `seatrial run` do (`saving_trials`). Others have no task
and no sandbox that a record could tell of: each is a line of `rollouts.jsonl`.
"""

import asyncio
import hashlib
import json
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from seatrial.env.results import Output
from seatrial.env.rows import Row
from seatrial.env.run_row import RowPlan, run_row
from seatrial.env.stored import as_json, dump_output, load_output
from seatrial.errors import JobError, UsageError
from seatrial.store.files import replace_file, storing
from seatrial.store.job_mark import JOB
from seatrial.store.lock import locked

if TYPE_CHECKING:
    from seatrial.env.environment import Environment
    from seatrial.env.running import RunPlan

ROLLOUTS = "rollouts.jsonl"
METADATA = "metadata.json"
_KEY = "key"

_log = logging.getLogger(__name__)


class OutputStore(Protocol):
    """Keeps the outputs of an evaluation."""

    async def produce(self, row: Row) -> Output:
        """The output of a row: one that is kept already, or a new one. Raises StoreError when it cannot be kept."""
        ...

    async def scored(self, outputs: Sequence[Output]) -> None:
        """Take a group that `produce` gave the outputs of, and that has been scored since. Raises StoreError."""
        ...


@dataclass(frozen=True, slots=True)
class UnstoredOutputs:
    """Keeps nothing."""

    environment: "Environment"
    plan: RowPlan

    async def produce(self, row: Row) -> Output:
        """A new output; the last one of those that failed for a reason that may have gone."""
        output = (await run_row(self.environment, row, self.plan)).output
        for tries in range(1, self.plan.retries + 1):
            if not (output["error"] or {}).get("retryable"):
                break
            await asyncio.sleep(_pause(tries))
            output = (await run_row(self.environment, row, self.plan)).output
        return output

    async def scored(self, outputs: Sequence[Output]) -> None:
        """Nothing."""


class OutputLines:
    """A file with an output a line. Which row and rollout a line is of is told by a digest."""

    def __init__(self, unstored: UnstoredOutputs, file: BinaryIO, kept: Mapping[str, Output]) -> None:
        self._unstored = unstored
        self._file = file
        self._kept = kept
        self._seen: dict[str, int] = {}
        self._keys: dict[str, str] = {}

    async def produce(self, row: Row) -> Output:
        """An output that is in the file already, or a new one that is put there."""
        row_digest = _digest(row, self._unstored.plan)
        number = self._seen[row_digest] = self._seen.get(row_digest, 0) + 1
        key = f"{row_digest}.{number}"
        output = self._kept.get(key) or await self._unstored.produce(row)
        if self._unstored.plan.scoring == "group":
            self._keys[output["trajectory_id"]] = key
        elif key not in self._kept:
            await self._write({key: output})
        return output

    async def scored(self, outputs: Sequence[Output]) -> None:
        """Put outputs into the file that are worth something only now, all of a group or none."""
        keyed = {self._keys.pop(output["trajectory_id"], None): output for output in outputs}
        await self._write({key: each for key, each in keyed.items() if key and each is not self._kept.get(key)})

    async def _write(self, outputs: Mapping[str, Output]) -> None:
        lines = await asyncio.to_thread(lambda: [dump_output({**each, _KEY: key}) for key, each in outputs.items()])
        with storing(Path(self._file.name)):
            self._file.write(b"".join(lines))
            self._file.flush()


@asynccontextmanager
async def open_outputs(environment: "Environment", plan: "RunPlan", row_plan: RowPlan) -> AsyncIterator[OutputStore]:
    """Where the outputs of a plan go, for the length of a block. Raises JobError when they cannot go there."""
    unstored = UnstoredOutputs(environment, row_plan)
    async with AsyncExitStack() as stack:
        if environment.rollouts_are_trials:
            yield await stack.enter_async_context(_open_trials(environment, plan, row_plan))
        elif plan.engine != "local":
            raise UsageError(
                f"engine={plan.engine!r} is for rollouts that are trials, as those of HarborEnv; those of "
                f"{type(environment).__name__} run in the process that evaluates: leave the engine out, max_concurrent "
                "says how many run side by side. On several machines, evaluate in one process on each"
            )
        elif plan.save_to is None:
            yield unstored
        else:
            yield stack.enter_context(_open_lines(plan.save_to, unstored, resume=plan.resume))


def keep_metadata(folder: Path, metadata: Mapping[str, Any]) -> None:
    """Put what an evaluation amounts to beside its rollouts, whole or not at all. Raises StoreError."""
    with storing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        plain = {name: json.loads(as_json(value)) for name, value in metadata.items()}
        replace_file(folder / METADATA, (json.dumps(plain, indent=2) + "\n").encode())


def _pause(tries: int) -> float:
    from seatrial.jobs.retry import backoff_sec  # noqa: PLC0415 - much, and only for what is tried again

    return backoff_sec(tries)


def _open_trials(
    environment: "Environment", plan: "RunPlan", row_plan: RowPlan
) -> AbstractAsyncContextManager[OutputStore]:
    # Everything a trial needs, and all that a job needs: only those who have tasks, or a folder, need it.
    if plan.save_to is None:
        from seatrial.env.trial_rollouts import open_unstored_trials  # noqa: PLC0415

        return open_unstored_trials(environment, plan, row_plan)
    from seatrial.env.saving_trials import open_stored_trials  # noqa: PLC0415

    return open_stored_trials(environment, plan, row_plan, plan.save_to)


@contextmanager
def _open_lines(folder: Path, unstored: UnstoredOutputs, *, resume: bool) -> Iterator[OutputLines]:
    path = folder / ROLLOUTS
    with storing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / JOB).exists():
            raise JobError(f"{folder}: holds a job, expected {ROLLOUTS} or nothing; save to another folder")
        if path.exists() and not resume:
            raise JobError(f"{path}: is there already; go on with it by `resume=True`, or choose another folder")
    with locked(folder):
        with storing(path):
            file = path.open("a+b")
        with file:
            yield OutputLines(unstored, file, _read_lines(file, path))


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


def _digest(row: Row, plan: RowPlan) -> str:
    """What tells one row, asked of one model in one way, from every other."""
    meant: Any = [row, plan.model, dict(plan.sampling_args)]
    return hashlib.sha256(json.dumps(meant, sort_keys=True, default=str).encode()).hexdigest()[:24]
