"""Harbor tasks as rows of a dataset: example_id, task, prompt, and info with task_name, task_dir, docker_image, config.

The prompt of a task with steps is the instruction of its first one.
"""

import logging
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import tomli

from seatrial.env.rows import Row
from seatrial.errors import DatasetNotFoundError, TaskFormatError, UsageError
from seatrial.model.base import plain
from seatrial.model.task import Task

if TYPE_CHECKING:
    from datasets import Dataset  # type: ignore[import-untyped, import-not-found, unused-ignore]

_log = logging.getLogger(__name__)


def load_tasks(path: Path, names: Sequence[str] | str | None) -> tuple[Task, ...]:
    """The tasks below a folder, or those of them that are named, in the order of their paths.

    A folder that is no task is left out with a warning, but when it was named: then TaskFormatError. Raises
    DatasetNotFoundError for a name that there is not, and when there is no task at all.
    """
    from seatrial.tasks.dataset import load_dataset  # noqa: PLC0415 - much, and only for those who have tasks

    found = load_dataset(path)
    problems = {task.id: [str(each) for each in task.problems if each.severity == "error"] for task in found.broken}
    usable = {task.id: task for task in found.tasks}
    if isinstance(names, str):
        names = [names]
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
    """A row for each task."""
    return [_row(number, task) for number, task in enumerate(tasks)]


def _row(number: int, task: Task) -> Row:
    from seatrial.trial.rounds import rounds_of  # noqa: PLC0415 - importing seatrial must stay quick

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
    from seatrial.tasks.layout import read_text  # noqa: PLC0415 - importing seatrial must stay quick
    from seatrial.tasks.load import MAX_TOML_BYTES  # noqa: PLC0415 - importing seatrial must stay quick
    from seatrial.tasks.toml import TASK_TOML  # noqa: PLC0415 - importing seatrial must stay quick

    table: dict[str, Any] = plain(tomli.loads(read_text(task.root / TASK_TOML, MAX_TOML_BYTES)))
    return table


def as_hf_dataset(rows: Sequence[Row]) -> "Dataset":
    """The rows as a HuggingFace Dataset. Raises UsageError that says what to install.

    Columns there have one type for all rows, which no two task.toml share. So `config` is kept as JSON: what one task
    says is nothing another one has to have.
    """
    try:
        from datasets import Dataset, Features, Value  # noqa: PLC0415 - an extra, and slow to import
    except ImportError as error:
        raise UsageError(
            "load_harbor_dataset gives a HuggingFace Dataset, which needs the package `datasets`: "
            "pip install 'seatrial[hf]'; everything else works without it"
        ) from error
    import datasets  # noqa: PLC0415 - importing seatrial must stay quick

    text = Value("string")
    json_type = getattr(datasets, "Json", None)
    info = {"task_name": text, "task_dir": text, "docker_image": text, "config": json_type() if json_type else text}
    features = Features(
        {"example_id": Value("int64"), "task": text, "prompt": [{"role": text, "content": text}], "info": info}
    )
    return Dataset.from_list(list(rows) if json_type else [_with_text(row) for row in rows], features=features)


def _with_text(row: Row) -> Row:
    """A row for releases of `datasets` that have no JSON."""
    return {**row, "info": {**row["info"], "config": orjson.dumps(row["info"]["config"]).decode()}}
