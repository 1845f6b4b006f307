"""Job files: a JobSpec in TOML or YAML, and what is wrong with one: file, key, and the key that was probably meant."""

import difflib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tomli
from pydantic import ValidationError

from seatrial.cli.harbor_config import from_harbor_config, is_harbor_config
from seatrial.cli.job_images import whole_image
from seatrial.cli.option_values import agent_files_of
from seatrial.errors import JobError
from seatrial.model.base import StrictModel, plain
from seatrial.model.job import AgentOptions, JobSpec, RunOptions, TrialOptions

_MAX_YAML = 2**20
_TABLES: dict[str, type[StrictModel]] = {"trial": TrialOptions, "run": RunOptions}


def read_job_file(path: Path) -> dict[str, Any]:
    """The values of a job file, its paths taken from where the file is. Raises JobError for what is no job file."""
    values = _parsed(path)
    if is_harbor_config(values):
        values = from_harbor_config(values, str(path))
        _anchor(values, Path.cwd())
        return values
    if unknown := list(_unknown_keys(values)):
        raise JobError("\n".join(f"{path}: {key}: no such key{_near(key)}" for key in unknown))
    _anchor(values, path.parent.absolute())
    return values


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
    documents = read_documents(text)
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise ValueError("expected one document with keys and values")
    return documents[0]


def build_spec(values: Mapping[str, Any], source: str) -> JobSpec:
    """A JobSpec of plain values. Raises JobError that names the source, the key, what was found and expected."""
    try:
        # As JSON, because strict types take an array for a tuple only there.
        return JobSpec.model_validate_json(json.dumps(plain(dict(values))))
    except ValidationError as error:
        raise JobError("\n".join(_complaints(error, source))) from error
    except (TypeError, ValueError, RecursionError) as error:
        raise JobError(f"{source}: not the values of a job: {error}") from error


def _complaints(error: ValidationError, source: str) -> Iterator[str]:
    places = [problem["loc"] for problem in error.errors()]
    for problem in error.errors():
        if any(place[: len(problem["loc"])] == problem["loc"] != place for place in places):
            continue  # a list with a bad item is also said to be too short
        key = ".".join(map(str, problem["loc"]))
        message = problem["msg"].removeprefix("Value error, ").replace("Input should be", "expected")
        scalar = problem["type"] != "missing" and not isinstance(problem["input"], dict)
        found = f", found {problem['input']!r}" if scalar else ""
        yield ": ".join(part for part in (source, key, message) if part) + found


def _unknown_keys(values: Mapping[str, Any]) -> Iterator[str]:
    yield from (key for key in values if key not in JobSpec.model_fields)
    for name, model in _TABLES.items():
        table = values.get(name)
        if isinstance(table, dict):
            yield from (f"{name}.{key}" for key in table if key not in model.model_fields)
    agents = values.get("agents")
    for agent in agents if isinstance(agents, list) else ():
        if isinstance(agent, dict):
            yield from (f"agents.{key}" for key in agent if key not in AgentOptions.model_fields)


def _near(key: str) -> str:
    """What was probably meant: a key spelled like it, or one of that name in another table."""
    tables: dict[str, type[StrictModel]] = {
        "": JobSpec,
        "agents.": AgentOptions,
        **{f"{name}.": model for name, model in _TABLES.items()},
    }
    known = [prefix + name for prefix, model in tables.items() for name in model.model_fields]
    leaves = {name.rpartition(".")[2]: name for name in known}
    leaf = key.rpartition(".")[2]
    near = difflib.get_close_matches(key, known, n=1) or difflib.get_close_matches(leaf, leaves, n=1)
    if leaf in leaves or near:
        return f"; did you mean {leaves.get(leaf) or leaves.get(near[0]) or near[0]}?"
    return f"; the keys are {', '.join(known)}"


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
        values["tasks"] = [os.path.join(folder, task) if isinstance(task, str) else task for task in tasks]  # noqa: PTH118
    agents = values.get("agents")
    for agent in agents if isinstance(agents, list) else ():
        if isinstance(agent, dict) and isinstance(agent.get("files"), list):
            agent["files"] = [_anchored_files(files, folder) for files in agent["files"]]
    trial = values.get("trial")
    if not isinstance(trial, dict):
        return
    if isinstance(trial.get("ca_file"), str):
        trial["ca_file"] = os.path.join(folder, trial["ca_file"])  # noqa: PTH118
    if isinstance(trial.get("image"), str):
        trial["image"] = whole_image(trial["image"], str(folder))
    mapped = trial.get("image_map")
    if isinstance(mapped, dict):
        trial["image_map"] = {
            name: whole_image(image, str(folder)) if isinstance(image, str) else image for name, image in mapped.items()
        }
