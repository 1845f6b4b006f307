"""Job files: a JobSpec in TOML or YAML, and what is wrong with one: file, key, what was found and what is expected.

Keys and tables are those of the types. Harbor's job configuration is read as a job of ours: what has no counterpart
here is named, never dropped in silence. Harbor writes its whole configuration out, so a key without a counterpart may
stand there with nothing in it.
"""

import difflib
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_origin

import tomli
from pydantic import ValidationError

from seatrial.cli.options import agent_files_of, whole_image
from seatrial.errors import JobError
from seatrial.model.base import StrictModel, plain
from seatrial.model.job import AgentOptions, JobSpec, TrialOptions
from seatrial.model.options import Kind, options_of, table_type

_Table = Mapping[Any, Any]

_MAX_YAML = 2**20
_SHOWN = 80
_PLACEHOLDERS: dict[str, Any] = {"name": "job", "tasks": ["."], "agents": [{"name": "noop"}]}
"""For what the command line may add to a file, so that the rest of it can be checked by itself."""

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


def read_job_file(path: Path) -> dict[str, Any]:
    """The values of a job file, its paths taken from where the file is. Raises JobError that names all its mistakes.

    They are looked for here, in the file alone: what the command line says later must not hide them.
    """
    values = _parsed(path)
    if _is_harbor_config(values):
        job = _from_harbor_config(values, str(path))
        _anchor(job.values, Path.cwd())
        _check(job.values, str(path), job.names)
        return job.values
    if complaints := _key_complaints(values):
        raise JobError("\n".join(f"{path}: {complaint}" for complaint in complaints))
    _anchor(values, path.parent.absolute())
    _check(values, str(path), {})
    return values


def _check(values: Mapping[str, Any], source: str, names: Mapping[str, str]) -> None:
    said = {key: value for key, value in values.items() if key != JOBS_DIR}
    missing = {key: value for key, value in _PLACEHOLDERS.items() if said.get(key, []) == []}
    build_spec({**said, **missing}, source, names)


def _parsed(path: Path) -> dict[str, Any]:
    kind = "YAML" if path.suffix in (".yaml", ".yml", ".json") else "TOML"
    try:
        text = path.read_text(encoding="utf-8-sig")
        values = _yaml_table(text) if kind == "YAML" else tomli.loads(text)
    except OSError as error:
        raise JobError(f"{path}: the job file cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise JobError(f"{path}: not {kind}: {error}") from error
    return values


def _yaml_table(text: str) -> dict[str, Any]:
    from seatrial.untrusted.yaml import YamlError, read_documents  # noqa: PLC0415 - slow, and few job files are YAML

    if len(text) > _MAX_YAML:
        raise ValueError(f"it has more than {_MAX_YAML:,} characters")
    try:
        documents = read_documents(text, repeated="refuse")
    except YamlError as error:
        raise ValueError(f"line {error.line}: {error.detail or error.message}") from error
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise ValueError("expected one document with keys and values")
    return documents[0]


def build_spec(values: Mapping[str, Any], source: str, names: Mapping[str, str] | None = None) -> JobSpec:
    """A JobSpec of plain values. Raises JobError that names the source, the key, what was found and expected.

    `names` are the keys by which the source calls what a JobSpec calls otherwise.
    """
    if key := next(_with_zero_byte(values), None):
        raise JobError(f"{source}: {_named(key[1:], names or {})}: expected text without a zero byte")
    try:
        # As JSON, because strict types take an array for a tuple only there.
        return JobSpec.model_validate_json(json.dumps(plain(dict(values))))
    except ValidationError as error:
        raise JobError("\n".join(_complaints(error, source, names or {}))) from error
    except (TypeError, ValueError, RecursionError) as error:
        raise JobError(f"{source}: not the values of a job: {error}") from error


def _with_zero_byte(value: Any) -> Iterator[str]:
    """The keys of text that no file, command or variable can have, each with a dot before it."""
    if isinstance(value, dict):
        yield from (f".{key}{below}" for key, item in value.items() for below in _with_zero_byte(item))
    elif isinstance(value, list | tuple):
        yield from (f".{index}{below}" for index, item in enumerate(value) for below in _with_zero_byte(item))
    elif isinstance(value, str) and "\0" in value:
        yield ""


def _complaints(error: ValidationError, source: str, names: Mapping[str, str]) -> Iterator[str]:
    places = [problem["loc"] for problem in error.errors()]
    for problem in error.errors():
        if any(place[: len(problem["loc"])] == problem["loc"] != place for place in places):
            continue  # a list with a bad item is also said to be too short
        key = _named(".".join(map(str, problem["loc"])), names)
        message = problem["msg"].removeprefix("Value error, ").replace("Input should be", "expected")
        for theirs in ("an object", "a valid dictionary"):
            message = message.replace(theirs, "a table")
        found = "" if problem["type"] == "missing" or not key else f", found {_shown(problem['input'])}"
        yield ": ".join(part for part in (source, key, message) if part) + found


def _named(key: str, names: Mapping[str, str]) -> str:
    """A key as the source calls it, or the table that it is in."""
    parts = key.split(".")
    for length in range(len(parts), 0, -1):
        if ours := names.get(".".join(parts[:length])):
            return ".".join((ours, *parts[length:]))
    return key


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "a table"
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _anchor(values: dict[str, Any], folder: Path) -> None:
    """Take relative paths from the file's own folder, so that it means the same wherever one stands."""
    agents, trial = values.get("agents"), values.get("trial")
    tables: list[tuple[type[StrictModel], Any]] = [(JobSpec, values), (TrialOptions, trial)]
    tables += [(AgentOptions, each) for each in agents] if isinstance(agents, list) else []
    for model, table in tables:
        for name, option in options_of(model).items() if isinstance(table, dict) else ():
            several = get_origin(model.model_fields[name].annotation) is tuple
            if several and isinstance(table.get(name), list):
                table[name] = [_anchored(each, option.kind, str(folder)) for each in table[name]]
            elif not several and name in table:
                table[name] = _anchored(table[name], option.kind, str(folder))


def _anchored(value: Any, kind: Kind | None, folder: str) -> Any:
    """A value as seen from a folder; one that is not of its kind is left as it is."""
    if kind == "agent files":
        table = agent_files_of(value) if isinstance(value, str) else value
        if not isinstance(table, dict) or not isinstance(table.get("source"), str):
            return table
        return {**table, "source": os.path.join(folder, table["source"])}  # noqa: PTH118 - links stay as they were named
    if kind == "image map" and isinstance(value, dict):
        return {name: _anchored(image, "image", folder) for name, image in value.items()}
    if kind == "path" and isinstance(value, str):
        return os.path.join(folder, value)  # noqa: PTH118 - links stay as they were named
    return whole_image(value, folder) if kind == "image" and isinstance(value, str) else value


def _key_complaints(values: Mapping[Any, Any]) -> list[str]:
    """Each key that is no text or that no job has, with the key that was probably meant."""
    return [*_odd_keys(values, ""), *_unknown_keys(values, JobSpec, "")]


def _nearest(key: str, known: list[str]) -> str | None:
    """The known key that this one is probably a misspelling of."""
    found = difflib.get_close_matches(key, known, n=1)
    return found[0] if found else None


def _odd_keys(value: Any, prefix: str) -> Iterator[str]:
    """Keys that are no text: YAML reads `on`, `no`, `1` and nothing at all as other things."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                yield f"{prefix}{key}: expected a key that is text, found {key!r}; put it in quotes"
            yield from _odd_keys(item, f"{prefix}{key}.")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _odd_keys(item, f"{prefix}{index}.")


def _unknown_keys(values: Mapping[Any, Any], model: type[StrictModel], prefix: str) -> Iterator[str]:
    for key, value in values.items():
        field = model.model_fields.get(key)
        if field is None:
            yield f"{prefix}{key}: no such key{_meant(str(key), model, prefix)}"
            continue
        table = table_type(field.annotation)
        if table and isinstance(value, dict):
            yield from _unknown_keys(value, table, f"{prefix}{key}.")
        elif table and isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, dict):
                    yield from _unknown_keys(item, table, f"{prefix}{key}.{index}.")


def _meant(key: str, model: type[StrictModel], prefix: str) -> str:
    """A key of the same table that is spelled like it; else one of that name, or nearly, in another table."""
    own = list(model.model_fields)
    elsewhere = _keys_by_name(JobSpec, "")
    if near := _nearest(key, own):
        return f"; did you mean {prefix}{near}?"
    if near := key if key in elsewhere else _nearest(key, list(elsewhere)):
        return f"; did you mean {elsewhere[near]}?"
    return f"; the keys {f'of {prefix[:-1]} ' if prefix else ''}are {', '.join(own)}"


def _keys_by_name(model: type[StrictModel], prefix: str) -> dict[str, str]:
    """Where each name is a key. Of two tables that have it, the outer one counts."""
    names = {name: f"{prefix}{name}" for name in model.model_fields}
    for name, info in model.model_fields.items():
        if table := table_type(info.annotation):
            names = {**_keys_by_name(table, f"{prefix}{name}."), **names}
    return names


@dataclass
class _HarborJob:
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
        paths = self.values.setdefault("tasks", [])
        self.names[f"tasks.{len(paths)}"] = theirs
        paths.append(path)


def _is_harbor_config(values: _Table) -> bool:
    """Whether values are those of Harbor's job configuration and not of a job file of ours."""
    return bool(_TELLING & values.keys())


def _from_harbor_config(values: _Table, source: str) -> _HarborJob:
    """The job that means the same. Raises JobError for mistakes, and for every key without a counterpart."""
    flat = dict(_flat(values))
    if complaints := [*_mixed(values), *_misshapen(values, flat), *_given_twice(flat)]:
        raise JobError("\n".join(f"{source}: {complaint}" for complaint in complaints))
    job = _HarborJob()
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


def _mixed(values: _Table) -> Iterator[str]:
    """Keys of our own job files, which this file is not read as."""
    told = min(_TELLING & values.keys())
    for key in values:
        if key in _OWN:
            yield f"{key}: a key of our job files, but {told} is one of Harbor's; keep to one of the two"


def _misshapen(values: _Table, flat: _Table) -> Iterator[str]:
    for key, value in flat.items():
        if key in _TABLES and value is not None:
            yield f"{key}: expected a table, found {value!r:.80}"
    for key in _LISTS:
        found = values.get(key)
        if found is not None and not (isinstance(found, list) and all(isinstance(each, dict) for each in found)):
            yield f"{key}: expected an array of tables, found {found!r:.80}"
    if not isinstance(values.get(JOBS_DIR), str | None):
        yield f"{JOBS_DIR}: expected the path of a folder, found {values[JOBS_DIR]!r:.80}"


def _given_twice(flat: _Table) -> Iterator[str]:
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
        near = _nearest(leaf, list(of_list))
        return f"{key} (did you mean {table}.{near}?)" if near else key
    same = [known for known in _KNOWN if known.rpartition(".")[0] == table]
    near = _nearest(key, same or _KNOWN)
    return f"{key} (did you mean {near}?)" if near else key


def _read_settings(flat: _Table, job: _HarborJob) -> None:
    both = flat.get("timeout_multiplier")
    for phase in ("agent", "verifier") if both not in (None, 1, 1.0) else ():
        if f"trial.{phase}_timeout_multiplier" not in job.names:
            job.put(f"trial.{phase}_timeout_multiplier", both, "timeout_multiplier")
    if flat.get("environment.force_build"):
        job.put("trial.build", "always", "environment.force_build")


def _read_agents(values: _Table, job: _HarborJob) -> None:
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


def _read_datasets(values: _Table, job: _HarborJob) -> None:
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


def _read_tasks(values: _Table, job: _HarborJob) -> None:
    for number, task in enumerate(values.get("tasks") or ()):
        for key, value in task.items():
            if key == "path" and value:
                job.add_tasks(value, f"tasks.{number}.path")
            elif key != "source" and value:
                job.unknown.append(f"tasks.{number}.{key}")


def _flat(values: _Table, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
