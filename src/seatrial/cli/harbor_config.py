"""Harbor's job configuration as a job of ours. What has no counterpart here is named, never dropped in silence."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from seatrial.errors import JobError

Table = Mapping[str, Any]

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
_AGENT_KEYS = {"name": "name", "model_name": "model", "env": "env"}
_WITHOUT_MEANING = frozenset(
    {
        *("debug", "quiet", "orchestrator.type", "orchestrator.quiet", "environment.delete"),
        *("environment.force_build", "timeout_multiplier", "agents", "datasets", "tasks"),
        *("retry.wait_multiplier", "retry.min_wait_sec", "retry.max_wait_sec", "retry.exclude_exceptions"),
        *("orchestrator.retry.wait_multiplier", "orchestrator.retry.min_wait_sec"),
        *("orchestrator.retry.max_wait_sec", "orchestrator.retry.exclude_exceptions"),
    }
)


def is_harbor_config(values: Table) -> bool:
    """Whether values are those of Harbor's job configuration and not of a job file of ours."""
    return bool(_TELLING & values.keys())


def from_harbor_config(values: Table, source: str) -> dict[str, Any]:
    """The values of a job file that mean the same. Raises JobError that names every key without a counterpart."""
    flat = dict(_flat(values))
    unknown = [key for key, value in flat.items() if key not in _PLAIN and key not in _WITHOUT_MEANING and value]
    job: dict[str, Any] = {}
    for key, ours in _PLAIN.items():
        if flat.get(key) is not None:
            _put(job, ours, flat[key])
    if (both := flat.get("timeout_multiplier")) not in (None, 1, 1.0):
        for phase in ("agent", "verifier"):
            job.setdefault("trial", {}).setdefault(f"{phase}_timeout_multiplier", both)
    if flat.get("environment.force_build"):
        _put(job, "trial.build", "always")
    for reader in (_read_agents, _read_tasks):
        unknown += reader(values, job)
    if unknown:
        raise JobError(
            f"{source}: Harbor's {', '.join(unknown)} cannot be had here; take it out (docs/from-harbor.md says what "
            "ours is)"
        )
    return job


def _read_agents(values: Table, job: dict[str, Any]) -> Iterator[str]:
    agents = []
    for number, agent in enumerate(_tables(values, "agents")):
        yield from (f"agents.{number}.{key}" for key, value in agent.items() if key not in _AGENT_KEYS and value)
        agents.append({ours: agent[key] for key, ours in _AGENT_KEYS.items() if agent.get(key)})
    names = [agent.get("name") for agent in agents]
    for agent in agents:
        if names.count(agent.get("name")) > 1 and "model" in agent:
            agent["label"] = f"{agent.get('name')}-{agent['model']}"
    if agents:
        job["agents"] = agents


def _read_tasks(values: Table, job: dict[str, Any]) -> Iterator[str]:
    chosen: dict[str, Callable[[Any], Any]] = {"task_names": list, "exclude_task_names": list, "n_tasks": int}
    ours = {"task_names": "include", "exclude_task_names": "exclude", "n_tasks": "max_tasks"}
    paths: list[str] = []
    datasets = _tables(values, "datasets")
    for number, dataset in enumerate(datasets):
        for key, value in dataset.items():
            if key == "path" and value:
                paths.append(value)
            elif key in chosen and value and len(datasets) == 1:
                job[ours[key]] = chosen[key](value)
            elif value:
                yield f"datasets.{number}.{key}"
    for number, task in enumerate(_tables(values, "tasks")):
        yield from (f"tasks.{number}.{key}" for key, value in task.items() if key not in ("path", "source") and value)
        paths += [task["path"]] if task.get("path") else []
    if paths:
        job["tasks"] = paths


def _tables(values: Table, key: str) -> list[Table]:
    found = values.get(key)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _flat(values: Table, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _put(job: dict[str, Any], key: str, value: Any) -> None:
    table, _, name = key.rpartition(".")
    (job.setdefault(table, {}) if table else job)[name] = value
