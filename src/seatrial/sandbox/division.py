"""Which part of a sandbox's files is the system that a verifier builds on, and which part is shared with the agent."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

Test = Callable[[str], bool]

HOME = "root"
DOT_ENTRIES = "/.*"
VERIFIER_TMP = "/verifier-tmp"
"""The verifier's temporary folder. Tools look for settings upwards from where they work, and above it is only `/`."""
# The last one because node looks for modules upwards from wherever a script is.
_SYSTEM = frozenset(("usr", "etc", "opt", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "node_modules"))


class Division(NamedTuple):
    """How a root is divided.

    `parts` are folders of which some entries are the system's, parents first, each with a test of its entries' names;
    the root is the one without a name. `covered` are folders of the system inside of shared ones.
    """

    parts: dict[str, Test]
    covered: tuple[str, ...] = ()

    @property
    def copied(self) -> dict[str, Test]:
        """The same with the way to covered folders, for whoever copies all of the system."""
        found = dict(self.parts)
        for path in self.covered:
            names = path.split("/")
            for depth in range(1, len(names)):
                folder, name = "/".join(names[:depth]), names[depth]
                if depth == len(names) - 1:
                    found[folder] = _either(found.get(folder, _nothing), name)
                else:
                    found.setdefault(folder, _nothing)
        return found

    def is_system(self, path: str) -> bool:
        return any(True for _ in self.of_system([path]))

    def of_system(self, paths: Iterable[str]) -> Iterator[str]:
        parts = self.copied
        tops = {folder.partition("/")[0] for folder in parts if folder}
        for path in paths:
            names = [name for name in path.split("/") if name]
            if parts[""](names[0]) or (names[0] in tops and _is_in(names, parts)):
                yield path


def divide(workdir: str, more: Iterable[str] = ()) -> Division:
    """The division of a root. The task's own directory is shared as a whole, but for `more` folders of the system.

    One that ends in `/.*` stands for what begins with a dot in a folder, as the settings in a home do.
    """
    given = list(more)
    homes = [path.removesuffix(DOT_ENTRIES).strip("/") for path in given if path.endswith(DOT_ENTRIES)]
    extra = [path.strip("/") for path in given if not path.endswith(DOT_ENTRIES)]
    tops = frozenset(path for path in extra if path and "/" not in path)
    # Of these only some entries are the system's: the records of apt, and what programs keep in root's home.
    parts: dict[str, Test] = {
        "": lambda name: name in _SYSTEM or name in tops or is_dot(name),
        HOME: is_dot,
        "var": _nothing,
        "var/cache": ("apt", "debconf").__contains__,
        "var/lib": ("apt", "dpkg").__contains__,
    }
    for home in homes:
        names = home.split("/")
        parts |= {
            folder: _nothing for depth in range(1, len(names)) if (folder := "/".join(names[:depth])) not in parts
        }
        parts.setdefault(home, is_dot)
    taken = f"{workdir.strip('/')}/"
    division = Division({path: test for path, test in parts.items() if not path or not f"{path}/".startswith(taken)})
    for path in sorted(path for path in extra if "/" in path):
        division = division if division.is_system(path) else _with(division, path)
    return division


def _with(division: Division, path: str) -> Division:
    """The division with one more folder; inside of a partly shared one, what it lies in belongs to the system whole."""
    parts, names = division.parts, path.split("/")
    part = max((depth for depth in range(1, len(names)) if "/".join(names[:depth]) in parts), default=0)
    if not part:
        return division._replace(covered=(*division.covered, path))
    folder = "/".join(names[:part])
    return division._replace(parts={**parts, folder: _either(parts[folder], names[part])})


def _is_in(names: Sequence[str], parts: Mapping[str, Test]) -> bool:
    folders = ("/".join(names[:index]) for index in range(len(names)))
    return any(folder in parts and parts[folder](name) for folder, name in zip(folders, names, strict=True))


def is_dot(name: str) -> bool:
    """Whether tools keep their settings in an entry of that name."""
    return name.startswith(".")


def _nothing(_: str) -> bool:
    return False


def _either(test: Test, name: str) -> Test:
    return lambda entry: entry == name or test(entry)
