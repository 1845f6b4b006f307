"""The user's own settings of npm and pip, for baking: only where the user allows it.

They may hold tokens, and what is baked runs code of strangers that could read them.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from seatrial.errors import UsageError
from seatrial.sandbox.ca_file import VARIABLES

ALLOWED_BY = "SEATRIAL_HOST_SETTINGS"
_PREFIXES = ("PIP_", "NPM_CONFIG_", "npm_config_")
# By these, paths of this machine would be written to, or the tree would be put elsewhere.
_NOT_TAKEN = ("CACHE", "CACHE_DIR", "CONFIG_FILE", "GLOBAL", "GLOBALCONFIG", "PREFIX", "TARGET", "USER", "USERCONFIG")
_NPM_FILE, _PIP_FILE = ".npmrc", ".config/pip/pip.conf"
_PIP_FILES = ("~/.config/pip/pip.conf", "~/.pip/pip.conf", "/etc/pip.conf")


@dataclass(frozen=True, slots=True)
class HostSettings:
    """Variables, and files by their names below a home."""

    variables: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


def settings_here(environ: Mapping[str, str] | None = None, *, allowed: bool | None = None) -> HostSettings:
    """The settings of this user, none of them where that is not allowed. Raises UsageError and OSError."""
    environ = os.environ if environ is None else environ
    if not (environ.get(ALLOWED_BY, "") not in ("", "0") if allowed is None else allowed):
        return HostSettings()
    variables = {name: value for name, value in environ.items() if name in VARIABLES or _is_taken(name)}
    npm = Path(environ.get("NPM_CONFIG_USERCONFIG", "~/.npmrc")).expanduser()
    pips = [environ.get("PIP_CONFIG_FILE", ""), *_PIP_FILES]
    pip = next((path for path in (Path(name).expanduser() for name in pips if name) if path.is_file()), None)
    files = {_NPM_FILE: npm if npm.is_file() else None, _PIP_FILE: pip}
    return HostSettings(variables, {name: _text_of(path) for name, path in files.items() if path})


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except ValueError as error:
        raise UsageError(f"{path}: the settings for baking are no text: {error}") from error


def _is_taken(name: str) -> bool:
    prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), None)
    return prefix is not None and name.removeprefix(prefix).upper() not in _NOT_TAKEN


def where_settings_are(home: str, settings: HostSettings) -> dict[str, str]:
    """The variables by which npm and pip find settings that lie below a home, and no others of the machine."""
    # By this name alone, pip leaves out /etc/pip.conf too.
    pip = f"{home}/{_PIP_FILE}" if _PIP_FILE in settings.files else os.devnull
    return {
        "HOME": home,
        "PIP_CONFIG_FILE": pip,
        "NPM_CONFIG_USERCONFIG": f"{home}/{_NPM_FILE}",
        "NPM_CONFIG_GLOBALCONFIG": f"{home}/.npmrc-of-nobody",
    }
