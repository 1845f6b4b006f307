"""Settings: as the agent left them where the task names them, for accounts, names and services; else the image's."""

import posixpath
import re

from seatrial.verify.system.accounts import ACCOUNTS
from seatrial.verify.system.contents import is_harmless_git_config
from seatrial.verify.system.facts import module_name
from seatrial.verify.system.surroundings import HOOKS, Change, Reason, Surroundings

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
