"""Where presets come from: a user's folders, entry points, and those that come with Seatrial, in this order."""

import json
import os
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import tomli
from pydantic import ValidationError

from seatrial.errors import UsageError
from seatrial.model.base import plain
from seatrial.model.job import LayerRecipe
from seatrial.model.preset import Preset
from seatrial.plugins import find_plugin, plugin_names

ENTRY_POINTS = "seatrial.presets"
FOLDERS_VARIABLE = "SEATRIAL_AGENTS"
_SHIPPED = Path(__file__).with_name("presets")
_SHOWN = 80


def preset_names(folder: Path | None = None) -> list[str]:
    """The names of all presets there are, and of those in one more folder."""
    found = {path.stem for each in (*_folders(folder), _SHIPPED) for path in _files_in(each)}
    return sorted(found.union(plugin_names(ENTRY_POINTS)))


def find_preset(name: str, folder: Path | None = None) -> Preset | None:
    """The preset of a name, or that has it as another name; None if there is none.

    One in `folder` goes before all others. Raises UsageError for one that cannot be used, with file and key.
    """
    for each in _folders(folder):
        if (path := each / f"{name}.toml").is_file():
            return read_preset(path).model_copy(update={"source": str(path.absolute())})
    if (registered := find_plugin(ENTRY_POINTS, name)) is not None:
        return _of_plugin(name, registered)
    return _shipped(name) or _other_name(name, folder)


def is_shipped(name: str) -> bool:
    return "/" not in name and (_SHIPPED / f"{name}.toml").is_file()


def recipe_of(name: str, version: str | None = None, folder: Path | None = None) -> LayerRecipe:
    """How the tree of a preset is made, in its pinned version or in another. Raises UsageError for an unknown name."""
    preset = find_preset(name, folder)
    if preset is None:
        raise UsageError(f"there is no preset called {name!r}; there are: {', '.join(preset_names(folder))}")
    return preset_recipe(preset, version)


def preset_recipe(preset: Preset, version: str | None = None) -> LayerRecipe:
    """How the tree of a preset is made. Raises UsageError for a version that cannot be one."""
    chosen, packages = version or preset.version, preset.packages
    try:
        return LayerRecipe(
            name=preset.name,
            version=chosen,
            npm=tuple(each.replace("{version}", chosen) for each in packages.npm),
            pip=tuple(each.replace("{version}", chosen) for each in packages.pip),
            python=packages.python,
            programs=packages.programs,
            musl_programs=packages.musl_programs,
        )
    except ValidationError as error:
        raise UsageError(
            f"{preset.name}@{chosen}: {chosen!r} is not a version; write one as its registry has it, such as "
            f"{preset.name}@{preset.version}"
        ) from error


def read_preset(path: Path) -> Preset:
    """The preset in a file. Raises UsageError that names the file, the key, what was found and what is expected."""
    try:
        values = tomli.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: the preset cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not TOML: {error}") from error
    if (name := values.get("name", path.stem)) != path.stem:
        raise UsageError(f"{path}: name: expected {path.stem!r}, as the file is called, found {name!r:.80}")
    return _validated({"name": path.stem, **values}, str(path))


def as_json(preset: Preset) -> dict[str, Any]:
    """A preset as a job keeps it: what it says, and nothing of what it leaves open."""
    return preset.model_dump(mode="json", exclude_unset=True)


def preset_from(values: Mapping[str, Any], title: str) -> Preset:
    """The preset that a job has for an agent. Raises UsageError for one that nobody could have kept so."""
    return _validated(dict(values), f"the preset of the agent {title!r}")


def _validated(values: dict[str, Any], source: str) -> Preset:
    try:
        # As JSON, because strict types take an array for a tuple only there.
        return Preset.model_validate_json(json.dumps(plain(values)))
    except ValidationError as error:
        raise UsageError("\n".join(_complaints(error, source))) from error
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{source}: not the values of a preset: {error}") from error


def _complaints(error: ValidationError, source: str) -> Iterator[str]:
    for problem in error.errors():
        key = ".".join(map(str, problem["loc"]))
        message = problem["msg"].removeprefix("Value error, ").replace("Input should be", "expected")
        found = repr(problem["input"])
        shown = f", found {found[:_SHOWN]}" if key and problem["type"] != "missing" else ""
        yield ": ".join(part for part in (source, key, message) if part) + shown


def _folders(folder: Path | None) -> list[Path]:
    named = [Path(each) for each in os.environ.get(FOLDERS_VARIABLE, "").split(os.pathsep) if each]
    settings = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111 - there may be no home
    return [*([folder] if folder else []), *named, Path(settings) / "seatrial" / "agents"]


def _files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("[!.]*.toml") if path.is_file())


def _other_name(name: str, folder: Path | None) -> Preset | None:
    """The preset in a user's folders that has a name as another one."""
    for path in (path for each in _folders(folder) for path in _files_in(each)):
        if name in (preset := read_preset(path)).aliases:
            return preset.model_copy(update={"source": str(path.absolute())})
    return None


def _of_plugin(name: str, registered: Any) -> Preset:
    """What an entry point stands for: a preset, the path of one, or a function that returns either."""
    try:
        found = registered() if callable(registered) else registered
    except Exception as error:  # a stranger's plug-in may fail in any way
        raise UsageError(f"the preset {name!r} of an entry point fails: {type(error).__name__}: {error}") from error
    if isinstance(found, Preset):
        return found.model_copy(update={"source": f"the entry point {name!r}"})
    if isinstance(found, str | Path):
        return read_preset(Path(found)).model_copy(update={"source": str(found)})
    raise UsageError(
        f"the entry point {name!r} of {ENTRY_POINTS} gives {found!r:.80}, expected a seatrial.model.preset.Preset or "
        "the path of a TOML file; tell its authors"
    )


@lru_cache
def _shipped(name: str) -> Preset | None:
    if is_shipped(name):
        return read_preset(_SHIPPED / f"{name}.toml")
    presets = map(read_preset, sorted(_SHIPPED.glob("*.toml")))
    return next((preset for preset in presets if name in preset.aliases), None)
