"""Mutants of data: every field gets one strong mutant before any gets a second one."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from seatrial.check.answers.codecs import DataAnswer
from seatrial.check.answers.vocabulary import Vocabulary
from seatrial.check.mutants.fields import (
    Field,
    Steps,
    fields_of,
    lists_of,
    place_name,
    with_value,
    with_values,
    without,
)
from seatrial.check.mutants.mutant import Mutant, MutantKind
from seatrial.check.mutants.values import (
    CLOSE,
    CLOSER,
    another_word,
    far_off,
    is_answer_word,
    is_number,
    is_small_count,
    nonsense,
    one_more,
    opposite,
    scaled,
)

_SORTED_WORDS = ("sorted", "order", "ascending", "descending", "chronological", "ranked")
_ONCE_WORDS = ("duplicate", "unique", "once", "distinct", "exactly one", "one row per", "one entry per")
_SHOWN = 60


class DataMutants:
    """Makes the mutants of one answer that is data."""

    def __init__(self, answer: DataAnswer, words: Vocabulary) -> None:
        self._answer = answer
        self._words = words
        fields = fields_of(answer.value)
        self._names = {step for field in fields for step in field.path}
        self._fields = [field for field in fields if self._matters(field)]

    def rounds(self) -> Iterator[Iterable[Mutant]]:
        """All mutants, those that say most first."""
        yield self._each(self._strong)
        yield self._each(self._missing)
        yield self._each(lambda field: self._scaled(field, "closer", CLOSER))
        yield self._rows()
        yield self._each(lambda field: self._scaled(field, "close", CLOSE))
        yield self._each(self._second)
        yield self._each(lambda field: self._replaced(field, "nan", float("nan"), "NaN"))
        yield self._swaps()
        yield self._each(self._single)
        yield self._each(lambda field: self._replaced(field, "text", "abc", "the text `abc`"))

    def _matters(self, field: Field) -> bool:
        first = field.values[0]
        if any(self._words.leaves_free(step) for step in field.path if step != "[]"):
            return False
        if isinstance(first, bool):
            return True
        if is_number(first):
            return all(map(is_number, field.values))
        return all(is_answer_word(value, self._words) for value in field.values)

    def _each(self, make: Callable[[Field], Iterator[Mutant]]) -> Iterator[Mutant]:
        for field in self._fields:
            yield from make(field)

    def _strong(self, field: Field) -> Iterator[Mutant]:
        """Everything wrong about a field, in all its places."""
        first = field.values[0]
        if isinstance(first, bool):
            yield from self._changed(field, "other", [not value for value in field.values])
        elif is_number(first):
            yield from self._changed(field, "far", list(map(far_off, field.values)))
        else:
            yield from self._changed(field, "far", [nonsense(str(value)) for value in field.values])

    def _second(self, field: Field) -> Iterator[Mutant]:
        """A wrong value that looks more like a right one."""
        first = field.values[0]
        if isinstance(first, bool):
            return
        if is_number(first):
            turned = [value if wrong is None else wrong for value in field.values for wrong in (opposite(value),)]
            yield from self._changed(field, "opposite", turned)
        else:
            beside = list(dict.fromkeys(field.values))
            others = [another_word(str(value), beside, self._alternatives(value)) or value for value in field.values]
            yield from self._changed(field, "other", others)

    def _alternatives(self, word: str) -> Iterator[str]:
        """Words that the instruction quotes beside one, without names of fields."""
        return (other for other in self._words.others_like(word) if other not in self._names)

    def _scaled(self, field: Field, kind: MutantKind, factor: float) -> Iterator[Mutant]:
        if not is_number(field.values[0]) or self._words.widest_tolerance >= factor - 1:
            return
        if all(map(is_small_count, field.values)):
            if kind == "closer":
                yield from self._changed(field, kind, list(map(one_more, field.values)), "1")
            return
        wrong = [scaled(value, factor) for value in field.values]
        kept = [old if new is None else new for old, new in zip(field.values, wrong, strict=True)]
        yield from self._changed(field, kind, kept, f"{round((factor - 1) * 100)} %")

    def _missing(self, field: Field) -> Iterator[Mutant]:
        if field.path and field.path[-1] != "[]":
            value = without(self._answer.value, field.places)
            yield from self._mutant("missing", field, field.name, f"`{field.name}` is missing", value)

    def _replaced(self, field: Field, kind: MutantKind, new: Any, shown: str) -> Iterator[Mutant]:
        """Something that is no number in place of a number; where cells are text, as text."""
        first = field.values[0]
        if isinstance(first, bool) or not is_number(first):
            return
        written = "nan" if isinstance(first, str) and kind == "nan" else new
        value = with_values(self._answer.value, [(place, written) for place in field.places])
        yield from self._mutant(kind, field, field.name, f"`{field.name}` is {shown} instead of {_show(first)}", value)

    def _single(self, field: Field) -> Iterator[Mutant]:
        """A field that is wrong in one place only, of those it has."""
        if len(field.places) < 2:
            return
        for index in field.samples():
            place, right = field.places[index], field.values[index]
            wrong = not right if isinstance(right, bool) else _far(right)
            subject = place_name(place)
            change = f"`{subject}` is {_show(wrong)} instead of {_show(right)}"
            value = with_value(self._answer.value, place, wrong)
            yield from self._mutant("one-far", field, subject, change, value)

    def _rows(self) -> Iterator[Mutant]:
        for path, rows in lists_of(self._answer.value):
            if any(isinstance(step, str) and self._words.leaves_free(step) for step in path):
                continue
            yield from self._row_mutants(path, rows)

    def _row_mutants(self, path: Steps, rows: list[Any]) -> Iterator[Mutant]:
        name = place_name(path) if path else "rows"
        last = len(rows) - 1
        for index in dict.fromkeys((last, 0, last // 2)):
            change = f"entry {index + 1} of {len(rows)} of `{name}` is missing"
            value = with_value(self._answer.value, path, rows[:index] + rows[index + 1 :])
            yield from self._list_mutant("row-missing", path, f"{name}[{index + 1}]", change, value)
        text = self._words.instruction.lower()
        if any(word in text for word in _ONCE_WORDS):
            value = with_value(self._answer.value, path, [*rows, rows[-1]])
            yield from self._list_mutant("row-twice", path, name, f"the last entry of `{name}` is there twice", value)
        if any(word in text for word in _SORTED_WORDS) and rows[::-1] != rows:
            value = with_value(self._answer.value, path, rows[::-1])
            yield from self._list_mutant("row-order", path, name, f"`{name}` is in reverse order", value)

    def _list_mutant(self, kind: MutantKind, path: Steps, subject: str, change: str, value: Any) -> Iterator[Mutant]:
        field = Field(tuple(str(step) for step in path), (path,), (None,))
        yield from self._mutant(kind, field, subject, change, value)

    def _swaps(self) -> Iterator[Mutant]:
        """Two numbers of one table that changed places: a verifier that only looks for values does not notice."""
        tables: dict[tuple[str, ...], list[Field]] = {}
        for field in self._fields:
            if is_number(field.values[0]) and len(field.places) == 1 and field.path:
                tables.setdefault(field.path[:-1], []).append(field)
        for fields in tables.values():
            for one, other in zip(fields[::2], fields[1::2], strict=False):
                yield from self._swapped(one, other)

    def _swapped(self, one: Field, other: Field) -> Iterator[Mutant]:
        first, second = one.values[0], other.values[0]
        low, high = sorted((abs(float(first)), abs(float(second))))
        if high < 1 or low > high * 0.7 or type(first) is not type(second):
            return
        value = with_values(self._answer.value, [(one.places[0], second), (other.places[0], first)])
        change = f"`{one.name}` and `{other.name}` are swapped"
        yield from self._mutant("swapped", one, f"{one.name}+{other.name}", change, value)

    def _changed(self, field: Field, kind: MutantKind, wrong: list[Any], label: str = "") -> Iterator[Mutant]:
        if wrong == list(field.values):
            return
        value = with_values(self._answer.value, list(zip(field.places, wrong, strict=True)))
        shown = next(index for index, new in enumerate(wrong) if new != field.values[index])
        change = f"`{field.name}` is {_show(wrong[shown])} instead of {_show(field.values[shown])}"
        for mutant in self._mutant(kind, field, field.name, change, value):
            yield replace(mutant, label=label)

    def _mutant(self, kind: MutantKind, field: Field, subject: str, change: str, value: Any) -> Iterator[Mutant]:
        content = self._answer.written(value)
        if content is not None:
            named = not field.key or self._words.names(field.key)
            yield Mutant(kind, field.name, subject, change, content, named)


def _far(value: Any) -> Any:
    return far_off(value) if is_number(value) else nonsense(str(value))


def _show(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
