"""What a task talks about: the files, folders and programs that its instruction and task.toml name.

A task is often about the system. What it names is the agent's to change; what nobody mentions is not.
"""

import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass

_PATH = re.compile(r"(?<![\w/.:-])(~|\$HOME|\$\{HOME\})?(/[\w.@+%~-]+(?:/[\w.@+%~*-]+)*)")
_WORD = re.compile(r"[A-Za-z0-9_.][\w.+-]*")
_HOME = "/root"
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
    """What is named: absolute paths, single words in small letters, and what is said of packages.

    The parts of a package's name count as well: who talks about python3-pip talks about pip. `made` are modules that
    are to be written.
    """

    paths: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    packages: frozenset[str] = frozenset()
    made: frozenset[str] = frozenset()

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
    """What some texts name."""
    paths: set[str] = set()
    words: set[str] = set()
    packages: set[str] = set()
    made: set[str] = set()
    for text in texts:
        for home, path in _PATH.findall(text):
            paths.add(posixpath.normpath((_HOME if home else "") + path.rstrip(".*")))
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
