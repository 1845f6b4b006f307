"""What of an environment's code goes along to other machines: modules that were loaded from files of this one."""

import sys
import sysconfig
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seatrial.env.environment import Environment

_INSTALLED = ("site-packages", "dist-packages")
_OF_PYTHON = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}


def modules_of(environment: "Environment") -> list[ModuleType]:
    """The modules of an environment and of its reward functions, and those beside them, but no installed one."""
    kinds = [type(environment), *environment.rubric.get_reward_funcs()]
    names = {str(getattr(kind, "__module__", "")).partition(".")[0] for kind in kinds} - {"seatrial", "__main__"}
    folders = {path.parent for name in names if (path := _file_of(sys.modules.get(name))) is not None}
    return [module for module in [*sys.modules.values()] if _lies_in(folders, _file_of(module))]


class StandIn:
    """Unpickled, it has `import verifiers` give Seatrial there. It goes before what may import it."""

    def __reduce__(self) -> tuple[object, tuple[()]]:
        return stand_in, ()


def stand_in() -> StandIn:
    """Do as the compat import does."""
    import_module("seatrial.compat.verifiers").install()  # by its name: it stands above this layer
    import_module("seatrial.compat.finder").behave_alike(alike=True)
    return StandIn()


def _file_of(module: ModuleType | None) -> Path | None:
    """The file of a module, where it is no part of Python or of an installed package."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or any(part in _INSTALLED for part in Path(file).parts):
        return None
    return None if any(Path(file).is_relative_to(folder) for folder in _OF_PYTHON) else Path(file)


def _lies_in(folders: set[Path], file: Path | None) -> bool:
    """Whether a file is in one of the folders; below one only where that is a package."""
    if file is None:
        return False
    return any(
        file.parent == folder or ((folder / "__init__.py").is_file() and folder in file.parents) for folder in folders
    )
