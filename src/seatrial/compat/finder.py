"""The finder behind `import verifiers`: modules that are empty at first and look names up when they are asked for.

It is apart from `compat.verifiers`, which also runs as a program: its classes would be there twice.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from seatrial.compat.table import IMPORTABLE, absent_module, absent_name, names_of, plain_name, resolve

VERSION = "0.3.1+seatrial"
"""The version of verifiers whose names are known; behind the plus, whose they are."""


class CompatModule(ModuleType):
    """One of the modules that stand where those of verifiers would be."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__all__ = names_of(name)
        if name == "verifiers":
            self.__version__ = VERSION

    def __getattr__(self, name: str) -> object:
        """A name of ours, or a module below this one. Raises NameNotHereError, which is an AttributeError."""
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        below = f"{self.__name__}.{name}"
        if _known(below):
            return import_module(below)
        value = resolve(self.__name__, name)
        behave_alike(alike=True)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.__all__})


class CompatFinder(MetaPathFinder, Loader):
    """Goes before all others, so that ours win where the real package is installed too."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module of a name. Raises ModuleNotHereError for one of verifiers that is not ours."""
        if fullname.partition(".")[0] != "verifiers":
            return None
        if _known(fullname):
            # Every one is a package: only then does `from verifiers.x import Y` ask here before it gives up.
            return ModuleSpec(fullname, self, is_package=True)
        parent, _, name = fullname.rpartition(".")
        raise (absent_name(parent, name) if name[:1].isupper() else absent_module(fullname)).as_import_error()

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return CompatModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: names are looked up when they are asked for."""


def behave_alike(*, alike: bool) -> None:
    """Say whether environments, once there are any, do as those of verifiers where ours do otherwise.

    Keywords that nothing takes become attributes, and a model has the word once more before a stop condition that
    `env_response` has brought about is seen.
    """
    if (environments := sys.modules.get("seatrial.env.environment")) is not None:
        environments.Environment.keeps_unknown = alike
    if (conversations := sys.modules.get("seatrial.env.turns")) is not None:
        conversations.MultiTurnEnv.asks_once_more = alike


def is_ours(module: object) -> bool:
    return isinstance(module, CompatModule)


def _known(fullname: str) -> bool:
    return plain_name(fullname) in IMPORTABLE
