"""What verifiers offers, as facts, and what of it a class or function of ours takes."""

import inspect
import json
import types
from functools import cache
from pathlib import Path

from seatrial.compat.table import HOMES, resolve
from seatrial.env.arguments import constructor_arguments
from seatrial.env.sandboxes import SandboxSettings

FACTS = json.loads((Path(__file__).parent / "verifiers_names.json").read_text())
NAMES: dict[str, dict[str, str]] = FACTS["names"]
PARAMETERS: dict[str, list[str]] = FACTS["parameters"]

_TAKES_ANY = (
    "_args",
    "_no_effect",
    "_options",
    "args",
    "fields",
    "given",
    "kwargs",
    "objects",
    "options",
    "others",
    "_",
    "__",
)
_ELSEWHERE = ("api_base_url",)
"""What the constructor of a ClientConfig takes besides its fields."""


@cache
def named(name: str) -> object:
    return resolve("verifiers", name)


def lacking() -> set[str]:
    """Methods (`Class.method`) and arguments (`Class.method(argument)`) of verifiers that ours do not have."""
    found: set[str] = set()
    for full, parameters in PARAMETERS.items():
        name, _, method = full.partition(".")
        if name not in HOMES:
            continue
        owner = named(name)
        if method not in ("", "__init__") and not hasattr(owner, method):
            found.add(full)
            continue
        function = owner if method in ("", "__init__") else inspect.getattr_static(owner, method)
        # The first argument is always given by position, whatever its name.
        first = 1 if parameters and method != "__init__" and _positional(function, with_self=bool(method)) else 0
        found |= {f"{full}({each})" for each in parameters[first:] if not accepts(function, each)}
    return found


def accepts(function: object, argument: str) -> bool:
    """Whether something can be called with an argument of this name, or has a place of its own for it."""
    if isinstance(function, type) and hasattr(function, "rollout"):
        return argument in constructor_arguments(function)
    if isinstance(function, classmethod | staticmethod):
        function = function.__func__
    if isinstance(function, property):
        return False
    if isinstance(function, types.MethodDescriptorType):  # of dict
        return True
    assert callable(function)
    fields = getattr(function, "model_fields", None)
    if fields is not None:
        return argument in fields or argument in _ELSEWHERE
    parameters = inspect.signature(function).parameters
    if "settings" in parameters:
        return argument in inspect.signature(SandboxSettings).parameters
    return argument in parameters or any(
        each.kind in (each.VAR_KEYWORD, each.VAR_POSITIONAL) and each.name in _TAKES_ANY for each in parameters.values()
    )


def _positional(function: object, *, with_self: bool) -> bool:
    plain = function.__func__ if isinstance(function, classmethod | staticmethod) else function
    if not inspect.isfunction(plain):
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(each.kind in kinds for each in inspect.signature(plain).parameters.values()) > with_self
