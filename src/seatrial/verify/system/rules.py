"""Which of the agent's changes to the system a verifier does not get to see, and why. Pure: names in, reasons out.

The rule is not a list of known takeovers. What a verifier's tools load comes from the image: files of the image are as
in the image, and what the agent added is there unless it is loaded by itself or stands in front of something.
Settings are the agent's where the task names them. Everything else about a task's system is honest work.
"""

import posixpath
import re
from collections.abc import Callable, Iterable

from seatrial.sandbox.sonames import UNKNOWN, is_searched
from seatrial.verify.system.facts import is_of_other_modules, module_name
from seatrial.verify.system.python_rules import python_folder, why_not_python
from seatrial.verify.system.settings_rules import (
    is_home_setting,
    why_not_elsewhere,
    why_not_home_setting,
    why_not_setting,
)
from seatrial.verify.system.surroundings import HOOKS, Change, Reason, Surroundings, is_tool

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
    folder, entry = posixpath.split(path)
    while folder.strip("/"):
        if is_of_other_modules(folder) and entry in around.facts.modules:
            return True
        folder, entry = posixpath.split(folder)
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
