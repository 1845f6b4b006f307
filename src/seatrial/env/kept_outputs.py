"""The outputs in the folder of an evaluation, whoever wrote it and however far it came.

Ours has `rollouts.jsonl`, or a trial's folder for each rollout; that of verifiers has `results.jsonl`.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from seatrial.env.results import Output
from seatrial.env.saving import METADATA, ROLLOUTS
from seatrial.env.stored import ROLLOUT_FILE, load_output, read_output
from seatrial.errors import StoreError
from seatrial.store.files import replace_file, storing
from seatrial.store.job_mark import JOB

RESULTS = "results.jsonl"

_INTERNAL = ("key", "trajectory", "trajectory_id", "evaluation", "outcome", "verifier_broken", "usage")


def read_outputs(folder: Path) -> list[Output]:
    """What is kept of each rollout, by their examples. Raises StoreError for a file that cannot be read."""
    with storing(folder):
        found = list(_read_trials(folder) if (folder / JOB).exists() else _read_lines(folder))
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


def _read_lines(folder: Path) -> Iterator[Output]:
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
