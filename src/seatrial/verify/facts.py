"""What a change to the system is compared with: things of the image, words of the task, needs of the verifier.

A file of the agent that stands in front of a thing of the image takes its place (`SystemFacts`), unless the task talks
about it (`Named`); what the verifier installs must not be the agent's (`VerifierNeeds`). `rules.py` and
`python_rules.py` decide.
"""

import ast
import posixpath
import re
import sys
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Literal

from seatrial.sandbox.api import DEFAULT_PATH, Image

# The image: where its tools look for programs, libraries, modules and settings.

Names = Mapping[str, frozenset[str]]
"""Folders, with the names of what is in each."""

HOME = "/root"
SITE_FOLDERS = ("site-packages", "dist-packages")
_USUAL = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/etc")
_BELOW_USUAL = tuple(f"{folder}/" for folder in _USUAL)
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
    return _folders_of(image.config.env.get("PATH", ""))


@lru_cache(maxsize=64)
def _folders_of(path: str) -> tuple[str, ...]:
    own = path.split(":")
    found = (posixpath.normpath(folder) for folder in (*own, *DEFAULT_PATH.split(":")) if folder.startswith("/"))
    return tuple(dict.fromkeys(found))


def system_folders(image: Image, workdir: str) -> tuple[str, ...]:
    """Folders beyond the usual ones that hold programs of an image, such as an environment of Python.

    A folder of programs stands for the whole that it belongs to, unless that is where people work.
    """
    work = {*_WORK_FOLDERS, workdir.rstrip("/")}
    found = []
    for folder in program_folders(image):
        if f"{folder}/".startswith(_BELOW_USUAL):
            continue
        parent, _, name = folder.rpartition("/")
        is_part = name in ("bin", "sbin") and parent not in work and posixpath.dirname(parent) != "/home"
        found.append(parent if is_part else folder)
    return tuple(dict.fromkeys(folder for folder in found if folder not in work))


@dataclass(frozen=True)
class SystemFacts:
    """Names of what an image has where tools look for things by themselves."""

    program_folders: tuple[str, ...] = tuple(DEFAULT_PATH.split(":"))
    programs: frozenset[str] = frozenset()
    libraries: frozenset[str] = frozenset()
    python: Names = field(default_factory=dict)
    """The folders on an interpreter's path."""
    modules: frozenset[str] = frozenset()
    """What other interpreters load."""
    settings: frozenset[str] = frozenset()
    """Entries of /etc."""
    asked_for: frozenset[str] = frozenset()
    """Modules that Python is told to load at its start."""

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


# The task: files, folders and programs that its instruction and task.toml name. Those are the agent's to change.

_PATH = re.compile(r"(?<![\w/.:-])(~|\$HOME|\$\{HOME\})?(/[\w.@+%~-]+(?:/[\w.@+%~*-]+)*)")
_WORD = re.compile(r"[A-Za-z0-9_.][\w.+-]*")
_SHORTEST = 3
# Whoever names one of these means something in it, not all of it.
_TOO_WIDE = frozenset(
    """
    /usr /usr/bin /usr/sbin /usr/lib /usr/lib64 /usr/libexec /usr/share /usr/local /usr/local/bin /usr/local/sbin
    /usr/local/lib /usr/local/share /usr/local/etc /bin /sbin /lib /lib64 /etc /opt /root /home /var /var/lib
    /var/cache /root/.local /root/.local/bin /root/.local/lib /root/.config /root/.cache
    """.split()  # noqa: SIM905 - paths read better as text
)


_SENTENCE = re.compile(r"[.!?]\s|\n")
# Whoever talks about one of these means what stands beside it: "requests" alone may be anything.
_PACKAGE = re.compile(
    r"\b(?:pip3?|uv|conda|poetry|npm|(?:re|un)?install\w*|remov\w*|upgrad\w*|downgrad\w*|updat\w*|patch\w*|packages?|librar\w+"
    r"|modules?|dependenc\w+|versions?|distributions?|site-packages|dist-packages)\b",
    re.IGNORECASE,
)
_MAKE = (
    r"\b(?:write|create|implement|build|develop|make)\s+(?:a|an|your|our|the)\s+(?:(?:own|new|small|simple|python)\s+)*"
)
_KIND = r"(?:modules?|packages?|librar(?:y|ies))\b"
# "Write a calendar module", "create a package called `calendar`": one that is used is not written.
_MADE = (
    re.compile(rf"{_MAKE}[`'\"]?(\w+)[`'\"]?\s+(?:python\s+)?{_KIND}", re.IGNORECASE),
    re.compile(rf"{_MAKE}{_KIND}\s+(?:called|named)\s+[`'\"]?(\w+)", re.IGNORECASE),
)
# A short name may be any word, unless it is written as code or follows what is done with packages.
_MARKED = re.compile(
    r"`([^`\n]+)`"
    r"|\b(?:(?:re|un)?install|apk add|upgrade|downgrade|remove)\s+(?:(?:the|latest|package|tool)\s+)*([\w.+-]+)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Named:
    """What some texts name: absolute paths, words in small letters, and packages."""

    paths: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    packages: frozenset[str] = frozenset()
    """The parts of a package's name count as well: who talks about python3-pip talks about pip."""
    made: frozenset[str] = frozenset()
    """Modules that are to be written."""

    def has_file(self, path: str) -> bool:
        """Whether this very file is named by its path."""
        return path in self.paths

    def has_folder_of(self, path: str, within: str = "") -> bool:
        """Whether a folder that the file lies in, `within` another, is named: one that is narrow enough to mean it."""
        folder = posixpath.dirname(path)
        while folder.strip("/") and folder != within:
            if folder in self.paths and folder not in _TOO_WIDE:
                return True
            folder = posixpath.dirname(folder)
        return False

    def has_word(self, word: str) -> bool:
        """Whether a word, such as the name of a program or a file, is used."""
        return len(word) >= _SHORTEST and word.lower() in self.words

    def has_package(self, name: str) -> bool:
        """Whether a package of that name is talked about as one."""
        return name.lower() in self.packages

    def has_program(self, name: str) -> bool:
        """Whether a program is named, by itself or as a package."""
        return self.has_word(name) or self.has_package(name)

    def is_to_be_made(self, module: str) -> bool:
        """Whether somebody is asked for a module of that name."""
        return module.lower() in self.made


def find_named(texts: Iterable[str]) -> Named:
    paths: set[str] = set()
    words: set[str] = set()
    packages: set[str] = set()
    made: set[str] = set()
    for text in texts:
        for home, path in _PATH.findall(text):
            paths.add(posixpath.normpath((HOME if home else "") + path.rstrip(".*")))
        words.update(_words(text))
        for sentence in filter(_PACKAGE.search, _SENTENCE.split(text)):
            packages.update(_packages(sentence))
        made.update(word.lower() for pattern in _MADE for word in pattern.findall(text))
    return Named(frozenset(paths), frozenset(words), frozenset(packages), frozenset(made))


def _words(text: str) -> set[str]:
    return {word.lower().rstrip(".") for word in _WORD.findall(text)}


def _packages(sentence: str) -> set[str]:
    """The words of a sentence about packages that may be names of some, and the parts of those."""
    marked = {word for found in _MARKED.findall(sentence) for word in _words(" ".join(found))}
    words = {word for word in _words(sentence) if len(word) >= _SHORTEST}
    parts = {part for word in words for part in word.split("-") if len(part) >= _SHORTEST}
    return marked | words | parts


# The verifier: what its scripts install before they grade. An installer that finds the name taken leaves it as it is.

_CONTINUED = re.compile(r"\\\n")
_INSTALL = re.compile(
    r"\b(apt-get|apt|aptitude|dpkg|apk|dnf|yum|pip3?|uv|pipx|npm|conda|mamba|gem|brew)\b[^;&|\n]*?"
    r"\s(?:install|add|i|-i)\b([^;&|\n]*)"
)
_UVX = re.compile(r"\b(uvx|uv\s+tool\s+run|uv\s+run)\b([^;&|\n]*)")
_UV_INSTALLER = re.compile(r"astral\.sh/uv")
_GOES_TO = re.compile(r"\b(?:cd|pushd)\s+(?:--\s+)?[\"']?((?:\$\{?\w|[\w./@+])[\w./@+:${}-]*)")
_ASSIGNED = re.compile(r"^\s*(?:export\s+|readonly\s+|local\s+)?(\w+)=[\"']?([\w./@+:${}-]*)", re.MULTILINE)
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::?-([\w./@+-]*))?\})")
_PYTHON_PATH = re.compile(r"\bPYTHONPATH=([\"']?[^\s;&|\"']+)")
_DEEPEST = 20
_NAME = re.compile(r"[A-Za-z][\w.-]*")
_OF_PYTHON = ("pip", "pip3", "uv", "pipx", "conda", "mamba")
_PACKAGES = ("apt-get", "apt", "aptitude", "dpkg")
# pytest and what it is made of: nobody installs its parts by name.
RUNNER = frozenset({"pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "exceptiongroup", "py"})


@dataclass(frozen=True, slots=True)
class VerifierNeeds:
    """What a verifier installs, by names in small letters, and where it works."""

    installs: frozenset[str] = frozenset()
    modules: frozenset[str] = frozenset()
    """What Python's installers get, by the names in which distributions are compared."""
    uses_packages: bool = False
    """Whether it uses the packages of the distribution."""
    folders: frozenset[str] = frozenset()
    """Where its scripts have Python look for modules; if not absolute, from where the verifier starts."""


def find_needs(scripts: Iterable[str]) -> VerifierNeeds:
    found: set[str] = set()
    modules: set[str] = set()
    folders: set[str] = set()
    uses_packages = False
    for script in scripts:
        text = _CONTINUED.sub(" ", script)
        paths = [path.strip("\"'") for paths in _PYTHON_PATH.findall(text) for path in paths.split(":")]
        folders.update(_gone_to(text), (posixpath.normpath(path) for path in paths if path.startswith("/")))
        for match in _INSTALL.finditer(text):
            uses_packages |= match[1] in _PACKAGES
            found.update(_names(match[2]))
            modules.update(_names(match[2]) if match[1] in _OF_PYTHON else ())
        for match in _UVX.finditer(text):
            found.update(_names(match[2]))
            modules.update(_names(match[2]) if match[1].split() != ["uv", "run"] else ())
        if _UV_INSTALLER.search(text):
            found.update(("uv", "uvx"))
    plain = frozenset(map(plain_name, modules))
    return VerifierNeeds(frozenset(found), plain, uses_packages, frozenset(folders - {"/"}))


def _gone_to(script: str) -> Iterator[str]:
    """The folders that a shell script goes to, one from the other; those that depend on what it finds are left out."""
    known: dict[str, str] = {}
    for name, value in _ASSIGNED.findall(script):
        if "$" not in (plain := _with_variables(value, known)):
            known.setdefault(name, plain)
    current = ""
    for match in _GOES_TO.finditer(script):
        folder = _with_variables(match[1], known)
        if "$" not in folder:
            current = posixpath.normpath(posixpath.join(current, folder))
            yield current


def _with_variables(text: str, known: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda match: known.get(match[1] or match[2], match[3] or "$"), text)


def folders_in_python(code: str) -> frozenset[str]:
    """The folders that Python code goes to or starts programs in, as far as it names them."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    known: dict[str, str] = {}
    found: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            known.setdefault(node.targets[0].id, _path(node.value, known) or "")
        elif isinstance(node, ast.Call):
            found += [each.value for each in node.keywords if each.arg == "cwd"]
            found += node.args[:1] if isinstance(node.func, ast.Attribute) and node.func.attr == "chdir" else []
    return frozenset(posixpath.normpath(path) for each in found if (path := _path(each, known)))


def _path(node: ast.expr, known: Mapping[str, str], depth: int = 0) -> str | None:
    """The path that an expression plainly stands for."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.Call) and node.args and depth < _DEEPEST:
        return _path(node.args[0], known, depth + 1)  # Path("…") or str(…)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and depth < _DEEPEST:
        parts = [_path(each, known, depth + 1) for each in (node.left, node.right)]
        return posixpath.join(*filter(None, parts)) if all(parts) else None
    return None


def _names(arguments: str) -> Iterator[str]:
    for word in arguments.split():
        name = _NAME.match(word.strip("\"'"))
        if name and not word.startswith("-"):
            yield name[0].lower()


# Changes, what they are compared with, and the reasons against them.

Kind = Literal["added", "modified", "removed"]
Reason = Literal[
    "of the image",
    "loaded by itself",
    "in front of the image's",
    "a tool of the verifier",
    "not named",
    "not in the task's folders",
]

HOOKS = frozenset({"sitecustomize", "usercustomize"})
# The standard library asks for these in vain: they belong to other machines and other implementations of Python.
FOREIGN_MODULES = frozenset(
    """
    org java vms_lib _winreg win32api win32con win32evtlogutil msvcrt nt winreg winsound _winapi _overlapped _msi
    _scproxy
    """.split()  # noqa: SIM905 - names read better as text
)
PYTHON = re.compile(r"python[\d.]*")
# What verifiers are written with. Where the image has none, one that nobody talks about is not the agent's to bring.
TOOLS = frozenset(
    """
    sh bash dash busybox env node npm npx perl pytest py.test uv uvx pip pip3 awk gawk mawk bc cmp curl diff egrep
    fgrep file find git grep jq kill nc openssl pgrep pkill ps sed ss tar unzip wget xargs xxd gzip gunzip zcat [
    b2sum base64 basename cat chmod chown cksum comm cp cut date dd df dirname du echo expr false fold head hostname
    id install join ln ls md5sum mkdir mkfifo mktemp mv nl nproc od paste printenv printf pwd readlink realpath rm
    rmdir seq sha1sum sha256sum sha512sum sleep sort split stat sum sync tac tail tee test timeout touch tr true
    truncate uname uniq wc which whoami yes
    """.split()  # noqa: SIM905 - a hundred quotes would hide the names
)


def is_tool(program: str) -> bool:
    return program in TOOLS or PYTHON.fullmatch(program) is not None


@dataclass(frozen=True, slots=True)
class Change:
    """One file that differs from the image."""

    path: str
    kind: Kind


ACCOUNTS = "/etc/passwd"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a change is compared with."""

    facts: SystemFacts = field(default_factory=SystemFacts)
    named: Named = field(default_factory=Named)
    needs: VerifierNeeds = field(default_factory=VerifierNeeds)
    workdir: str = "/app"
    texts: Mapping[str, str] = field(default_factory=dict)
    """The content of small files that tools load by themselves."""
    replaced: frozenset[str] = frozenset()
    """Entries, in folders of Python packages, of distributions of which the agent installed another version."""
    added_files: frozenset[str] = frozenset()
    """All that the agent added, anywhere."""
    shadows: frozenset[str] = frozenset()
    """Added files that stand in front of others."""
    folders: frozenset[str] = frozenset()
    """Folders of the image in which something was added."""
    homes: tuple[str, ...] = (HOME,)
    """The home folders of the verifier's users."""
    accounts: str | None = None
    """Replacement text of /etc/passwd."""
    plain_files: frozenset[str] = frozenset()
    """Added files beside the work that have no suffix and are not links."""
    importable: Container[str] = frozenset()
    """Modules that an interpreter of the image has, besides those of every standard library."""
    originals: Mapping[str, str] = field(default_factory=dict)
    """What changed settings of homes said before."""


# Small files that tools load by themselves: harmless or not, by their content.

_PATH_LINE = re.compile(r"/[\w./@+-]+")
_EDITABLE = re.compile(r"import (__editable___\w+_finder); ?\1\.install\(\)")
_MAPPING = re.compile(r"^MAPPING(?:\s*:[^=\n]+)?\s*=\s*\{([^{}]*)\}", re.MULTILINE)
_MAPPED = re.compile(r"[\"']([A-Za-z_]\w*)[\"']\s*:\s*[\"']([^\"'\\]+)[\"']")
_PLUGIN_GROUP = re.compile(r"(?:pytest11|hypothesis|setuptools\.\w+|distutils\.\w+)")
_SECTION = re.compile(r"\[\s*([A-Za-z0-9.-]+)(?:\s+\"[^\"]*\")?\s*\]")
# Of git's settings, those that name no program and no other file.
_HARMLESS_GIT = {
    "user": ("name", "email"),
    "safe": ("directory",),
    "init": ("defaultbranch",),
    "core": ("autocrlf", "filemode", "quotepath", "ignorecase"),
    "pull": ("rebase", "ff"),
    "push": ("default", "autosetupremote"),
    "commit": ("gpgsign",),
    "color": ("ui",),
    "advice": ("detachedhead", "defaultbranchname"),
    "merge": ("conflictstyle", "ff"),
    "rebase": ("autostash",),
}


def is_harmless_path_file(text: str | None) -> bool:
    """Whether a `.pth` file only adds folders to Python's path, as an editable installation does, and runs nothing."""
    if text is None:
        return False
    lines = [line.strip() for line in text.splitlines()]
    return all(not line or line.startswith("#") or _PATH_LINE.fullmatch(line) for line in lines)


def path_folders(text: str | None) -> frozenset[str]:
    lines = (line.strip() for line in (text or "").splitlines())
    return frozenset(posixpath.normpath(line) for line in lines if _PATH_LINE.fullmatch(line))


_IMPORT = re.compile(r"(?:^|;)[ \t]*(?:import|from)[ \t]+([A-Za-z_]\w*)", re.MULTILINE)


def imported_modules(text: str) -> frozenset[str]:
    return frozenset(_IMPORT.findall(text))


def editable_folders(text: str | None, finder: str | None) -> dict[str, str] | None:
    """The packages, with the folders they are in, that a pair of files of an editable installation stands for.

    Installers write such a pair where one line with a folder will not do: a `.pth` that runs code, and the code. None
    for any other.
    """
    if (
        text is None
        or finder is None
        or not _EDITABLE.fullmatch(text.strip())
        or not (found := _MAPPING.search(finder))
    ):
        return None
    packages = dict(_MAPPED.findall(found[1]))
    is_plain = all(path.endswith(f"/{name}") and _PATH_LINE.fullmatch(path) for name, path in packages.items())
    return {name: path.removesuffix(f"/{name}") for name, path in packages.items()} if packages and is_plain else None


def announces_plugins(text: str | None) -> bool:
    """Whether `entry_points.txt` has a test runner or a build tool load code by itself."""
    if text is None:
        return True
    # As importlib reads it, which takes brackets off in any number and ends a line at any kind of end.
    groups = (line.strip().strip("[]").strip() for line in text.splitlines() if line.strip().startswith("["))
    return any(_PLUGIN_GROUP.fullmatch(group) for group in groups)


def is_harmless_git_config(text: str | None) -> bool:
    if text is None:
        return False
    section = ""
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith(("#", ";")):
            continue
        if match := _SECTION.fullmatch(line):
            section = match[1].lower()
        elif line.partition("=")[0].strip().lower() not in _HARMLESS_GIT.get(section, ()) or line.endswith("\\"):
            return False
    return True
