"""Where on the disk the module of an environment is: a Python file, or a folder laid out as packages usually are."""

import importlib.util
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import tomli

from seatrial.errors import UsageError

FUNCTION = "load_environment"

_DEFINES = re.compile(rf"^(async\s+)?def {FUNCTION}\b|\bimport\b.*\b{FUNCTION}\b|^{FUNCTION}\s*=", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ModuleFile:
    """A module, and the folder from which its own imports are to work."""

    name: str
    path: Path

    @property
    def root(self) -> Path:
        """The folder that holds the module or the package."""
        return self.path.parent.parent if self.path.name == "__init__.py" else self.path.parent


def module_name(name: str) -> str:
    """What the module of an environment is called: dashes are underscores, and an owner before a slash is left out."""
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
