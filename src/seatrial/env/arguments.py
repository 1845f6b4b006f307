"""Keyword arguments: those that are passed on, and those that nothing takes, with the one that was probably meant."""

import inspect
import operator
from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from functools import wraps
from typing import Any, TypeVar, cast

from seatrial.errors import UnknownArgumentError, UsageError

F = TypeVar("F", bound=Callable[..., Any])

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def refuse_unknown(what: str, unknown: Collection[str], known: Iterable[str]) -> None:
    """Raise UnknownArgumentError when there are arguments that are left over; it names those that are like them."""
    if unknown:
        names = sorted(set(known) - set(unknown))
        hints = "; ".join(_hint(name, names) for name in unknown)
        raise UnknownArgumentError(f"{what} got an unknown argument {hints}")


def whole_number(name: str, value: Any, least: int | None = None) -> int:
    """A number of things, as it was given. Raises UsageError for what is no whole number, or less than `least`."""
    expected = "a whole number" if least is None else f"a whole number, {least} or more"
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or (least is not None and number < least):
        raise UsageError(f"{name} is {value!r}, expected {expected}")
    return number


def constructor_arguments(kind: type) -> list[str]:
    """Every keyword that a class or one of its bases takes when it is made."""
    inits = [vars(each)["__init__"] for each in kind.__mro__ if "__init__" in vars(each) and each is not object]
    return [name for init in inits for name in arguments_of(init)]


def arguments_of(function: Callable[..., Any]) -> list[str]:
    """The keywords that a function names."""
    parameters: Mapping[str, inspect.Parameter] = inspect.signature(function).parameters
    return [name for name, each in parameters.items() if each.kind in _NAMED and name != "self"]


def passes_on(taker: Callable[..., Any]) -> Callable[[F], F]:
    """Let a function that passes its `**kwargs` on have the arguments of `taker` behind its own, in that order.

    They are in its signature, and all of those that may be given by position there may be so here.
    """

    def extend(function: F) -> F:
        own = inspect.signature(function)
        *named, rest = own.parameters.values()
        more = [each for name, each in inspect.signature(taker).parameters.items() if name not in own.parameters]
        # `sorted` keeps the order within a kind; those that are given by name only come last.
        signature = own.replace(parameters=[*sorted([*named, *more], key=lambda each: each.kind), rest])

        @wraps(function)
        def extended(*args: Any, **kwargs: Any) -> Any:
            given = signature.bind(*args, **kwargs).arguments
            others = given.pop(rest.name, {})
            return function(**given, **others)

        extended.__signature__ = signature  # type: ignore[attr-defined]
        return cast("F", extended)

    return extend


def _hint(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, n=1)
    return f"{name}: did you mean {near[0]}?" if near else f"{name}: there are {', '.join(known)}"
