"""Which of the agent's changes to the system a verifier does not get to see, and why. Pure: names in, reasons out.

The rule is not a list of known takeovers. What a verifier's tools load comes from the image: files of the image are as
in the image, and what the agent added is there unless it is loaded by itself or stands in front of something.
Settings are the agent's where the task names them. Everything else about a task's system is honest work.
"""

import posixpath
import re
import sys
from collections.abc import Callable, Collection, Iterable

from seatrial.sandbox.sonames import UNKNOWN, is_searched
from seatrial.verify.facts import (
    ACCOUNTS,
    FOREIGN_MODULES,
    HOOKS,
    RUNNER,
    Change,
    Reason,
    Surroundings,
    announces_plugins,
    distribution_name,
    is_harmless_git_config,
    is_of_other_modules,
    is_tool,
    module_name,
    plain_name,
)
from seatrial.verify.python_rules import python_folder, why_not_python

# Settings: as the agent left them where the task names them, and for accounts, names and services; else the image's.

_ACCOUNTS = re.compile(
    r"/etc/(?:(?:passwd|group|shadow|gshadow|subuid|subgid)-?|\.pwd\.lock|hosts|hostname|crontab|cron\.[^/]+/.*|localtime|timezone"
    r"|machine-id|motd|issue|mailname|aliases|exports|fstab|init\.d/.*|rc.\.d/.*|systemd/.*|default/.*"
    r"|logrotate\.d/.*|sudoers(?:\.d/.*)?)"
)
_SERVICES = re.compile(r"/etc/(?:init\.d|rc.\.d|systemd|default)/.*")
# What programs of every image read: loaders, resolvers, shells, interpreters, whatever fetches and whatever checks.
_READ_BY_ALL = re.compile(
    r"(?:ld\.so|nsswitch|resolv|host\.conf|gai|environment|profile|bash|zsh|python|perl|security|pam|openssl|ssl|apt"
    r"|dpkg|login|inputrc|xdg|pip|uv|gitconfig|npmrc|wgetrc|curlrc|netrc|gss|krb5|terminfo|alternatives|locale).*"
)
# What decides which code is loaded: a task that names such a folder means one file in it. And certificates by hash.
_NEVER_BY_FOLDER = re.compile(r"/etc/(?:(?:ld\.so|apt|dpkg|pam|security|python|perl).*|.*/[0-9a-f]{8}\.r?\d+)")
_HOME_FILES = re.compile(
    r"\.(?:bash\w*|profile|zsh\w*|zprofile|zlogin|inputrc|gitconfig|curlrc|wgetrc|netrc|npmrc|yarnrc.*|pypirc|pydistutils\.cfg"
    r"|condarc|mambarc|gemrc|pdbrc|pythonrc.*|perltidyrc|vimrc|gdbinit|screenrc|tmux\.conf|Rprofile|Renviron)"
    r"|\.(?:config|pip|ipython|jupyter)/.*|\.cache/(?:uv|pip)/.*|\.ssh/(?:config|rc|environment)|\.local/bin/env(?:\.fish)?"
)


# Directly in the folder of a tool, or in a folder of settings there; deeper down are the things it works with.
_TOOL_SETTINGS = re.compile(
    r"\.([\w-]+)/(?:(?:config|conf|etc|[\w-]+\.d)/)?"
    r"(?:[\w-]*(?:config|settings?|init|env|startup|profile|rc)(?:\.\w+)?|[^/]+\.(?:conf|cfg|ini|toml|rc|d))"
)


def is_tool_setting(path: str) -> bool:
    """Whether a file in a dot folder, wherever, holds settings of the tool that the folder is called after."""
    folder = re.search(r"/(?=\.[^/]+/[^/])", path)
    return folder is not None and _TOOL_SETTINGS.fullmatch(path[folder.end() :]) is not None


def why_not_setting(change: Change, around: Surroundings) -> Reason | None:
    """Why a verifier must not meet a file of /etc as the agent left it; None when it may."""
    if change.path == ACCOUNTS and change.kind != "removed" and ACCOUNTS not in around.texts:
        return "of the image"  # a link, or larger than any such list
    return _why_not_named(change, around)


def _why_not_named(change: Change, around: Surroundings) -> Reason | None:
    path, named, name = change.path, around.named, posixpath.basename(change.path)
    top = path.split("/")[2]
    if named.has_file(path) or (_ACCOUNTS.fullmatch(path) and not _is_service_of_image(change)):
        return None
    if module_name(name) in HOOKS:
        return "loaded by itself"
    if top == "alternatives" and change.kind == "added":
        return None
    if _READ_BY_ALL.fullmatch(top):
        return None if change.kind == "added" and _is_meant_by_folder(path, around) else "not named"
    if named.has_folder_of(path) or named.has_word(name) or (top != name and named.has_word(top)):
        return None
    return None if change.kind == "added" and _is_of_new_program(top, around) else "not named"


def _is_meant_by_folder(path: str, around: Surroundings) -> bool:
    """Whether a task has files put into this very folder of settings that programs of every image read."""
    return around.named.has_file(posixpath.dirname(path)) and not _NEVER_BY_FOLDER.fullmatch(path)


def _is_service_of_image(change: Change) -> bool:
    """Whether a script that starts a service of the image is another now: whoever starts the service runs it."""
    return change.kind != "added" and _SERVICES.fullmatch(change.path) is not None


def _is_of_new_program(top: str, around: Surroundings) -> bool:
    """Whether an entry of /etc is one that nothing of the image reads."""
    facts = around.facts
    return top not in facts.settings and not any(top.startswith(name) for name in facts.programs if len(name) > 2)


def why_not_elsewhere(change: Change, around: Surroundings) -> Reason | None:
    """The same for settings of what was installed by hand."""
    named = around.named.has_file(change.path) or around.named.has_folder_of(change.path)
    return None if named else "not named"


def is_home_setting(inside: str, home: str, around: Surroundings) -> bool:
    """Whether tools read a file of a home as they start. Where people work at home, other dot files are theirs."""
    if "/" not in inside and around.workdir.rstrip("/") != home:
        return inside.startswith(".")
    return _HOME_FILES.fullmatch(inside) is not None or _is_of_tool(inside, around)


def _is_of_tool(inside: str, around: Surroundings) -> bool:
    """Whether a file in a dot folder holds settings of a program that the image has or the verifier installs."""
    match = _TOOL_SETTINGS.fullmatch(inside)
    if not match:
        return False
    tool = match[1].lower()
    return tool in around.needs.installs or any(name.startswith(tool) for name in around.facts.programs)


def why_not_home_setting(change: Change, around: Surroundings) -> Reason | None:
    """Why a verifier must not meet a setting of its home as the agent left it; None when it may."""
    path, named = change.path, around.named
    home = next((home for home in around.homes if path.startswith(f"{home}/")), "")
    is_named = named.has_file(path) or named.has_folder_of(path, within=home)
    if is_named or named.has_word(posixpath.basename(path)):
        return None
    is_git = posixpath.basename(path) == ".gitconfig" and change.kind != "removed"
    return None if is_git and is_harmless_git_config(around.texts.get(path)) else "not named"


# The system: `why_not` picks one rule by where a file is.

_INTERPRETER_FILE = re.compile(r"pyvenv\.cfg|pybuilddir\.txt|.*\._?pth")
_LOADED_BY_ITSELF = re.compile(
    r".*/lib(?:64)?/python\d+\.zip(?:/.*)?"
    r"|.*/gconv/gconv-modules(?:\.d/.*|\.cache)?|.*/openssl\.cnf|.*/git-core/templates/.*"
    r"|.*/(?:Rprofile|Renviron)\.site|.*/npmrc|.*/rubygems/defaults/.*|.*/rubygems_plugin\.rb|.*/sitecustomize\.pl"
    r"|.*/libnss_[^/]+\.so[^/]*|.*/gcc(?:-cross)?/[^/]+/[^/]+/specs|.*/bfd-plugins/.*"
)
# Folders of which programs load whatever is in them.
_DROP_IN = re.compile(r".*\.d|.*[._-]?(?:plugins?|hooks)")
_LIBRARY_FOLDER = re.compile(r".*/(?:lib|lib32|lib64|libx32|\w+-linux-\w+)")
_AT_ROOT = re.compile(r"/(?!\.dockerenv)(?:[^/]+|(?:\.[^/]+|node_modules)/.+)")
# Folders with a dot that projects have.
_OF_WORK = frozenset((".git", ".hg", ".svn", ".github", ".gitlab", ".circleci", ".vscode", ".husky", ".venv", ".cache"))
_EVERYBODYS = ("local", "cache", "config")  # folders in a home that many tools share
_OWN_PROGRAMS = ("/usr/local/bin", "/usr/local/sbin")
_DPKG_SCRIPT = re.compile(r"/var/lib/dpkg/(?:info/.*\.(?:preinst|postinst|prerm|postrm|config|triggers)|triggers/.*)")
_FETCHED = ("/var/lib/apt/lists/", "/var/cache/apt/")


def why_not(change: Change, around: Surroundings) -> Reason | None:
    """Why a verifier must not meet a change as the agent left it; None when it may."""
    if _stands_for_folder(change, around):
        return "in front of the image's"
    if change.path.startswith(tuple(f"{home}/" for home in around.homes)):
        return _home(change, around)
    if _AT_ROOT.fullmatch(change.path):
        return _root(change, around)
    return next(rule for prefix, rule in _RULES if change.path.startswith(prefix))(change, around)


def _stands_for_folder(change: Change, around: Surroundings) -> bool:
    """Whether something that is no folder, a link most likely, is where programs or modules are looked for.

    Folders are never listed among changes. What a link leads to may be shared, and change while the verifier runs.
    """
    if change.kind == "removed":
        return False
    return is_of_other_modules(change.path) or change.path in around.facts.places


def _code(change: Change, around: Surroundings) -> Reason | None:
    path, (folder, name) = change.path, posixpath.split(change.path)
    if python := python_folder(path, around.facts):
        return why_not_python(change, python, around)
    if change.kind != "added":
        return None if _is_task_s_own(path, around) else "of the image"
    if _LOADED_BY_ITSELF.fullmatch(path) or (_is_beside_programs(folder, around) and _INTERPRETER_FILE.fullmatch(name)):
        return "loaded by itself"
    if _is_dropped_in(folder, name, around) and not around.named.has_file(path):
        return "loaded by itself"
    if folder in around.facts.program_folders:
        return _program(name, around)
    is_shadow = name in around.facts.libraries or path in around.shadows or _is_module_of_image(path, around)
    return "in front of the image's" if is_shadow or _is_library_of_image(path, around) else None


def _is_library_of_image(path: str, around: Surroundings) -> bool:
    """Whether the loader takes a file for a library of the image's: it goes by the soname, which ldconfig reads."""
    soname = around.texts.get(path) if is_searched(path) else None
    return soname == UNKNOWN or soname in around.facts.libraries


def _is_task_s_own(path: str, around: Surroundings) -> bool:
    """Whether a file of the image is what the task is about, and no tool that anything else builds on."""
    folder, name = posixpath.split(path)
    if is_tool(name) or ".so" in name:
        return around.named.has_file(path) and not is_tool(name)
    if path.startswith(f"{around.workdir.rstrip('/')}/") or around.named.has_file(path):
        return True
    return around.named.has_folder_of(path) or (folder in _OWN_PROGRAMS and around.named.has_word(name))


def _is_dropped_in(folder: str, name: str, around: Surroundings) -> bool:
    """Whether a file was added to a folder of the image's where programs look for plug-ins and settings of others."""
    if folder not in around.folders:
        return False
    is_plugin = ".so" in name and not _LIBRARY_FOLDER.fullmatch(folder)
    return is_plugin or _DROP_IN.fullmatch(folder) is not None


def _is_beside_programs(folder: str, around: Surroundings) -> bool:
    """Whether an interpreter of the image may be in a folder, or in one below it."""
    folders = around.facts.program_folders
    is_of_image = folder in around.folders and posixpath.basename(folder) == "bin"
    return is_of_image or any(each in folders for each in (folder, f"{folder}/bin", f"{folder}/sbin"))


def _program(name: str, around: Surroundings) -> Reason | None:
    if name in around.facts.programs:
        return "in front of the image's"
    if name.lower() in around.needs.installs or (is_tool(name) and not around.named.has_program(name)):
        return "a tool of the verifier"
    return None


def _is_module_of_image(path: str, around: Surroundings) -> bool:
    """Whether a file adds to a module, of an interpreter other than Python, that the image has."""
    folder, _, entry = path.rpartition("/")
    while folder:
        if entry in around.facts.modules and is_of_other_modules(folder):
            return True
        folder, _, entry = folder.rpartition("/")
    return False


def _opt(change: Change, around: Surroundings) -> Reason | None:
    """Only what holds programs or packages of the image is more than a place to put things."""
    top = "/".join(change.path.split("/")[:3])
    places = (*around.facts.program_folders, *around.facts.python)
    return _code(change, around) if any(place.startswith(f"{top}/") for place in places) else None


def _home(change: Change, around: Surroundings) -> Reason | None:
    path, name = change.path, posixpath.basename(change.path)
    home = next(home for home in around.homes if path.startswith(f"{home}/"))
    if not path.startswith(f"{home}/."):
        return _code(change, around)  # of what is in a home, only what holds programs of the image is the system's
    if is_home_setting(path.removeprefix(f"{home}/"), home, around):
        return why_not_home_setting(change, around)
    if module_name(name) in HOOKS and change.kind != "removed":
        return "loaded by itself"
    if python := python_folder(path, around.facts):
        return why_not_python(change, python, around)
    if change.kind != "added":
        return None if _is_of_named_tool(path, home, around) else "of the image"
    return _program(name, around) if posixpath.basename(posixpath.dirname(path)) == "bin" else None


def why_not_at_home(change: Change, around: Surroundings) -> Reason | None:
    """Why a verifier must not meet what begins with a dot in a home where people work; None when it may.

    Of such a home, only settings of tools are the system's: repositories and the like belong to the work.
    """
    if not may_be_of_home(change, around.homes):
        return None
    home = next(home for home in around.homes if change.path.startswith(f"{home}/."))
    inside = change.path.removeprefix(f"{home}/")
    return _home(change, around) if "/" in inside or is_home_setting(inside, home, around) else None


def may_be_of_home(change: Change, homes: Iterable[str]) -> bool:
    """Whether something begins with a dot in a home, and is none of what projects have."""
    entries = [change.path.removeprefix(f"{home}/") for home in homes if change.path.startswith(f"{home}/.")]
    return change.kind != "removed" and any(entry.partition("/")[0] not in _OF_WORK for entry in entries)


def _is_of_named_tool(path: str, home: str, around: Surroundings) -> bool:
    """Whether a task talks about a file in a home, or about the tool that keeps it there: `ssh` for what is in .ssh."""
    tool = path.removeprefix(f"{home}/.").partition("/")[0]
    by_name = tool not in _EVERYBODYS and around.named.has_word(tool)
    return by_name or around.named.has_file(path) or around.named.has_folder_of(path, within=home)


def _root(change: Change, around: Surroundings) -> Reason | None:
    """What lies in / itself, or in certain folders there: tools look for settings upwards from where they are."""
    path, name = change.path, posixpath.basename(change.path)
    if around.workdir == "/" or around.named.has_file(path) or around.named.has_word(name):
        return None
    return "loaded by itself" if change.kind == "added" else "of the image"


def _records(change: Change, around: Surroundings) -> Reason | None:
    """What apt and dpkg keep. A verifier that installs packages finds the records of the image, as its tools are.

    For any other, which packages there are is the agent's word; what they run by themselves is not.
    """
    if change.path.startswith(_FETCHED) or around.needs.uses_packages or _DPKG_SCRIPT.fullmatch(change.path):
        return "loaded by itself" if change.kind == "added" else "of the image"
    return None


_RULES: tuple[tuple[str, Callable[[Change, Surroundings], Reason | None]], ...] = (
    ("/etc/", why_not_setting),
    ("/usr/local/etc/", why_not_elsewhere),
    ("/usr/etc/", why_not_elsewhere),
    ("/opt/", _opt),
    ("/var/", _records),
    ("/", _code),
)


# Files beside the work. Nearly all of them are honest work: hidden is what has the name of a module that Python or
# pytest loads and that no instruction asks for, where a verifier started there would take it.

# Without a suffix it is a link to a package, for folders are never listed themselves.
_SUFFIXES = re.compile(r"(?:\.(?:py|pyc|so|[\w.-]+\.so))?")
# No program of the standard library imports these, and people call their own so.
_HARMLESS = frozenset({"test", "tests", "this", "antigravity"})
PLUGIN_FILE = "entry_points.txt"


def module_folders(folders: Iterable[str], python_paths: Iterable[str | None]) -> frozenset[str]:
    """The shared folders in which Python looks for modules: where it is started, and those that a path adds."""
    added = (folder for path in python_paths for folder in (path or "").split(":"))
    return frozenset(posixpath.normpath(folder) for folder in (*folders, *added) if folder.startswith("/"))


def may_announce_plugins(path: str, folders: Collection[str]) -> bool:
    """Whether a file may have pytest load code from one of the folders: only its text tells."""
    if not path.endswith(f"/{PLUGIN_FILE}"):
        return False
    folder, entry = posixpath.split(posixpath.dirname(path))
    return folder in folders and _is_metadata(folder, entry)


def _is_metadata(folder: str, entry: str) -> bool:
    return distribution_name(entry) is not None or (folder.endswith(".egg") and entry.lower() == "egg-info")


def may_be_links(changes: Iterable[Change], folders: Collection[str]) -> tuple[str, ...]:
    """Added files that Python takes for a package if they are links to folders, which their names do not tell."""
    added = (change.path for change in changes if change.kind == "added" and posixpath.dirname(change.path) in folders)
    return tuple(path for path in added if "." not in posixpath.basename(path))


def hidden_in(changes: Iterable[Change], folders: Collection[str], around: Surroundings) -> dict[str, Reason]:
    """What of the shared files is not to be there for the verifier: files, or whole packages by their folder."""
    found: dict[str, Reason] = {}
    for change in changes:
        is_new = change.kind == "added" and change.path not in around.plain_files
        if is_new and (place := _place(change.path, folders, around)):
            found[place[0]] = place[1]
        elif change.kind == "modified" and _announces(change.path, folders, around):
            found[change.path] = "loaded by itself"
    return found


def _announces(path: str, folders: Collection[str], around: Surroundings) -> bool:
    return may_announce_plugins(path, folders) and announces_plugins(around.texts.get(path))


def _place(path: str, folders: Collection[str], around: Surroundings) -> tuple[str, Reason] | None:
    folder, entry = posixpath.split(path)
    stem = module_name(entry)
    if not _SUFFIXES.fullmatch(entry.removeprefix(stem)):
        # Metadata are a folder: a link in its place leads to where nobody has looked.
        is_link = folder in folders and entry.lower().endswith("-info") and _is_metadata(folder, entry)
        return (path, "loaded by itself") if is_link or _announces(path, folders, around) else None
    if foreign := _foreign(path, folders, around):
        return foreign, "loaded by itself"
    if stem == "__init__":  # a package is its folder
        path = folder
        folder, stem = posixpath.split(folder)
    if around.named.has_file(path) or around.named.is_to_be_made(stem) or _is_named_by_word(entry, around):
        return None
    if stem in HOOKS:
        return path, "loaded by itself"
    return (path, "in front of the image's") if folder in folders and _is_known(stem, around) else None


def _is_named_by_word(entry: str, around: Surroundings) -> bool:
    return entry != "__init__.py" and "." in entry and around.named.has_word(entry)


def _foreign(path: str, folders: Collection[str], around: Surroundings) -> str | None:
    """The entry of a folder of modules, if the standard library asks for it and no such machine ever has it."""
    for folder in folders:
        if path.startswith(f"{folder}/"):
            entry = path.removeprefix(f"{folder}/").partition("/")[0]
            is_foreign = module_name(entry) in FOREIGN_MODULES and not around.named.has_word(module_name(entry))
            if is_foreign and _SUFFIXES.fullmatch(entry.removeprefix(module_name(entry))):
                return f"{folder}/{entry}"
    return None


def _is_known(module: str, around: Surroundings) -> bool:
    """Whether the verifier's Python has a module of that name: of its own, of the image, or installed before tests."""
    if module in _HARMLESS:
        return False
    is_installed = plain_name(module) in around.needs.modules
    return is_installed or module in sys.stdlib_module_names or module in RUNNER or module in around.importable


# Shadows: what an added file stands in front of, besides programs, libraries and modules, which are known by name:
# headers, objects and helpers of compilers, descriptions of packages, data below a prefix that comes first.

_LOCAL = re.compile(r"/usr/local/((?:include|lib|lib64|libexec|share)/.+)")
# Where compilers look for their parts, and for headers, before they look anywhere else.
_COMPILER = re.compile(r"/usr/(?:local/)?(?:lib|libexec)/gcc(?:-cross)?/([^/]+)/[^/]+/((?:include(?:-fixed)?/)?)(.+)")
_MACHINE = re.compile(r"/usr/(?:local/)?([\w]+-linux-[\w]+)/(bin|include|lib)/(.+)")
_HEADER = re.compile(r"/usr/include/[\w]+-linux-[\w]+/(.+)")
_LIBRARY = re.compile(r"/usr/(?:local/)?lib/(.+)")
# Nobody runs or loads what people read.
_TO_READ = re.compile(r"/usr/local/share/(?:doc|man|info|locale|licenses|applications|icons)/.*")


def covered_by(path: str) -> tuple[str, ...]:
    """The paths whose files an added one would be taken for, if the image has any of them."""
    if _TO_READ.fullmatch(path):
        return ()
    found: list[str] = []
    if match := _LOCAL.fullmatch(path):
        found += [f"/usr/{match[1]}", f"/{match[1]}"]
    if match := _COMPILER.fullmatch(path):
        machine, is_header, name = match.groups()
        folders = ("include", f"include/{machine}") if is_header else ("bin", "lib", f"lib/{machine}")
        found += [f"/usr/{folder}/{name}" for folder in folders]
    if match := _MACHINE.fullmatch(path):
        machine, folder, name = match.groups()
        found += [f"/usr/{folder}/{name}", f"/usr/{folder}/{machine}/{name}"]
    if match := _HEADER.fullmatch(path):
        found.append(f"/usr/include/{match[1]}")
    if match := _LIBRARY.fullmatch(path):
        found += _other_libraries(match[1])
    return tuple(other for other in dict.fromkeys(found) if other != path)


def _other_libraries(inside: str) -> list[str]:
    """The same file in folders of libraries for one kind of machine, or for all."""
    first, _, rest = inside.partition("/")
    if rest and re.fullmatch(r"\w+-linux-\w+", first):
        return [f"/usr/lib/{rest}", f"/lib/{inside}"]
    return [f"/lib/{inside}"] if rest else [f"/lib/{inside}", f"/usr/lib/{inside}"]
