"""Harbor's job folders: a folder per trial, each with a `result.json`, beside the job's own `result.json`."""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from seatrial.errors import ImportSourceError
from seatrial.integrations.foreign import ForeignAgent, ForeignTrial, Skipped
from seatrial.integrations.harbor_trial import RESULT, agent_of, is_trial, place_of, trial_of
from seatrial.integrations.reading import SourceFault, read_object, storable
from seatrial.integrations.values import count_of, list_of, number_of, table_of
from seatrial.model.imported import SourceFormat

_MOST_TRIALS = 1_000_000


class HarborResults:
    """The trials in a job's folder. A folder without a `result.json` is a trial that never ended, and is skipped."""

    format: SourceFormat = "harbor"
    rule = "Harbor counts a trial without a verdict as 0"
    version: str | None = None  # no file of a job names it

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._job = _read_job(folder)
        self._names = _trial_folders(folder)
        self._digests = {name: _digest(folder / name / RESULT, f"{name}/{RESULT}") for name in self._names}
        whole = "".join(f"{name}\0{digest}\n" for name, digest in self._digests.items())
        self.sha256 = hashlib.sha256(whole.encode("utf-8", "surrogateescape")).hexdigest()

    @cached_property
    def stored_means(self) -> Mapping[ForeignAgent, float]:
        """The mean of each agent, as far as its trials are of one dataset and have one reward each."""
        evals = table_of(table_of(self._job.get("stats")).get("evals"))
        found = {agent: keys for agent, keys in self._evals.items() if len(keys) == 1}
        means = {agent: _mean(evals.get(next(iter(keys)))) for agent, keys in found.items()}
        return {agent: mean for agent, mean in means.items() if mean is not None}

    @property
    def notes(self) -> Sequence[str]:
        """What the job's own result says that its trials do not."""
        total = count_of(self._job.get("n_total_trials"))
        if total is None or total <= len(self._names):
            return []
        return [f"the job was to have {total:,} trials, and there are folders of {len(self._names):,}"]

    def trials(self) -> Iterator[ForeignTrial | Skipped]:
        """A trial for each folder with a result, in the order of their names."""
        tasks: dict[str, str] = {}
        for name in self._names:
            result = self._result(name)
            if isinstance(result, Skipped):
                yield result
                continue
            found = storable(partial(trial_of, result, self._folder / name, self._digests[name]), place_of(name))
            yield found if isinstance(found, Skipped) else _told_apart(found, tasks)

    @cached_property
    def _evals(self) -> dict[ForeignAgent, set[str]]:
        """Under which keys the job's result has the trials of each agent."""
        found: dict[ForeignAgent, set[str]] = {}
        for name in self._names:
            result = self._result(name)
            if not isinstance(result, Skipped):
                found.setdefault(agent_of(result), set()).add(_key(result))
        return found

    def _result(self, name: str) -> dict[str, Any] | Skipped:
        place = place_of(name)
        path, expected = self._folder / name / RESULT, self._digests[name]
        if not path.exists():
            return Skipped(place, "is not there: the trial did not end")
        try:
            result, digest = read_object(path, place)
        except SourceFault as error:
            return Skipped(place, str(error).removeprefix(f"{place}: "))
        if digest != expected:
            raise ImportSourceError(f"{path}: was changed while it was read; wait until the job ends")
        if not is_trial(result):
            return Skipped(place, "is no result of a trial: expected `task_name` and `trial_name`")
        return result


def has_trials(folder: Path) -> bool:
    """Whether a folder looks like a job of Harbor's."""
    return any((folder / name / RESULT).is_file() for name in _trial_folders(folder))


def _trial_folders(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        found = sorted(each.name for each in entries if each.is_dir(follow_symlinks=False) and _is_trial(each.path))
    if len(found) > _MOST_TRIALS:
        raise ImportSourceError(f"{folder}: has {len(found):,} trials, expected {_MOST_TRIALS:,} at most")
    return found


def _is_trial(path: str) -> bool:
    return any(os.path.lexists(f"{path}/{name}") for name in (RESULT, "config.json"))


def _digest(path: Path, name: str) -> str:
    try:
        return read_object(path, name)[1]
    except SourceFault:
        return hashlib.sha256(b"").hexdigest()


def _read_job(folder: Path) -> dict[str, Any]:
    path = folder / RESULT
    if not path.exists():
        return {}
    try:
        return read_object(path, str(path))[0]
    except SourceFault as error:
        raise ImportSourceError(f"{error}; mend it, or move it away to import without it") from None


def _told_apart(trial: ForeignTrial, tasks: dict[str, str]) -> ForeignTrial:
    """A trial whose task is another one than that of the same name before, if its content is: a task may be edited."""
    task = trial.task
    if tasks.setdefault(task.id, task.digest) == task.digest:
        return trial
    return replace(trial, task=replace(task, id=f"{task.id}-{task.digest[:8]}"))


def _key(result: dict[str, Any]) -> str:
    info = table_of(result.get("agent_info"))
    model = table_of(info.get("model_info")).get("name")
    parts = [info.get("name"), model, result.get("source") or "adhoc"]
    return "__".join(str(part) for part in parts if part)


def _mean(stats: Any) -> float | None:
    for metric in list_of(table_of(stats).get("metrics")):
        for name in ("mean", "reward"):
            if (mean := number_of(table_of(metric).get(name))) is not None:
                return mean
    return None
