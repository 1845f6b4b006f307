"""What people give to constructors and functions in their programs, checked: a mistake is a UsageError in words.

Values that are stored or read from files are StrictModels like any other, and those who read them report what is wrong.
"""

import operator
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from seatrial.errors import ArgumentValueError, UnknownArgumentError, UsageError
from seatrial.model.base import StrictModel

_SELF_EVIDENT = ("missing", "value_error", "extra_forbidden", "too_short", "string_too_short")
"""Faults whose message needs no word of what was found."""


class OptionsModel(StrictModel):
    """Values that people write in their programs: a constructor raises UsageError, in words, for what makes no sense.

    What reads stored values or files, `model_validate` and the like, raises pydantic's error as for any other type.
    """

    def __init__(self, *unnamed: Any, **values: Any) -> None:
        name, fields = type(self).__name__, type(self).model_fields
        if unnamed:
            raise UsageError(f"{name} takes its values by their names: {', '.join(fields)}")
        refuse_unknown(name, [each for each in values if each not in fields], fields)
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise usage_error(name, error) from None

    # By this pydantic tells a constructor that it has to call for values that it validates itself.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        try:
            return super().model_copy(update=update, deep=deep)
        except ValidationError as error:
            raise usage_error(type(self).__name__, error) from None


def usage_error(name: str, error: ValidationError) -> ArgumentValueError:
    """What is wrong with the values that `name` was given. Text is not repeated: it may be a key."""
    return ArgumentValueError(f"{name}: " + "; ".join(_complaint(each) for each in error.errors(include_url=False)))


def _complaint(fault: Any) -> str:
    where, given = ".".join(map(str, fault["loc"])), fault["input"]
    message = fault["msg"].removeprefix("Value error, ").replace("Input should be", "expected")
    if fault["type"] not in _SELF_EVIDENT:
        is_plain = given is None or isinstance(given, int | float) or fault["type"] == "literal_error"
        message += f", found {given!r:.60}" if is_plain else f", found a value of type {type(given).__name__}"
    return ": ".join(part for part in (where, message) if part)


def refuse_unknown(what: str, unknown: Collection[str], known: Iterable[str]) -> None:
    """Raise UnknownArgumentError when there are arguments that are left over; it names those that are like them."""
    if unknown:
        names = sorted(set(known) - set(unknown))
        hints = "; ".join(_hint(name, names) for name in unknown)
        raise UnknownArgumentError(f"{what} got an unknown argument {hints}")


def _hint(name: str, known: list[str]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - only for mistakes

    near = get_close_matches(name, known, n=1)
    return f"{name}: did you mean {near[0]}?" if near else f"{name}: there are {', '.join(known)}"


def as_path(name: str, value: object) -> Path:
    """A path, as it was given. Raises UsageError for anything else."""
    if not isinstance(value, str | os.PathLike) or isinstance(os.fspath(value), bytes):
        raise UsageError(f"{name} is {value!r:.80}, expected a path")
    return Path(value)


def as_names(name: str, value: Any) -> tuple[str, ...]:
    """Names, of which one may be given by itself. Raises UsageError for anything else."""
    given = (value,) if isinstance(value, str) else value
    if not isinstance(given, Iterable) or isinstance(given, Mapping):
        raise UsageError(f"{name} is {value!r:.80}, expected a list of names")
    names = tuple(given)
    if wrong := [each for each in names if not isinstance(each, str)]:
        raise UsageError(f"{name} has {wrong[0]!r:.80} in it, expected names")
    return names


def as_list(name: str, value: Any) -> list[Any]:
    """What there is several of; nothing for None. Raises UsageError for text, and for what is not several."""
    if isinstance(value, str) or not isinstance(value, Iterable | None):
        raise UsageError(f"{name} is {value!r:.80}, expected a list")
    return list(value or ())


def one_of(name: str, value: Any, known: Collection[Any]) -> None:
    """Raise UsageError unless a value is one of those that are known."""
    if value not in known:
        raise UsageError(f"{name} is {value!r:.80}, expected one of {', '.join(map(repr, known))}")


def instance_of(name: str, value: object, kind: type) -> None:
    """Raise UsageError unless a value is of a type."""
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise UsageError(f"{name} is of type {type(value).__name__}, expected {article} {kind.__name__}")


def positive(name: str, value: Any, otherwise: str) -> None:
    """Raise UsageError unless a value is a number above 0 or None; `otherwise` says what None means."""
    if value is not None and not (isinstance(value, int | float) and not isinstance(value, bool) and value > 0):
        raise UsageError(f"{name}={value!r:.80}: expected more than 0, or None for {otherwise}")


def as_table(name: str, value: Any) -> dict[str, Any]:
    """A table; an empty one for None. Raises UsageError for anything else."""
    if value is not None and not isinstance(value, Mapping):
        raise UsageError(f"{name} is of type {type(value).__name__}, expected a table")
    return dict(value or {})


def whole_number(name: str, value: Any, least: int | None = None) -> int:
    """A number of things, as it was given. Raises UsageError for anything else, or less than `least`."""
    expected = "a whole number" if least is None else f"a whole number, {least} or more"
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or (least is not None and number < least):
        raise UsageError(f"{name} is {value!r}, expected {expected}")
    return number
