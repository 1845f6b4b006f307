"""Whether a small file that tools load by themselves does any harm: decided by what it says."""

import posixpath
import re

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
    """The folders that a `.pth` file adds to Python's path."""
    lines = (line.strip() for line in (text or "").splitlines())
    return frozenset(posixpath.normpath(line) for line in lines if _PATH_LINE.fullmatch(line))


_IMPORT = re.compile(r"(?:^|;)[ \t]*(?:import|from)[ \t]+([A-Za-z_]\w*)", re.MULTILINE)


def imported_modules(text: str) -> frozenset[str]:
    """The modules that Python code asks for by name, roughly."""
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
    """Whether settings of git name people and folders only."""
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
