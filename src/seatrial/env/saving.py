"""Where outputs are kept while an evaluation goes on, so that one that was broken off can be resumed.

Rollouts that are trials go to the folder of a job, as those of `seatrial run` do (`trials`). Others have no task
and no sandbox that a record could tell of: each is a line of `rollouts.jsonl`. Folders are read here too,
also those of verifiers with their `results.jsonl`. An output as JSON is `stored`'s concern.
"""

import asyncio
import hashlib
import json
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Protocol

from seatrial.env.results import Output
from seatrial.env.rows import Row
from seatrial.env.run_row import RowPlan, run_row
from seatrial.env.stored import ROLLOUT_FILE, as_json, dump_output, load_output, read_output
from seatrial.errors import JobError, StoreError, UsageError
from seatrial.store.files import JOB, locked, replace_file, storing

if TYPE_CHECKING:
    from seatrial.env.environment import Environment
    from seatrial.env.running import RunPlan

ROLLOUTS = "rollouts.jsonl"
RESULTS = "results.jsonl"
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


class UnstoredOutputs(NamedTuple):
    """Keeps nothing."""

    environment: "Environment"
    plan: RowPlan

    async def produce(self, row: Row) -> Output:
        """A new output; the last one of those that failed for a reason that may have gone."""
        output = (await run_row(self.environment, row, self.plan)).output
        for tries in range(1, self.plan.retries + 1):
            if not (output["error"] or {}).get("retryable"):
                break
            from seatrial.jobs.attempt import backoff_sec  # noqa: PLC0415 - much, and only for what is tried again

            await asyncio.sleep(backoff_sec(tries))
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
            from seatrial.env.trials import open_trials  # noqa: PLC0415 - all a trial needs

            yield await stack.enter_async_context(open_trials(environment, plan, row_plan))
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


# Reading a folder, ours or that of verifiers, finished or not; and writing one as verifiers does.

_INTERNAL = ("key", "trajectory", "trajectory_id", "evaluation", "outcome", "verifier_broken", "usage")


def read_outputs(folder: Path) -> list[Output]:
    """What is kept of each rollout, by their examples. Raises StoreError for a file that cannot be read."""
    with storing(folder):
        found = list(_read_trials(folder) if (folder / JOB).exists() else _read_kept_lines(folder))
    ids = [output.get("example_id") for output in found]
    return sorted(found, key=lambda output: output["example_id"]) if all(isinstance(id_, int) for id_ in ids) else found


def read_metadata(folder: Path) -> dict[str, Any]:
    """What is known of an evaluation besides its rollouts; nothing where that is not there or damaged."""
    try:
        table = json.loads((folder / METADATA).read_bytes())
    except (OSError, ValueError):
        return {}
    return table if isinstance(table, dict) else {}


def write_results(folder: Path, outputs: list[Output]) -> None:
    """Put results.jsonl in place, with the columns that verifiers gives it. Raises StoreError."""
    lines = (f"{_written(_result(output))}\n" for output in outputs)
    with storing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(folder / RESULTS, "".join(lines).encode())


def _result(output: Output) -> dict[str, Any]:
    metrics = output["metrics"] if isinstance(output["metrics"], dict) else {}
    usage = output["usage"] if isinstance(output["usage"], dict) else {}
    tokens = {name: usage[name] for name in ("input_tokens", "output_tokens") if name in usage}
    columns = {name: value for name, value in output.items() if name not in _INTERNAL}
    return {**metrics, **columns, "token_usage": tokens}


def _written(result: dict[str, Any]) -> str:
    """One line. What JSON has no form for is written as text: it is no reason to lose the rest."""
    try:
        return json.dumps(result, default=str)
    except (ValueError, TypeError, RecursionError):  # without end, with keys that are no text, or too deep
        return json.dumps({name: value if _is_plain(value) else str(value) for name, value in result.items()})


def _is_plain(value: object) -> bool:
    try:
        json.dumps(value)
    except (ValueError, TypeError, RecursionError):
        return False
    return True


def _read_trials(folder: Path) -> Iterator[Output]:
    for path in sorted((folder / "trials").glob(f"*/{ROLLOUT_FILE}")):
        try:
            yield read_output(path.parent)
        except (ValueError, KeyError, TypeError):
            continue


def _read_kept_lines(folder: Path) -> Iterator[Output]:
    """A rollout that was made again has several lines, of which the last one counts."""
    path = next((folder / name for name in (ROLLOUTS, RESULTS) if (folder / name).is_file()), None)
    if path is None:
        raise StoreError(f"{folder}: has neither {ROLLOUTS} nor {RESULTS}, expected an evaluation")
    kept: dict[str, Output] = {}
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                output = load_output(line) if path.name == ROLLOUTS else json.loads(line)
                kept[str(output.get("key", number))] = output
            except (ValueError, KeyError, TypeError, AttributeError):  # damaged; a run that goes on makes it again
                continue
    yield from kept.values()
