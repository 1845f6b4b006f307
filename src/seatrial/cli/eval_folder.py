"""The folder an evaluation goes to, or goes on in, and what is written there besides the rollouts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seatrial.cli.eval_options import LATEST
from seatrial.env.kept_outputs import RESULTS, read_metadata
from seatrial.env.saving import ROLLOUTS
from seatrial.errors import JobError
from seatrial.jobs.api import new_job_folder
from seatrial.store.job_mark import JOB

OUTPUTS = Path("outputs/evals")

_MUST_AGREE = ("env_id", "env_args", "model", "sampling_args", "shuffle", "shuffle_seed")


def evaluation_folder(env_id: str, model: str, output: Path | None, resume: str | None) -> tuple[Path, bool]:
    """Where results go, and whether there are some already to go on with. Raises JobError."""
    if resume is not None and resume != LATEST:
        folder = Path(resume)
        if not _has_results(folder):
            raise JobError(f"{folder}: has no evaluation to go on with; expected {ROLLOUTS} or {JOB} in it")
        return folder, True
    if output is not None:
        if _has_results(output) and resume is None:
            raise JobError(f"{output}: holds results already; go on with them by --resume {output}, or name another")
        return output, _has_results(output)
    runs = OUTPUTS / f"{_plain(env_id)}--{_plain(model)}"
    latest = _latest_unfinished(runs) if resume == LATEST else None
    return (latest, True) if latest is not None else (new_job_folder(runs), False)


def settings_of(
    env_id: str, env_args: Mapping[str, Any], model: str, sampling: Mapping[str, Any], seed: int | None
) -> dict[str, Any]:
    """What must be the same for rollouts to be those of one evaluation."""
    return {
        "env_id": env_id,
        "env_args": dict(env_args),
        "model": model,
        "sampling_args": dict(sampling),
        "shuffle": seed is not None,
        "shuffle_seed": seed,
    }


def refuse_other_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Raise JobError that lists how an evaluation to go on with differs from the one that is asked for."""
    stored = read_metadata(folder)
    different = [name for name in _MUST_AGREE if name in stored and stored[name] != settings[name]]
    if different:
        listed = "; ".join(f"{name} was {stored[name]!r} and is {settings[name]!r}" for name in different)
        raise JobError(f"{folder}: is another evaluation: {listed}. Give the same options, or another folder")


def _has_results(folder: Path) -> bool:
    return any((folder / name).exists() for name in (JOB, ROLLOUTS, RESULTS))


def _latest_unfinished(runs: Path) -> Path | None:
    found = [path for path in runs.glob("*") if _has_results(path)] if runs.is_dir() else []
    unfinished = [path for path in found if read_metadata(path).get("status") != "complete"]
    return max(unfinished, key=lambda path: (path.stat().st_mtime_ns, path.name), default=None)


def _plain(name: str) -> str:
    return name.replace("/", "--")
