"""Harbor tasks as rows of a dataset and as trials: which task a row names, and what a rollout changes about it.

A row has example_id, task, prompt, and info with task_name, task_dir, docker_image and config. The prompt of a task
with steps is the instruction of its first one. The loader of tasks is imported by the first HarborEnv.
"""

import glob
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import tomli
from pydantic import ValidationError

from seatrial.env.rollout import read_info
from seatrial.env.rows import Row
from seatrial.errors import DatasetNotFoundError, TaskFormatError, UsageError
from seatrial.images.choice import why_refused
from seatrial.model.arguments import usage_error
from seatrial.model.base import plain
from seatrial.model.job import ModelOptions, TrialOptions
from seatrial.model.loaded_task import Task
from seatrial.model.record import LimitSpec
from seatrial.tasks.layout import digest_folder, read_text

if TYPE_CHECKING:  # everything a trial needs: the first rollout imports it
    from datasets import Dataset  # type: ignore[import-untyped, import-not-found, unused-ignore]

    from seatrial.trial.spec import TrialSpec

_log = logging.getLogger(__name__)


def load_tasks(path: Path, names: Sequence[str] | None) -> tuple[Task, ...]:
    """The tasks below a folder, or those of them that are named, in the order of their paths.

    A folder that is not a task is left out with a warning; when it was named, TaskFormatError is raised. Raises
    DatasetNotFoundError for an unknown name, and when there is no task at all.
    """
    from seatrial.tasks.load import load_dataset  # noqa: PLC0415 - see the top

    found = load_dataset(path)
    problems = {task.id: [str(each) for each in task.problems if each.severity == "error"] for task in found.broken}
    usable = {task.id: task for task in found.tasks}
    if names is None:
        for name, reasons in problems.items():
            _log.warning("%s/%s is left out: %s", path, name, "; ".join(reasons))
        chosen = tuple(usable.values())
    else:
        _check_names(path, names, usable, problems)
        chosen = tuple(task for name, task in usable.items() if name in names)
    if not chosen:
        what = "there is no usable task in it" if names is None else "`tasks` names none of its tasks"
        raise DatasetNotFoundError(f"{path}: {what}")
    return chosen


def _check_names(path: Path, names: Sequence[str], usable: Iterable[str], problems: dict[str, list[str]]) -> None:
    known = sorted([*usable, *problems])
    for name in names:
        if name in problems:
            raise TaskFormatError(str(path / name), problems[name])
        if name not in known:
            near = get_close_matches(name, known)
            there = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(known[:20])}"
            raise DatasetNotFoundError(f"{path}: there is no task {name!r}; {there}")


def task_rows(tasks: Iterable[Task]) -> list[Row]:
    return [_row(number, task) for number, task in enumerate(tasks)]


def _row(number: int, task: Task) -> Row:
    from seatrial.trial.rounds import rounds_of  # noqa: PLC0415 - see the top

    instruction = rounds_of(task)[0].instruction().decode().strip()
    config = read_toml(task)
    return {
        "example_id": number,
        "task": task.id,
        "prompt": [{"role": "user", "content": instruction}],
        "info": {
            "task_name": task.id,
            "task_dir": str(task.root),
            "docker_image": task.config.environment.docker_image,
            "config": config,
        },
    }


def read_toml(task: Task) -> dict[str, Any]:
    """All of task.toml as it stands there; what JSON has no form for, such as dates, as text."""
    from seatrial.tasks.load import MAX_TOML_BYTES  # noqa: PLC0415 - see the top
    from seatrial.tasks.toml import TASK_TOML  # noqa: PLC0415

    table: dict[str, Any] = plain(tomli.loads(read_text(task.root / TASK_TOML, MAX_TOML_BYTES)))
    return table


def as_hf_dataset(rows: Sequence[Row]) -> "Dataset":
    """The rows as a HuggingFace Dataset. Raises UsageError that says what to install.

    Columns there have one type for all rows, which no two task.toml share. So `config` is kept as JSON: what one task
    says is nothing another one has to have.
    """
    try:
        import datasets  # noqa: PLC0415 - an extra, and slow to import
    except ImportError as error:
        raise UsageError(
            "load_harbor_dataset gives a HuggingFace Dataset, which needs the package `datasets`: "
            "pip install 'seatrial[hf]'; everything else works without it"
        ) from error
    text = datasets.Value("string")
    json_type = getattr(datasets, "Json", None)
    info = {"task_name": text, "task_dir": text, "docker_image": text, "config": json_type() if json_type else text}
    features = datasets.Features(
        {"example_id": datasets.Value("int64"), "task": text, "prompt": [{"role": text, "content": text}], "info": info}
    )
    return datasets.Dataset.from_list(list(rows) if json_type else [_with_text(row) for row in rows], features=features)


def _with_text(row: Row) -> Row:
    """A row for releases of `datasets` that have no JSON."""
    return {**row, "info": {**row["info"], "config": orjson.dumps(row["info"]["config"]).decode()}}


@dataclass(eq=False, slots=True)
class KnownTasks:
    """The tasks of an environment by their folders, with their digests; those of other rows are read when they come."""

    tasks: dict[str, Task]
    digests: dict[str, str] = field(default_factory=dict)

    def task_of(self, row: Mapping[str, Any]) -> Task:
        """The task of a row: the one in the folder that its info says, else the one of that name. Raises UsageError."""
        info = read_info(row)
        folder = info.get("task_dir") if isinstance(info, Mapping) else None
        if folder is None:
            folder = next((folder for folder, task in self.tasks.items() if task.id == row.get("task")), None)
        if not isinstance(folder, str):
            raise UsageError(
                "a row for HarborEnv needs info['task_dir'], the folder of its task, or the name of a task that the "
                f"environment has; its `task` is {row.get('task')!r}"
            )
        if folder not in self.tasks:
            from seatrial.tasks.load import load_task  # noqa: PLC0415 - see the top

            self.tasks[folder] = load_task(folder)
        return self.tasks[folder]

    def digest(self, task: Task) -> str:
        folder = str(task.root)
        if folder not in self.digests:
            self.digests[folder] = digest_folder(task.root)
        return self.digests[folder]


def with_limits(task: Task, limits: LimitSpec) -> Task:
    """The task with the resources that an environment names instead of its own."""
    return _with_environment(task, **{name: value for name, value in limits if value is not None})


def in_image(spec: "TrialSpec", docker_image: str, usual: str, row_image: str | None) -> "TrialSpec":
    """The trial in an image that a hook has chosen; `usual` is the one for tasks that name none."""
    task = spec.task
    of_strangers = (task.config.environment.docker_image, row_image)
    by_user = docker_image == usual or docker_image not in of_strangers
    built = task.layout.dockerfile is not None and docker_image == usual
    return replace(
        spec,
        task=task if built else _with_environment(task, docker_image=docker_image),  # built ones need no default
        options=_naming(spec.options, docker_image) if by_user else spec.options,
    )


def _with_environment(task: Task, **changes: Any) -> Task:
    if not changes:
        return task
    environment = task.config.environment.model_copy(update=changes)
    return task.model_copy(update={"config": task.config.model_copy(update={"environment": environment})})


def _naming(options: TrialOptions, image: str) -> TrialOptions:
    """The options for an image that the user's own program names: it may be a folder, which a task's may not."""
    if not why_refused(image):
        return options
    return options.model_copy(update={"image_map": {**options.image_map, glob.escape(image): image}})


def model_options(sampling_args: Mapping[str, Any], max_turns: int) -> ModelOptions:
    """What a job says about its model calls, as far as it has words for it. Raises UsageError."""
    try:
        return ModelOptions.model_validate(
            {
                **{name: sampling_args.get(name) for name in ("temperature", "top_p", "seed")},
                "max_output_tokens": sampling_args.get("max_tokens"),
                "max_turns": max_turns if max_turns > 0 else None,
            }
        )
    except ValidationError as error:
        raise usage_error("sampling_args", error) from error
