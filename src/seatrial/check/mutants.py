"""Mutants of data: accepted answers with one field wrong, made without knowing the task, the same ones in every run.

Mutants of code and text are in `code_mutants`, what survivors mean in `survivors`.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal

from seatrial.check.answers import DataAnswer, Vocabulary

MutantKind = Literal[
    "far", "other", "opposite", "close", "closer", "missing", "nan", "text", "one-far", "row-missing", "row-twice",
    "row-order", "swapped", "does-nothing", "always-true", "always-false", "slip",
]  # fmt: skip
"""What was done. Of a field: a value far off, another value of its kind, the other sign, 50 or 20 % off, gone, not a
number, a text for a number, far off in one row only. Of a list: a row gone, twice, all in another order. Two fields
swapped. Of code: a function that does nothing or always says the same, a slip such as a number that is one off."""

FIELD_KINDS: frozenset[MutantKind] = frozenset({"far", "other", "opposite"})
"""The kinds after which no part of the right value is left."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One wrong answer. `field` is what is wrong in general, `subject` the very place, both as an author names them.

    `change` tells what was done, as in "`utilisation` is 11.98 instead of 1.198". With `named`, the instruction speaks
    of the field. `label` says which of several mutants of a kind it is.
    """

    kind: MutantKind
    field: str
    subject: str
    change: str
    content: bytes
    named: bool = True
    label: str = ""


def bounded(rounds: Iterable[Iterable[Mutant]], original: bytes, limit: int) -> Iterator[Mutant]:
    """Mutants that differ from the original and from each other, those of earlier rounds first, at most `limit`."""
    seen = {original}

    def fresh() -> Iterator[Mutant]:
        for mutants in rounds:
            for mutant in mutants:
                if mutant.content not in seen:
                    seen.add(mutant.content)
                    yield mutant

    return islice(fresh(), limit)


# Fields: every plain value by its path, and the same field of all entries of a list as one.

Step = str | int
Steps = tuple[Step, ...]
_MAX_FIELDS = 400
_MAX_PLACES = 20_000


@dataclass(frozen=True, slots=True)
class Field:
    """A field in all its places, such as `pump[].flow_m3h`, and the values it has there."""

    path: tuple[str, ...]
    places: tuple[Steps, ...]
    values: tuple[Any, ...]

    @property
    def key(self) -> str:
        """The last name on its path: what an instruction calls it."""
        return next((step for step in reversed(self.path) if step != "[]"), "")

    @property
    def name(self) -> str:
        return _joined(self.path)

    def samples(self) -> tuple[int, ...]:
        """The first place, the last one and the one in the middle."""
        last = len(self.places) - 1
        return tuple(dict.fromkeys((0, last, last // 2)))


def place_name(path: Steps) -> str:
    """One place as an author would write it; rows count from 1, as everybody but a programmer counts them."""
    steps = tuple(f"[{step + 1}]" if isinstance(step, int) else step for step in path)
    if len(steps) > 1 and isinstance(path[0], int):
        return f"{_joined(steps[1:])} (row {path[0] + 1})"
    return _joined(steps)


def _joined(steps: Sequence[str]) -> str:
    text = "".join(step if step.startswith("[") else f".{step}" for step in steps).removeprefix(".")
    return text.removeprefix("[].") or "value"


def fields_of(value: Any) -> list[Field]:
    """Every field of a value in the order in which they come; of very many, the first ones."""
    found: dict[tuple[str, ...], list[tuple[Steps, Any]]] = {}
    for number, (path, leaf) in enumerate(_leaves(value, ())):
        general = tuple("[]" if isinstance(step, int) else step for step in path)
        if number >= _MAX_PLACES or (general not in found and len(found) >= _MAX_FIELDS):
            break
        found.setdefault(general, []).append((path, leaf))
    return [
        Field(general, tuple(path for path, _ in places), tuple(leaf for _, leaf in places))
        for general, places in found.items()
    ]


def _leaves(value: Any, path: Steps) -> Iterator[tuple[Steps, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, (*path, str(key)))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _leaves(inner, (*path, index))
    else:
        yield path, value


def lists_of(value: Any, path: Steps = ()) -> Iterator[tuple[Steps, list[Any]]]:
    """Every list of two or more entries with its path, outer ones first."""
    if isinstance(value, list):
        if len(value) > 1:
            yield path, value
        return  # lists in lists are too many, and what they hold is tried as fields
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from lists_of(inner, (*path, str(key)))


def with_value(value: Any, path: Steps, new: Any) -> Any:
    """The same value with another one at a path."""
    if not path:
        return new
    step, rest = path[0], path[1:]
    if isinstance(value, dict):
        return {key: with_value(inner, rest, new) if str(key) == step else inner for key, inner in value.items()}
    return [with_value(inner, rest, new) if index == step else inner for index, inner in enumerate(value)]


def with_values(value: Any, changes: Sequence[tuple[Steps, Any]]) -> Any:
    """The same value with other ones at many paths."""
    if any(not path for path, _ in changes):
        return changes[-1][1]
    by_step: dict[Step, list[tuple[Steps, Any]]] = {}
    for path, new in changes:
        by_step.setdefault(path[0], []).append((path[1:], new))
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    done = [(key, with_values(inner, by_step[key]) if key in by_step else inner) for key, inner in pairs]
    return dict(done) if isinstance(value, dict) else [inner for _, inner in done]


def without(value: Any, paths: Sequence[Steps]) -> Any:
    """The same value without what is at some paths."""
    here = {path[0] for path in paths if len(path) == 1}
    deeper: dict[Step, list[Steps]] = {}
    for path in paths:
        if len(path) > 1:
            deeper.setdefault(path[0], []).append(path[1:])
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    kept = [(key, without(inner, deeper[key]) if key in deeper else inner) for key, inner in pairs if key not in here]
    return dict(kept) if isinstance(value, dict) else [inner for _, inner in kept]


# Wrong values: far off, of the other sign, a little off, another word.

NUMBER_TEXT = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?")
CLOSE, CLOSER = 1.5, 1.2
_SMALL = 20
_MAX_WORD = 60
_MAX_WORDS_IN_A_NAME = 3
_HEX = re.compile(r"[0-9a-f]{16,}|[0-9A-F]{16,}")


def is_number(value: Any) -> bool:
    """Whether a value is a finite number, or a text that is one."""
    number = _number(value)
    return number is not None and math.isfinite(number)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and not NUMBER_TEXT.fullmatch(value.strip()):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def far_off(value: Any) -> Any:
    """A number ten times as large; one near 0 grows by 10, so that no absolute tolerance hides it."""
    number = _number(value) or 0.0
    return _like(value, number * 10 if abs(number) >= 1 else number + 10)


def opposite(value: Any) -> Any | None:
    """The number with the other sign, None for 0."""
    number = _number(value)
    return _like(value, -number) if number else None


def scaled(value: Any, factor: float) -> Any | None:
    """The number some per cent off; None where rounding changes that much, or an absolute tolerance would decide."""
    number = _number(value)
    if number is None or abs(number) < 0.05:
        return None
    wrong, meant = _like(value, number * factor), abs(number) * (factor - 1)
    return wrong if 0.8 * meant <= abs((_number(wrong) or 0.0) - number) <= 1.2 * meant else None


def is_small_count(value: Any) -> bool:
    """Whether a value is a whole number so small that one more is another answer."""
    number = _number(value)
    is_whole = isinstance(value, int) or (isinstance(value, str) and value.strip().isdigit())
    return is_whole and number is not None and 0 < number < _SMALL


def one_more(value: Any) -> Any:
    """The next whole number."""
    return _like(value, (_number(value) or 0.0) + 1)


def _like(value: Any, number: float) -> Any:
    """A number written like another value: whole, with as many decimals, or as text."""
    if isinstance(value, str):
        decimals = len(value.strip().partition(".")[2]) if "e" not in value.lower() else 6
        return f"{number:.{decimals}f}"
    if isinstance(value, int):
        return round(number)
    return float(f"{number:.12g}")


def is_answer_word(value: Any, words: Vocabulary) -> bool:
    """Whether a text is an answer, not prose: short, and known to the instruction or the tests, or a digest."""
    if not isinstance(value, str) or not value.strip() or len(value) > 200:
        return False
    if _HEX.fullmatch(value):
        return True
    is_name = len(value) <= _MAX_WORD and len(value.split()) <= _MAX_WORDS_IN_A_NAME
    return is_name and words.knows(value)


def nonsense(value: str) -> str:
    """A text that is surely not the right one, of the same kind."""
    if _HEX.fullmatch(value):
        turned = value.translate(str.maketrans("0123456789abcdefABCDEF", "fedcba9876543210543210"))
        return turned.upper() if value.isupper() else turned
    return "WRONG_VALUE" if value.isupper() else "wrong_value"


def another_word(value: str, elsewhere: Iterable[Any], quoted: Iterable[str]) -> str | None:
    """Another word that could stand here: one of the same field elsewhere, or one the instruction quotes beside it."""
    others = (other for other in (*elsewhere, *quoted) if isinstance(other, str) and other != value)
    return next(others, None)


# Mutants: every field gets one strong mutant before any gets a second one.

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
