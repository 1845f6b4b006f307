"""Settings: as the agent left them where the task names them, for accounts, names and services; else the image's."""

import posixpath
import re

from seatrial.verify.system.contents import is_harmless_git_config
from seatrial.verify.system.facts import HOME, module_name
from seatrial.verify.system.surroundings import HOOKS, Change, Reason, Surroundings

_ACCOUNTS = re.compile(
    r"/etc/(?:(?:passwd|group|shadow|gshadow|subuid|subgid)-?|\.pwd\.lock|hosts|hostname|crontab|cron\.[^/]+/.*|localtime|timezone"
    r"|machine-id|motd|issue|mailname|aliases|exports|fstab|init\.d/.*|rc.\.d/.*|systemd/.*|default/.*"
    r"|logrotate\.d/.*|sudoers(?:\.d/.*)?)"
)
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


def why_not_setting(change: Change, around: Surroundings) -> Reason | None:
    """Why a verifier must not meet a file of /etc as the agent left it; None when it may."""
    path, named, name = change.path, around.named, posixpath.basename(change.path)
    top = path.split("/")[2]
    if named.has_file(path) or _ACCOUNTS.fullmatch(path):
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


def _is_of_new_program(top: str, around: Surroundings) -> bool:
    """Whether an entry of /etc is one that nothing of the image reads."""
    facts = around.facts
    return top not in facts.settings and not any(top.startswith(name) for name in facts.programs if len(name) > 2)


def why_not_elsewhere(change: Change, around: Surroundings) -> Reason | None:
    """The same for settings of what was installed by hand."""
    named = around.named.has_file(change.path) or around.named.has_folder_of(change.path)
    return None if named else "not named"


def is_home_setting(inside: str, around: Surroundings) -> bool:
    """Whether tools read a file of a home as they start. Where people work at home, other dot files are theirs."""
    if "/" not in inside and around.workdir.rstrip("/") != HOME:
        return inside.startswith(".")
    return _HOME_FILES.fullmatch(inside) is not None


def why_not_home_setting(change: Change, around: Surroundings) -> Reason | None:
    """Why a verifier must not meet a setting of its home as the agent left it; None when it may."""
    path, named = change.path, around.named
    if named.has_file(path) or named.has_folder_of(path) or named.has_word(posixpath.basename(path)):
        return None
    is_git = posixpath.basename(path) == ".gitconfig" and change.kind != "removed"
    return None if is_git and is_harmless_git_config(around.texts.get(path)) else "not named"
