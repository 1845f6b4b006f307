"""Rows of a dataset in the form in which rollouts take them: example_id, prompt, task, answer, info.

A dataset is a HuggingFace Dataset, a list of tables, or a function that returns one of them when it is first needed.
A RowDataset has the methods of a HuggingFace Dataset that loops for training call; it is never changed, each method
gives another one, which shares the rows it kept.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from seatrial.env.messages import Messages, as_messages
from seatrial.errors import UsageError

if TYPE_CHECKING:
    from datasets import Dataset  # type: ignore[import-untyped, import-not-found, unused-ignore]

Row = dict[str, Any]


class RowDataset(Sequence[Row]):
    """Rows in their order. `dataset[3]` is a row, `dataset["answer"]` a column, `dataset[:3]` a shorter dataset."""

    def __init__(self, rows: Iterable[Mapping[str, Any]] = ()) -> None:
        self._rows: list[Row] = [row if type(row) is dict else dict(row) for row in rows]

    @overload
    def __getitem__(self, key: int) -> Row: ...
    @overload
    def __getitem__(self, key: str) -> list[Any]: ...
    @overload
    def __getitem__(self, key: slice | Sequence[int]) -> "RowDataset": ...
    def __getitem__(self, key: int | str | slice | Sequence[int]) -> Any:
        if isinstance(key, str):
            return self._column(key)
        if isinstance(key, slice):
            return RowDataset(self._rows[key])
        if isinstance(key, int):
            return self._rows[key]
        return self.select(key)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and not isinstance(other, str) and self._rows == list(other)

    __hash__ = None  # type: ignore[assignment]  # equal to a list, which has none either

    def __repr__(self) -> str:
        return f"RowDataset({len(self)} rows of {', '.join(self.column_names)})"

    @property
    def column_names(self) -> list[str]:
        """The names that rows have, in the order in which they come up."""
        return list(dict.fromkeys(name for row in self._rows for name in row))

    @property
    def num_rows(self) -> int:
        return len(self._rows)

    def select(self, indices: Iterable[int]) -> "RowDataset":
        """The rows at some places, in that order. Raises UsageError for a place that there is not."""
        try:
            return RowDataset(self._rows[index] for index in indices)
        except IndexError as error:
            raise UsageError(f"select: a place is beyond the {len(self)} rows of the dataset") from error

    def filter(
        self, function: Callable[..., Any], *, with_indices: bool = False, **_without_effect: Any
    ) -> "RowDataset":
        """The rows for which a function of the row, and of its place if `with_indices`, is true."""
        given = enumerate(self._rows)
        return RowDataset(row for at, row in given if (function(row, at) if with_indices else function(row)))

    def map(self, function: Callable[..., Any], *, with_indices: bool = False, **options: Any) -> "RowDataset":
        """Each row with what a function of it returns put over it; how that is spread over processes has no effect."""
        if options.get("batched"):
            raise UsageError("map: batched=True is of HuggingFace Datasets; map them first, or use to_hf()")
        made = (function(row, at) if with_indices else function(row) for at, row in enumerate(self._rows))
        return RowDataset({**row, **(new or {})} for row, new in zip(self._rows, made, strict=True))

    def shuffle(self, seed: int | None = None) -> "RowDataset":
        rows = list(self._rows)
        random.Random(seed).shuffle(rows)  # noqa: S311 - a shuffle that can be repeated
        return RowDataset(rows)

    def take(self, n: int) -> "RowDataset":
        return RowDataset(self._rows[: max(0, n)])

    def skip(self, n: int) -> "RowDataset":
        return RowDataset(self._rows[max(0, n) :])

    def repeat(self, n: int) -> "RowDataset":
        return RowDataset(self._rows * n)

    def add_column(self, name: str, column: Iterable[Any]) -> "RowDataset":
        """Rows with a value more. Raises UsageError unless there are as many values as rows."""
        values = list(column)
        if len(values) != len(self):
            raise UsageError(f"add_column: {name} has {len(values)} values, expected {len(self)}, one for each row")
        return RowDataset({**row, name: value} for row, value in zip(self._rows, values, strict=True))

    def remove_columns(self, names: str | Sequence[str]) -> "RowDataset":
        """Rows without some columns. Raises UsageError for one that no row has."""
        gone = [names] if isinstance(names, str) else list(names)
        for name in gone:
            self._require(name)
        return RowDataset({name: value for name, value in row.items() if name not in gone} for row in self._rows)

    def rename_column(self, old: str, new: str) -> "RowDataset":
        """Rows in which a column has another name. Raises UsageError for one that no row has."""
        self._require(old)
        return RowDataset({(new if name == old else name): value for name, value in row.items()} for row in self._rows)

    def to_list(self) -> list[Row]:
        return list(self._rows)

    def to_hf(self) -> "Dataset":
        """A HuggingFace Dataset of the rows. Raises UsageError where the package `datasets` is not installed."""
        try:
            from datasets import Dataset  # noqa: PLC0415 - an extra, and slow to import
        except ImportError as error:
            raise UsageError(
                "to_hf gives a HuggingFace Dataset, which needs the package `datasets`: pip install 'seatrial[hf]'"
            ) from error
        return Dataset.from_list(self._rows)

    def _column(self, name: str) -> list[Any]:
        self._require(name)
        return [row.get(name) for row in self._rows]

    def _require(self, name: str) -> None:
        if not any(name in row for row in self._rows):
            raise UsageError(f"the dataset has no column {name!r}; it has: {', '.join(self.column_names) or 'none'}")


# From datasets to rows.

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
