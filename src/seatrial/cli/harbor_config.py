"""Harbor's job configuration as a job of ours. What has no counterpart here is named, never dropped in silence.

Harbor writes its whole configuration out, so a key without a counterpart may stand there with nothing in it.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from seatrial.cli.job_keys import nearest
from seatrial.errors import JobError
from seatrial.model.job import JobSpec

Table = Mapping[Any, Any]

JOBS_DIR = "jobs_dir"
"""The folder of jobs, which is no part of a JobSpec."""

_TELLING = frozenset(
    {
        *("job_name", "jobs_dir", "n_attempts", "n_concurrent_trials", "orchestrator", "datasets", "metrics"),
        *("environment", "verifier", "artifacts", "plugins", "retry"),
    }
)
_PLAIN = {
    "job_name": "name",
    "jobs_dir": JOBS_DIR,
    "n_attempts": "attempts",
    "agent_timeout_multiplier": "trial.agent_timeout_multiplier",
    "verifier_timeout_multiplier": "trial.verifier_timeout_multiplier",
    "n_concurrent_trials": "run.concurrent",
    "orchestrator.n_concurrent_trials": "run.concurrent",
    "retry.max_retries": "run.retries",
    "orchestrator.retry.max_retries": "run.retries",
    "environment.type": "trial.backend",
    "environment.override_cpus": "trial.cpus",
    "environment.override_memory_mb": "trial.memory_mb",
    "environment.override_storage_mb": "trial.storage_mb",
}
_AGENT_KEYS = {"name": "name", "model_name": "model", "env": "env", "kwargs": "options"}
_DATASET_KEYS = {"task_names": "include", "exclude_task_names": "exclude", "n_tasks": "max_tasks"}
_KEYS_OF_LISTS = {"agents": tuple(_AGENT_KEYS), "datasets": ("path", *_DATASET_KEYS), "tasks": ("path", "source")}
_WITHOUT_MEANING = frozenset(
    {
        *("debug", "quiet", "orchestrator.type", "orchestrator.quiet", "environment.delete"),
        *("environment.force_build", "timeout_multiplier", "agents", "datasets", "tasks"),
        *("retry.wait_multiplier", "retry.min_wait_sec", "retry.max_wait_sec", "retry.exclude_exceptions"),
        *("orchestrator.retry.wait_multiplier", "orchestrator.retry.min_wait_sec"),
        *("orchestrator.retry.max_wait_sec", "orchestrator.retry.exclude_exceptions"),
    }
)
_KNOWN = sorted({*_PLAIN, *_WITHOUT_MEANING})
_TABLES = frozenset(key.rpartition(".")[0] for key in _KNOWN) - {""}
_LISTS = ("agents", "datasets", "tasks")
_OWN = frozenset(JobSpec.model_fields) - {*_LISTS}


@dataclass
class HarborJob:
    """A configuration in the shape of a job file. `names` are its own keys for what they became there."""

    values: dict[str, Any] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)

    def put(self, ours: str, value: Any, theirs: str) -> None:
        """Set a key of ours that theirs stands for."""
        table, _, name = ours.rpartition(".")
        (self.values.setdefault(table, {}) if table else self.values)[name] = value
        self.names[ours] = theirs

    def add_tasks(self, path: Any, theirs: str) -> None:
        """One more path of a task or of a folder of tasks."""
        paths = self.values.setdefault("tasks", [])
        self.names[f"tasks.{len(paths)}"] = theirs
        paths.append(path)


def is_harbor_config(values: Table) -> bool:
    """Whether values are those of Harbor's job configuration and not of a job file of ours."""
    return bool(_TELLING & values.keys())


def from_harbor_config(values: Table, source: str) -> HarborJob:
    """The job that means the same. Raises JobError for mistakes, and for every key without a counterpart."""
    flat = dict(_flat(values))
    if complaints := [*_mixed(values), *_misshapen(values, flat), *_given_twice(flat)]:
        raise JobError("\n".join(f"{source}: {complaint}" for complaint in complaints))
    job = HarborJob()
    job.unknown += [key for key, value in flat.items() if key not in _KNOWN and value]
    for key, ours in _PLAIN.items():
        if flat.get(key) is not None:
            job.put(ours, flat[key], key)
    _read_settings(flat, job)
    _read_agents(values, job)
    _read_datasets(values, job)
    _read_tasks(values, job)
    if job.unknown:
        raise JobError(
            f"{source}: Harbor's {', '.join(map(_with_meant, job.unknown))} cannot be had here; take it out "
            "(docs/from-harbor.md says what ours is)"
        )
    return job


def _mixed(values: Table) -> Iterator[str]:
    """Keys of our own job files, which this file is not read as."""
    told = min(_TELLING & values.keys())
    for key in values:
        if key in _OWN:
            yield f"{key}: a key of our job files, but {told} is one of Harbor's; keep to one of the two"


def _misshapen(values: Table, flat: Table) -> Iterator[str]:
    for key, value in flat.items():
        if key in _TABLES and value is not None:
            yield f"{key}: expected a table, found {value!r:.80}"
    for key in _LISTS:
        found = values.get(key)
        if found is not None and not (isinstance(found, list) and all(isinstance(each, dict) for each in found)):
            yield f"{key}: expected an array of tables, found {found!r:.80}"
    if not isinstance(values.get(JOBS_DIR), str | None):
        yield f"{JOBS_DIR}: expected the path of a folder, found {values[JOBS_DIR]!r:.80}"


def _given_twice(flat: Table) -> Iterator[str]:
    """Older and newer versions of Harbor have two names for some settings."""
    given = [key for key in _PLAIN if flat.get(key) is not None]
    for ours, times in Counter(_PLAIN[key] for key in given).items():
        if times > 1:
            names = [key for key in given if _PLAIN[key] == ours]
            yield f"{names[-1]}: the same as {names[0]}, which is given too; keep one of them"


def _with_meant(key: str) -> str:
    """The key, with one of the same table, or of a table spelled like its own, that it may be a misspelling of."""
    table, _, leaf = key.rpartition(".")
    of_list = _KEYS_OF_LISTS.get(table.partition(".")[0])
    if of_list:
        near = nearest(leaf, list(of_list))
        return f"{key} (did you mean {table}.{near}?)" if near else key
    same = [known for known in _KNOWN if known.rpartition(".")[0] == table]
    near = nearest(key, same or _KNOWN)
    return f"{key} (did you mean {near}?)" if near else key


def _read_settings(flat: Table, job: HarborJob) -> None:
    both = flat.get("timeout_multiplier")
    for phase in ("agent", "verifier") if both not in (None, 1, 1.0) else ():
        if f"trial.{phase}_timeout_multiplier" not in job.names:
            job.put(f"trial.{phase}_timeout_multiplier", both, "timeout_multiplier")
    if flat.get("environment.force_build"):
        job.put("trial.build", "always", "environment.force_build")


def _read_agents(values: Table, job: HarborJob) -> None:
    agents: list[dict[str, Any]] = []
    for number, agent in enumerate(values.get("agents") or ()):
        job.unknown += [f"agents.{number}.{key}" for key, value in agent.items() if key not in _AGENT_KEYS and value]
        agents.append({ours: _agent_value(ours, agent[key]) for key, ours in _AGENT_KEYS.items() if agent.get(key)})
        job.names.update({f"agents.{number}.{ours}": f"agents.{number}.{key}" for key, ours in _AGENT_KEYS.items()})
    names = [agent.get("name") for agent in agents]
    for agent in agents:
        if names.count(agent.get("name")) > 1 and "model" in agent:
            agent["label"] = f"{agent.get('name')}-{agent['model']}"
    if agents:
        job.values["agents"] = agents


def _agent_value(ours: str, value: Any) -> Any:
    """Options are text here, whatever they are there."""
    if ours != "options" or not isinstance(value, dict):
        return value
    return {str(name): each if isinstance(each, str) else json.dumps(each) for name, each in value.items()}


def _read_datasets(values: Table, job: HarborJob) -> None:
    datasets = values.get("datasets") or ()
    for number, dataset in enumerate(datasets):
        for key, value in dataset.items():
            theirs = f"datasets.{number}.{key}"
            if key == "path" and value:
                job.add_tasks(value, theirs)
            elif key in _DATASET_KEYS and value and len(datasets) == 1:
                job.put(_DATASET_KEYS[key], value, theirs)
            elif value:
                job.unknown.append(theirs)


def _read_tasks(values: Table, job: HarborJob) -> None:
    for number, task in enumerate(values.get("tasks") or ()):
        for key, value in task.items():
            if key == "path" and value:
                job.add_tasks(value, f"tasks.{number}.path")
            elif key != "source" and value:
                job.unknown.append(f"tasks.{number}.{key}")


def _flat(values: Table, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
