"""Rows of a dataset in the form in which rollouts take them: example_id, prompt, task, answer, info.

A dataset is a HuggingFace Dataset, a list of tables, or a function that returns one of them when it is first needed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seatrial.env.messages import Messages, as_messages
from seatrial.env.row_dataset import Row, RowDataset
from seatrial.errors import UsageError

__all__ = ["DatasetLike", "DatasetSource", "Row", "RowFormat", "choose", "format_row", "load_rows", "require_rows"]

DatasetLike = Iterable[Mapping[str, Any]]
"""Anything that gives tables when it is gone through, as a HuggingFace Dataset does."""

DatasetSource = DatasetLike | Callable[[], DatasetLike]


@dataclass(frozen=True, slots=True)
class RowFormat:
    """What is put into rows that lack it."""

    task: str = "default"
    system_prompt: str | None = None
    few_shot: Sequence[Mapping[str, Any]] = ()


def load_rows(source: DatasetSource, form: RowFormat) -> RowDataset:
    """All rows of a dataset, ready for rollouts. Raises UsageError that names the row it cannot use."""
    given = source() if callable(source) else source
    require_rows(given)
    return RowDataset(format_row(row, number, form) for number, row in enumerate(given))


def require_rows(given: object) -> None:
    """Raise UsageError unless something can be gone through for its rows."""
    if not isinstance(given, Iterable):
        raise UsageError(
            f"rows come from a {type(given).__name__}, expected a list, a dataset or a generator of tables"
        )


def format_row(row: object, number: int, form: RowFormat) -> Row:
    """A row with a prompt, a whole number as `example_id`, and a task. Raises UsageError."""
    if not isinstance(row, Mapping):
        raise UsageError(f"row {number} of the dataset is of type {type(row).__name__}, expected a table")
    given = dict(row)
    if type(given.get("example_id")) is not int:
        if "example_id" in given:
            given["src_id"] = given["example_id"]
        given["example_id"] = number
    try:
        given["prompt"] = _prompt(given, form)
    except TypeError as error:
        raise UsageError(f"row {number} of the dataset: {error}") from error
    given.setdefault("task", form.task)
    return given


def choose(rows: RowDataset, n: int, seed: int | None) -> RowDataset:
    """The first `n` rows, all of them if `n` is negative; of a shuffled dataset if there is a seed."""
    chosen = rows if seed is None else rows.shuffle(seed)
    return chosen.take(n) if n >= 0 else chosen


def _prompt(row: Row, form: RowFormat) -> Messages:
    if row.get("prompt") is None:
        if not isinstance(row.get("question"), str):
            raise TypeError("has neither a `prompt` nor a `question`")
        system = as_messages(form.system_prompt, role="system")
        return [*system, *as_messages(_without_blanks(form.few_shot)), *as_messages(row["question"])]
    messages = as_messages(_without_blanks(row["prompt"]))
    if form.system_prompt is None or (messages and messages[0]["role"] == "system"):
        return messages
    return [*as_messages(form.system_prompt, role="system"), *messages]


def _without_blanks(messages: object) -> object:
    """Messages without the keys that only others have: a table of columns fills them up with None.

    Servers refuse a text whose picture is null, and calls of tools that are.
    """
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        return messages
    return [_filled(each) if type(each) is dict else each for each in messages]


def _filled(message: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in message.items() if value is not None or name == "content"}
    if isinstance(parts := kept.get("content"), list):
        kept["content"] = [_present(part) if type(part) is dict else part for part in parts]
    return kept


def _present(table: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in table.items() if value is not None}
