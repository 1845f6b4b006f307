"""`load_environment`: the environment that a name stands for, made by its module's own `load_environment`.

A name is looked for, in this order, as

    ./my_env.py, ./my-env       a Python file, or a folder with one, or with a package, that defines the function
    my-env, owner/my-env        a module that can be imported, called my_env
    my-env                      an entry point of the group `seatrial.environments`: the function, or its module

What goes wrong in the module becomes one error: which line of it, what happened, what to do.
"""

import importlib
import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

import tomli

from seatrial.env.environment import Environment
from seatrial.errors import SeatrialError, UnknownArgumentError, UsageError
from seatrial.model.arguments import instance_of
from seatrial.plugins import plugin_names

FUNCTION = "load_environment"
ENTRY_POINTS = "seatrial.environments"


@dataclass(frozen=True, slots=True)
class Loader:
    """The function that makes an environment."""

    env_id: str
    function: Any
    where: str
    home: Path | None = None
    """The folder it comes from, where that is known."""

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


# Module files: a Python file, or a folder laid out as packages usually are.

_DEFINES = re.compile(rf"^(async\s+)?def {FUNCTION}\b|\bimport\b.*\b{FUNCTION}\b|^{FUNCTION}\s*=", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ModuleFile:
    """A module, and the folder from which its own imports are to work."""

    name: str
    path: Path

    @property
    def root(self) -> Path:
        return self.path.parent.parent if self.path.name == "__init__.py" else self.path.parent


def module_name(name: str) -> str:
    """What the module of an environment is called: dashes are underscores, and an owner before a slash is left out."""
    instance_of("the name of an environment", name, str)
    return name.rstrip("/").rpartition("/")[2].replace("-", "_")


def find_module_file(place: Path) -> ModuleFile | None:
    """The module at a path, None where there is none. Raises UsageError for a folder of tasks."""
    if place.is_file():
        return ModuleFile(module_name(place.stem), place.absolute()) if place.suffix == ".py" else None
    if not place.is_dir():
        return None
    folder = place.absolute()
    found = next(filter(_defines, _usual_files(folder)), None) or _only_one(folder)
    if found is not None:
        inner = found.parent if found.name == "__init__.py" else found
        return ModuleFile(module_name(inner.stem if inner is found else inner.name), found)
    if _has_tasks(folder):
        raise UsageError(
            f"{place} holds Harbor tasks, expected an environment; run tasks with `seatrial run -p {place}`, or write "
            f"a module whose {FUNCTION} returns seatrial.HarborEnv(run_command, dataset_path={str(place)!r})"
        )
    return None


def import_file(module: ModuleFile) -> ModuleType:
    """The module in a file, imported once. Its folder stays on the path: modules beside it may be needed later."""
    known = sys.modules.get(module.name)
    if known is not None and getattr(known, "__file__", None) == str(module.path):
        return known
    if str(module.root) not in sys.path:
        sys.path.insert(0, str(module.root))
    inside = [str(module.path.parent)] if module.path.name == "__init__.py" else None
    name = module.name if known is None else f"{module.name}_of_{module.root.name}"
    spec = importlib.util.spec_from_file_location(name, module.path, submodule_search_locations=inside)
    assert spec is not None  # noqa: S101 - it ends with .py
    assert spec.loader is not None  # noqa: S101 - likewise
    made = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(made)
    except BaseException:
        del sys.modules[name]
        raise
    return made


def read_project(folder: Path) -> dict[str, Any]:
    """What the pyproject.toml of a folder says; nothing where there is none that can be read."""
    try:
        return tomli.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _usual_files(folder: Path) -> Iterator[Path]:
    declared = read_project(folder).get("project", {})
    names = [folder.name, declared.get("name") if isinstance(declared, dict) else None]
    yield folder / "__init__.py"
    for name in dict.fromkeys(module_name(each) for each in names if isinstance(each, str)):
        for parent in (folder, folder / "src"):
            yield parent / f"{name}.py"
            yield parent / name / "__init__.py"
            yield parent / name / f"{name}.py"


def _only_one(folder: Path) -> Path | None:
    """The only file of a folder that defines the function, whatever it is called."""
    found = [path for path in sorted(folder.glob("*.py")) if _defines(path)]
    return found[0] if len(found) == 1 else None


def _defines(path: Path) -> bool:
    try:
        return bool(_DEFINES.search(path.read_text(encoding="utf-8", errors="replace")))
    except OSError:
        return False


def _has_tasks(folder: Path) -> bool:
    return (folder / "task.toml").is_file() or any(folder.glob("*/task.toml"))


# Errors of the module.

COMPAT = (
    "run it with `seatrial eval`, which stands in for verifiers by itself (--compat), or begin your program with "
    "`import seatrial.compat.verifiers; seatrial.compat.verifiers.install()`"
)

_OURS = str(Path(__file__).parents[1])


@contextmanager
def blaming_module(env_id: str, what: str, home: Path | None) -> Iterator[None]:
    """Turn whatever a stranger's module raises into one error that says where."""
    try:
        yield
    except (Exception, SystemExit) as error:
        raise module_error(env_id, what, error, home) from error


def module_error(env_id: str, what: str, error: BaseException, home: Path | None) -> UsageError:
    at = _blamed_line(error, home)
    said = f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"
    said = str(error) if isinstance(error, SeatrialError) else said
    return UsageError(f"environment {env_id!r}: {what}: {at}{said}{_remedy(error, home)}")


def _blamed_line(error: BaseException, home: Path | None) -> str:
    """The innermost line of the module itself; of anybody's but ours, if it has none."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}: "
    frames = [each for each in traceback.extract_tb(error.__traceback__) if not _is_machinery(each.filename)]
    own = [each for each in frames if home and each.filename.startswith(f"{home}/")]
    if not (chosen := own or frames):
        return ""
    last = chosen[-1]
    function = "" if last.name == "<module>" else f", in {last.name}"
    return f"{last.filename}, line {last.lineno}{function}: "


def _is_machinery(file: str) -> bool:
    return file.startswith((_OURS, "<frozen ")) or "/importlib/" in file


def _remedy(error: BaseException, home: Path | None) -> str:
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return ""
    package = error.name.partition(".")[0]
    if package == "verifiers":
        return f"; {COMPAT}"
    project = home if home and (home / "pyproject.toml").is_file() else None
    return f"; install what it needs: pip install {project or package}"
