"""Keyword arguments that nothing takes: an error that names the one that was probably meant."""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from seatrial.errors import UnknownArgumentError

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def refuse_unknown(what: str, unknown: Collection[str], known: Iterable[str]) -> None:
    """Raise UnknownArgumentError when there are arguments that are left over; it names those that are like them."""
    if unknown:
        names = sorted(set(known) - set(unknown))
        hints = "; ".join(_hint(name, names) for name in unknown)
        raise UnknownArgumentError(f"{what} got an unknown argument {hints}")


def constructor_arguments(kind: type) -> list[str]:
    """Every keyword that a class or one of its bases takes when it is made."""
    inits = [vars(each)["__init__"] for each in kind.__mro__ if "__init__" in vars(each) and each is not object]
    return [name for init in inits for name in arguments_of(init)]


def arguments_of(function: Callable[..., Any]) -> list[str]:
    """The keywords that a function names."""
    parameters: Mapping[str, inspect.Parameter] = inspect.signature(function).parameters
    return [name for name, each in parameters.items() if each.kind in _NAMED and name != "self"]


def _hint(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, n=1)
    return f"{name}: did you mean {near[0]}?" if near else f"{name}: there are {', '.join(known)}"
