"""What an image has where tools look for things by themselves: programs, libraries, modules, settings.

What the agent added is judged beside it: something that stands in front of a thing of the image takes its place.
"""

import posixpath
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from seatrial.sandbox.api import DEFAULT_PATH, Image

Names = Mapping[str, frozenset[str]]
"""Folders, with the names of what is in each."""

HOME = "/root"
SITE_FOLDERS = ("site-packages", "dist-packages")
_USUAL = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/etc")
_PREFIXES = ("", "/usr", "/usr/local")
_LIBRARIES = ("lib", "lib64", "lib32")
_TRIPLET = re.compile(r"\w+-linux-\w+")
_PYTHON = re.compile(r"python3(?:\.\d+)?t?")
_PYTHON_PARTS = ("", "/lib-dynload", *(f"/{name}" for name in SITE_FOLDERS))
# Where other interpreters look for modules, by the last parts of a folder's path; numbers are versions.
_OTHER_MODULES = re.compile(r".*/(?:perl5?|site_perl|perl-base|ruby|site_ruby|vendor_ruby)(?:/\d[\d.]*)?|/etc/perl")
_MODULE_PARENTS = re.compile(r".*/(?:share|lib|lib64|ruby|perl5?|site_ruby|vendor_ruby|\w+-linux-\w+)")
_MODULE_FOLDERS = frozenset({"perl", "perl5", "perl-base", "site_perl", "ruby", "site_ruby", "vendor_ruby"})
_VERSION = re.compile(r"\d[\d.]*")
# A folder of programs directly in one of these is only itself: what lies beside it is the agent's to work on.
_WORK_FOLDERS = frozenset(
    ("", "/app", "/workspace", "/work", "/home", HOME, "/tmp", "/srv", "/var", "/data", "/src", "/repo")  # noqa: S108 - names of folders inside, where nothing is written
)

# Packages of such names come along with others by mistake, and people call their own so.
_USUAL_NAMES = frozenset(
    """
    app api build bin cli client common conf config core data db demo doc docs example examples helpers lib main models
    run scripts server setup solution solve src test tests tool tools util utils benchmark benchmarks
    """.split()  # noqa: SIM905 - names read better as text
)


def program_folders(image: Image) -> tuple[str, ...]:
    """The folders in which commands of an image are looked for, those of the usual PATH included."""
    own = image.config.env.get("PATH", "").split(":")
    found = (posixpath.normpath(folder) for folder in (*own, *DEFAULT_PATH.split(":")) if folder.startswith("/"))
    return tuple(dict.fromkeys(found))


def system_folders(image: Image, workdir: str) -> tuple[str, ...]:
    """Folders beyond the usual ones that hold programs of an image, such as an environment of Python.

    A folder of programs stands for the whole that it belongs to, unless that is where people work.
    """
    work = {*_WORK_FOLDERS, workdir.rstrip("/")}
    found = []
    for folder in program_folders(image):
        if f"{folder}/".startswith(tuple(f"{usual}/" for usual in _USUAL)):
            continue
        parent, _, name = folder.rpartition("/")
        is_part = name in ("bin", "sbin") and parent not in work and posixpath.dirname(parent) != "/home"
        found.append(parent if is_part else folder)
    return tuple(dict.fromkeys(folder for folder in found if folder not in work))


@dataclass(frozen=True)
class SystemFacts:
    """Names of what an image has.

    `python` are the folders on an interpreter's path, with the names in each; `modules` the names of what other
    interpreters load; `settings` those in /etc; `asked_for` those of modules that Python is told to load at its start.
    """

    program_folders: tuple[str, ...] = tuple(DEFAULT_PATH.split(":"))
    programs: frozenset[str] = frozenset()
    libraries: frozenset[str] = frozenset()
    python: Names = field(default_factory=dict)
    modules: frozenset[str] = frozenset()
    settings: frozenset[str] = frozenset()
    asked_for: frozenset[str] = frozenset()

    @cached_property
    def python_modules(self) -> frozenset[str]:
        """The names of all Python modules and packages of the image."""
        return frozenset(module_name(name) for names in self.python.values() for name in names)

    @cached_property
    def importable(self) -> frozenset[str]:
        """The names of Python modules and packages of the image, without those that people use for their own."""
        return frozenset(name for name in self.python_modules if name.isidentifier()) - _USUAL_NAMES

    @cached_property
    def places(self) -> frozenset[str]:
        """The folders in which programs or Python modules are looked for, and those that lead to them."""
        found = {*self.program_folders, *self.python}
        while above := {posixpath.dirname(folder) for folder in found} - found:
            found |= above
        return frozenset(found)

    @cached_property
    def packages(self) -> frozenset[str]:
        """The names of all modules and distributions of the image that were installed, not those that Python brings."""
        entries = [name for folder, names in self.python.items() if folder.endswith(SITE_FOLDERS) for name in names]
        installed = frozenset(distribution_name(name) or module_name(name) for name in entries)
        return installed - sys.stdlib_module_names

    @cached_property
    def distributions(self) -> frozenset[str]:
        """The names of all Python distributions of the image, in the form in which they are compared."""
        entries = (name for names in self.python.values() for name in names)
        return frozenset(name for name in map(distribution_name, entries) if name)


def module_name(entry: str) -> str:
    """The module that an entry of a folder of modules is: `json`, `six.py` and `_x.cpython-311-x86_64.so` alike."""
    return entry.partition(".")[0]


_METADATA = re.compile(r"(.+?)(?:-\d[^-]*)?(?:-py\d[^/]*)?\.(?:dist-info|egg-info|egg|egg-link)", re.IGNORECASE)


def distribution_name(entry: str) -> str | None:
    """The distribution whose metadata an entry holds, whatever its letters and dashes; None for anything else."""
    match = _METADATA.fullmatch(entry)
    return plain_name(match[1]) if match else None


def plain_name(name: str) -> str:
    """The form in which names of distributions are compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def is_of_other_modules(folder: str) -> bool:
    """Whether an interpreter other than Python looks for modules in a folder."""
    return _OTHER_MODULES.fullmatch(folder) is not None


_PYTHON_HOME = re.compile(rf"(/.+/lib(?:64)?/{_PYTHON.pattern})/(?:(lib-dynload|site-packages|dist-packages)/)?.+")


def python_folders_of(paths: Iterable[str]) -> frozenset[str]:
    """The folders that look as if they were on Python's path, wherever, in which some files are."""
    matches = (_PYTHON_HOME.fullmatch(path) for path in paths)
    return frozenset(f"{match[1]}/{match[2]}" if match[2] else match[1] for match in matches if match)


def startup_files(python: Names) -> frozenset[str]:
    """The files of an image that Python runs at its start."""
    hooks = ("sitecustomize.py", "usercustomize.py")
    found = {
        f"{folder}/{name}"
        for folder, names in python.items()
        for name in names
        if name in hooks or (name.endswith(".pth") and posixpath.basename(folder) in SITE_FOLDERS)
    }
    versions = {part for folder in python for part in folder.split("/") if _PYTHON.fullmatch(part)}
    return frozenset(found | {f"/etc/{version}/{name}" for version in versions for name in hooks})


def first_to_list(folders: Sequence[str]) -> frozenset[str]:
    """The folders whose names tell where everything else is, for those in which programs are."""
    beside = {posixpath.dirname(folder) for folder in folders if posixpath.basename(folder) in ("bin", "sbin")}
    libraries = {f"{prefix.rstrip('/')}/{name}" for prefix in (*_PREFIXES, *beside) for name in _LIBRARIES}
    return frozenset(
        {*folders, *libraries, "/etc", "/etc/perl", "/usr/share", "/usr/local/share", f"{HOME}/.local/lib"}
    )


def more_to_list(names: Names) -> frozenset[str]:
    """The folders to list next, once some are known: those of modules, and of libraries for one kind of machine."""
    found: set[str] = set()
    for folder, entries in names.items():
        if posixpath.basename(folder) in _LIBRARIES:
            found.update(f"{folder}/{entry}" for entry in entries if _TRIPLET.fullmatch(entry))
        if _MODULE_PARENTS.fullmatch(folder):
            found.update(f"{folder}/{entry}" for entry in entries if entry in _MODULE_FOLDERS)
        if posixpath.basename(folder) in _MODULE_FOLDERS:
            found.update(f"{folder}/{entry}" for entry in entries if _VERSION.fullmatch(entry))
    homes = {entry for entries in names.values() for entry in entries if _PYTHON.fullmatch(entry)}
    libraries = [folder for folder in names if posixpath.basename(folder) in _LIBRARIES]
    found.update(f"{folder}/{home}{part}" for folder in libraries for home in homes for part in _PYTHON_PARTS)
    return frozenset(found - names.keys())


def make_facts(folders: Sequence[str], names: Names) -> SystemFacts:
    """What the listed folders come to."""
    libraries = [folder for folder in names if _is_of_libraries(posixpath.basename(folder))]
    return SystemFacts(
        program_folders=tuple(folders),
        programs=frozenset(name for folder in folders for name in names.get(folder, ())),
        libraries=frozenset(name for folder in libraries for name in names[folder] if ".so" in name),
        python={folder: entries for folder, entries in names.items() if _is_of_python(folder)},
        modules=frozenset(
            name
            for folder in names
            if is_of_other_modules(folder)
            for name in names[folder]
            if not _VERSION.fullmatch(name)  # a folder of modules itself
        ),
        settings=names.get("/etc", frozenset()),
    )


def _is_of_libraries(name: str) -> bool:
    return name in _LIBRARIES or _TRIPLET.fullmatch(name) is not None


def _is_of_python(folder: str) -> bool:
    *_, above, last = folder.split("/")
    return bool(_PYTHON.fullmatch(last)) or (bool(_PYTHON.fullmatch(above)) and f"/{last}" in _PYTHON_PARTS)
