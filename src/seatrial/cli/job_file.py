"""Job files: a JobSpec in TOML or YAML, and what is wrong with one: file, key, what was found and what is expected."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tomli
from pydantic import ValidationError

from seatrial.cli.harbor_config import JOBS_DIR, from_harbor_config, is_harbor_config
from seatrial.cli.job_images import whole_image
from seatrial.cli.job_keys import key_complaints
from seatrial.cli.option_values import agent_files_of
from seatrial.errors import JobError
from seatrial.model.base import plain
from seatrial.model.job import JobSpec

_MAX_YAML = 2**20
_SHOWN = 80
_PLACEHOLDERS: dict[str, Any] = {"name": "job", "tasks": ["."], "agents": [{"name": "noop"}]}
"""For what the command line may add to a file, so that the rest of it can be checked by itself."""


def read_job_file(path: Path) -> dict[str, Any]:
    """The values of a job file, its paths taken from where the file is. Raises JobError that names all its mistakes.

    They are looked for here, in the file alone: what the command line says later must not hide them.
    """
    values = _parsed(path)
    if is_harbor_config(values):
        job = from_harbor_config(values, str(path))
        _anchor(job.values, Path.cwd())
        _check(job.values, str(path), job.names)
        return job.values
    if complaints := key_complaints(values):
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
    from seatrial.bounded_yaml import read_documents  # noqa: PLC0415 - slow, and few job files are YAML

    if len(text) > _MAX_YAML:
        raise ValueError(f"it has more than {_MAX_YAML:,} characters")
    documents = read_documents(text, repeated="refuse")
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise ValueError("expected one document with keys and values")
    return documents[0]


def build_spec(values: Mapping[str, Any], source: str, names: Mapping[str, str] | None = None) -> JobSpec:
    """A JobSpec of plain values. Raises JobError that names the source, the key, what was found and expected.

    `names` are the keys by which the source calls what a JobSpec calls otherwise.
    """
    try:
        # As JSON, because strict types take an array for a tuple only there.
        return JobSpec.model_validate_json(json.dumps(plain(dict(values))))
    except ValidationError as error:
        raise JobError("\n".join(_complaints(error, source, names or {}))) from error
    except (TypeError, ValueError, RecursionError) as error:
        raise JobError(f"{source}: not the values of a job: {error}") from error


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


def _anchored_files(files: Any, folder: Path) -> Any:
    """`DIR`, `DIR:/WHERE` or a table of the two, its source taken from a folder."""
    table = agent_files_of(files) if isinstance(files, str) else files
    if not isinstance(table, dict) or not isinstance(table.get("source"), str):
        return table
    return {**table, "source": os.path.join(folder, table["source"])}  # noqa: PTH118 - links stay as they were named


def _anchor(values: dict[str, Any], folder: Path) -> None:
    """Take relative paths from the file's own folder, so that it means the same wherever one stands."""
    tasks = values.get("tasks")
    if isinstance(tasks, list):
        values["tasks"] = [os.path.join(folder, task) if isinstance(task, str) else task for task in tasks]  # noqa: PTH118 - links stay as they were named
    agents = values.get("agents")
    for agent in agents if isinstance(agents, list) else ():
        if isinstance(agent, dict) and isinstance(agent.get("files"), list):
            agent["files"] = [_anchored_files(files, folder) for files in agent["files"]]
    trial = values.get("trial")
    if not isinstance(trial, dict):
        return
    if isinstance(trial.get("ca_file"), str):
        trial["ca_file"] = os.path.join(folder, trial["ca_file"])  # noqa: PTH118 - links stay as they were named
    if isinstance(trial.get("image"), str):
        trial["image"] = whole_image(trial["image"], str(folder))
    mapped = trial.get("image_map")
    if isinstance(mapped, dict):
        trial["image_map"] = {
            name: whole_image(image, str(folder)) if isinstance(image, str) else image for name, image in mapped.items()
        }
