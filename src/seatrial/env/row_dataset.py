"""RowDataset: rows as trainers handle them, with the methods of a HuggingFace Dataset that loops for training call.

It is a sequence of tables that is never changed: each method gives another one, which shares the rows it kept.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

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
        """How many rows there are."""
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
        """The rows in another order, which is the same for the same seed."""
        rows = list(self._rows)
        random.Random(seed).shuffle(rows)  # noqa: S311 - a shuffle that can be repeated
        return RowDataset(rows)

    def take(self, n: int) -> "RowDataset":
        """The first rows."""
        return RowDataset(self._rows[: max(0, n)])

    def skip(self, n: int) -> "RowDataset":
        """All but the first rows."""
        return RowDataset(self._rows[max(0, n) :])

    def repeat(self, n: int) -> "RowDataset":
        """All rows, n times one after the other."""
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
        """A list of the rows."""
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
