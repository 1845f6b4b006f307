"""`load_environment`: the environment that a name stands for, made by its module's own `load_environment`.

A name is looked for, in this order, as

    ./my_env.py, ./my-env       a Python file, or a folder with one, or with a package, that defines the function
    my-env, owner/my-env        a module that can be imported, called my_env
    my-env                      an entry point of the group `seatrial.environments`: the function, or its module
"""

import importlib
import importlib.util
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from seatrial.env.environment import Environment
from seatrial.env.module_errors import COMPAT, blaming_module
from seatrial.env.module_files import FUNCTION, find_module_file, import_file, module_name
from seatrial.errors import UnknownArgumentError, UsageError
from seatrial.plugins import plugin_names

ENTRY_POINTS = "seatrial.environments"


@dataclass(frozen=True, slots=True)
class Loader:
    """The function that makes an environment. `home` is the folder it comes from, where that is known."""

    env_id: str
    function: Any
    where: str
    home: Path | None = None

    def load(self, env_args: Mapping[str, Any]) -> Environment:
        """The environment. Raises UsageError for arguments it does not take and whatever goes wrong in it."""
        function = self._callable()
        _check_arguments(self.env_id, function, env_args)
        with blaming_module(self.env_id, f"{FUNCTION} failed", self.home):
            made = function(**env_args)
        if not isinstance(made, Environment):
            raise UsageError(f"environment {self.env_id!r}: {FUNCTION} of {self.where} returned {_unexpected(made)}")
        made.env_id = made.env_id or self.env_id
        made.env_args = made.env_args or dict(env_args)
        return made

    def _callable(self) -> Callable[..., Any]:
        what = f"environment {self.env_id!r}: {FUNCTION} of {self.where}"
        if not callable(self.function):
            raise UsageError(f"{what} is {_named(self.function)}, expected a function that returns an Environment")
        if inspect.iscoroutinefunction(self.function):
            raise UsageError(f"{what} is async, expected a plain function; await things in the rollouts instead")
        function: Callable[..., Any] = self.function
        return function


def load_environment(env_id: str, **env_args: Any) -> Environment:
    """The environment of that name, made with these arguments.

    Raises UsageError when there is none, when it does not take the arguments, and when its module fails; the message
    then names the line of the module, and the error itself is the cause.
    """
    return find_environment(env_id).load(env_args)


def find_environment(name: str, folders: Sequence[Path] = ()) -> Loader:
    """The loader of the environment of that name, which may also lie in one of the folders. Raises UsageError."""
    plain, path = module_name(name), Path(name).expanduser()
    near = [path, path.with_name(plain)] if path.name else [path]
    for place in (*near, *(folder / each for folder in folders for each in (plain, f"{plain}.py"))):
        if (file := find_module_file(place)) is not None:
            with blaming_module(_id_of(name), "its module cannot be imported", file.root):
                module = import_file(file)
            return _of_module(_id_of(name), module, str(file.path), file.root)
    if _is_importable(plain):
        with blaming_module(name, f"the module {plain} cannot be imported", None):
            module = importlib.import_module(plain)
        origin = getattr(module, "__file__", None)
        return _of_module(name, module, str(origin or plain), Path(origin).parent if origin else None)
    for entry in entry_points(group=ENTRY_POINTS, name=name):
        with blaming_module(name, f"the entry point {entry.value} cannot be loaded", None):
            found = entry.load()
        if isinstance(found, ModuleType):
            return _of_module(name, found, entry.value)
        return Loader(name, found, entry.value)
    raise UsageError(_not_found(name, plain, folders))


def _of_module(env_id: str, module: ModuleType, where: str, home: Path | None = None) -> Loader:
    if not hasattr(module, FUNCTION):
        public = [each for each in vars(module) if not each.startswith("_")]
        near = get_close_matches(FUNCTION, public, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UsageError(
            f"environment {env_id!r}: {where} has no function {FUNCTION}, which would return the environment{hint}"
        )
    return Loader(env_id, getattr(module, FUNCTION), where, home)


def _id_of(name: str) -> str:
    """What an environment at a path is called."""
    path = Path(name).expanduser().absolute()
    return path.stem if path.suffix == ".py" else path.name


def _is_importable(name: str) -> bool:
    try:
        spec = importlib.util.find_spec(name) if name.isidentifier() else None
    except (ImportError, ValueError):
        return False
    return spec is not None and spec.origin is not None  # any folder that lies about is a package without an origin


def _not_found(name: str, plain: str, folders: Sequence[Path]) -> str:
    if (path := Path(name).expanduser()).suffix == ".toml":
        return f"{path} is a file of settings, expected an environment; give its settings as options, one run for each"
    if path.exists():
        there = f"{path} has no Python file that defines {FUNCTION}"
    elif "/" in name or name.endswith(".py"):
        there = f"there is nothing at {path}"
    else:
        there = f"there is no file or folder {path} here"
    looked = f" or in {', '.join(map(str, folders))}" if folders else ""
    known = ", ".join(plugin_names(ENTRY_POINTS))
    more = f"; installed environments: {known}" if known else ""
    return (
        f"environment {name!r}: {there}{looked}, and no module {plain} is installed{more}; name a file or folder, or "
        f"install its package. `seatrial env init {plain}` makes a new one"
    )


def _check_arguments(env_id: str, function: Callable[..., Any], given: Mapping[str, Any]) -> None:
    parameters = inspect.signature(function).parameters.values()
    named = {each.name: each for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)}
    takes = ", ".join(map(_described, named.values())) or "none"
    unknown = [name for name in given if name not in named]
    if unknown and not any(each.kind is each.VAR_KEYWORD for each in parameters):
        near = get_close_matches(unknown[0], named, n=1)
        hint = f"; did you mean {near[0]}?" if near else "."
        listed = ", ".join(map(repr, unknown))
        raise UnknownArgumentError(f"environment {env_id!r} takes no argument {listed}{hint} Its arguments: {takes}")
    missing = [name for name, each in named.items() if each.default is each.empty and name not in given]
    if missing:
        example = '{"%s": …}' % missing[0]  # noqa: UP031 - braces
        raise UsageError(
            f"environment {env_id!r} needs the argument {', '.join(map(repr, missing))}: give it as in -a '{example}', "
            f"or load_environment(…, {missing[0]}=…). Its arguments: {takes}"
        )


def _described(parameter: inspect.Parameter) -> str:
    if parameter.default is parameter.empty:
        return parameter.name
    return f"{parameter.name}={parameter.default!r}"


def _unexpected(made: object) -> str:
    if made is None:
        return "None; is a `return` missing?"
    if any(each.__module__.partition(".")[0] == "verifiers" for each in type(made).__mro__):
        return f"{_named(made)} of the package verifiers, expected one of Seatrial's; {COMPAT}"
    return f"{_named(made)}, expected a seatrial.Environment"


def _named(value: object) -> str:
    kind = type(value).__name__
    return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"
