"""The folder that an image is built from: what `.dockerignore` leaves out, and what the words of COPY and ADD find.

Paths within a tree start at its root, as in `/usr/bin`, and never lead out of it, whatever its links say. Patterns are
those of `.dockerignore` and COPY.
"""

import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple, Protocol

from seatrial.errors import BuildError
from seatrial.tasks.dockerfile import WordError

# Patterns of `.dockerignore`. The last one that fits decides; one with `!` brings back. One that fits a directory fits
# all that is in it.

_MAX_DEEP = 4
_MAX_LETTERS = 2**20


@dataclass(frozen=True, slots=True)
class _Rule:
    fits: re.Pattern[str]
    verdict: bool


class IgnoreRules:
    """The rules of one file, or of none."""

    def __init__(self, lines: Iterable[str] = (), name: str = ".dockerignore") -> None:
        """Raises BuildError with file and line for a pattern that cannot be one."""
        self._rules = []
        for number, line in enumerate(lines, 1):
            pattern = line.removeprefix("\ufeff") if number == 1 else line
            if pattern.startswith("#") or not pattern.strip():
                continue
            try:
                self._rules.append(_read_rule(pattern.strip()))
            except ValueError as error:
                raise BuildError(f"{name}:{number}: {error}") from None

    @property
    def empty(self) -> bool:
        return not self._rules

    @property
    def bring_back(self) -> bool:
        return not all(rule.verdict for rule in self._rules)

    def ignores(self, path: str) -> bool:
        """Whether something does not count; `path` is relative to the context, with `/`."""
        ends = [index for index, letter in enumerate(path) if letter == "/"]
        prefixes = [path[:end] for end in ends] + [path]
        verdict = False
        for rule in self._rules:
            if rule.verdict != verdict and any(rule.fits.fullmatch(prefix) for prefix in prefixes):
                verdict = rule.verdict
        return verdict


def read_ignore_rules(context: Path, dockerfile: Path) -> IgnoreRules:
    """The rules for a Dockerfile: its own, if there is a `NAME.dockerignore` beside it, else the context's."""
    for path in (dockerfile.with_name(f"{dockerfile.name}.dockerignore"), context / ".dockerignore"):
        try:
            with path.open(encoding="utf-8", errors="surrogateescape") as file:
                text = file.read(_MAX_LETTERS + 1)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise BuildError(f"{path}: it cannot be read: {error.strerror}") from error
        if len(text) > _MAX_LETTERS:
            raise BuildError(f"{path}: it has more than {_MAX_LETTERS:,} letters; is it a list of patterns?")
        return IgnoreRules(text.splitlines(), str(path))
    return IgnoreRules()


def _read_rule(pattern: str) -> _Rule:
    brings_back = pattern.startswith("!")
    pattern = pattern.removeprefix("!").strip() if brings_back else pattern
    if not pattern:
        raise ValueError("a `!` with nothing behind it")
    clean = _clean(pattern)
    return _Rule(compile_pattern(clean), not brings_back)


def _clean(pattern: str) -> str:
    """Without what makes no difference: leading and doubled slashes, `.` and, as far as they go, `..`."""
    parts: list[str] = []
    for part in pattern.split("/"):
        if part == ".." and parts:
            parts.pop()
        elif part not in ("", ".", "..") and not (part == "**" and parts[-1:] == ["**"]):
            parts.append(part)
    return str(PurePosixPath(*parts)) if parts else "."


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """`*` and `?` match within a name, `**` any number of directories. Raises ValueError.

    The time a match takes must not be up to whoever wrote the pattern: backtracking is kept in bounds.
    """
    if pattern.count("**") > _MAX_DEEP:
        raise ValueError(f"{pattern!r} has more than {_MAX_DEEP} times `**`")
    found, pieces, position = "", [""], 0
    while position < len(pattern):
        if pattern.startswith("**", position):
            rest = pattern[position + 2 :]
            found += _join(pieces) + ("(?:.*/)?" if rest.strip("/") else ".*")
            pieces, position = [""], position + 2 + rest.startswith("/")
        elif pattern[position] == "*":
            pieces.append("")
            position += 1
        elif pattern[position] == "/":
            found, pieces, position = f"{found}{_join(pieces)}/", [""], position + 1
        else:
            piece, position = _one_letter(pattern, position)
            pieces[-1] += piece
    return re.compile(found + _join(pieces), re.DOTALL)


def _join(pieces: list[str]) -> str:
    """The parts of a name between its stars. But for the last, the first place where one fits is as good as any."""
    if len(pieces) == 1:
        return pieces[0]
    return "".join([pieces[0], *(f"(?>[^/]*?{piece})" for piece in pieces[1:-1]), "[^/]*", pieces[-1]])


def _one_letter(pattern: str, position: int) -> tuple[str, int]:
    """An expression for one letter, and where the pattern goes on."""
    letter = pattern[position]
    if letter == "?":
        return "[^/]", position + 1
    if letter == "\\":
        return re.escape(pattern[position + 1 : position + 2]), position + 2
    if letter == "[":
        end = _class_end(pattern, position + 1)
        return _class(pattern[position + 1 : end], pattern), end + 1
    return re.escape(letter), position + 1


def _class_end(pattern: str, start: int) -> int:
    position = start + (pattern[start : start + 1] == "^")
    while position < len(pattern) and pattern[position] != "]":
        position += 2 if pattern[position] == "\\" else 1
    if position >= len(pattern) or position == start:
        raise ValueError(f"a `[` in {pattern!r} has no `]`, or nothing before it")
    return position


def _class(content: str, pattern: str) -> str:
    negated = content.startswith("^")
    inside = re.sub(r"\\(.)|(.)", _class_letter, content[negated:], flags=re.DOTALL)
    found = f"(?!/)[{'^' if negated else ''}{inside}]"
    try:
        re.compile(found)
    except re.error:
        raise ValueError(f"[{content}] in {pattern!r} is no set of letters") from None
    return found


def _class_letter(letter: re.Match[str]) -> str:
    """A letter of a set, escaped or plain; a plain `-` keeps its meaning."""
    return "-" if letter[2] == "-" else re.escape(letter[1] or letter[2])


# Trees: following links, matching patterns, walking.

_MAX_LINKS = 40
_WILDCARDS = frozenset("*?[\\")


class FoundFile(NamedTuple):
    """Something in a tree: where on this machine it lies, and what it is."""

    place: Path
    status: os.stat_result

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.status.st_mode)

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.status.st_mode)


class FileTree(Protocol):
    """A tree of files. Both methods take paths that no link is in the way of."""

    def look(self, path: str) -> FoundFile | None:
        """What is at a path; None when there is nothing."""
        ...

    def names(self, path: str) -> list[str]:
        """The entries of a directory, sorted."""
        ...


def resolve(tree: FileTree, path: str) -> str:
    """Where a path leads when every link on the way is followed; what does not exist stays as it is written.

    Raises OSError when links lead in circles.
    """
    pending, found, links = path.split("/")[::-1], "", 0
    while pending:
        part = pending.pop()
        if part in ("", "."):
            continue
        if part == "..":
            found = found.rpartition("/")[0]
            continue
        here = tree.look(f"{found}/{part}")
        if here is None or not here.is_link:
            found = f"{found}/{part}"
            continue
        links += 1
        if links > _MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        target = str(here.place.readlink())
        found = "" if target.startswith("/") else found
        pending += target.split("/")[::-1]
    return found or "/"


def has_wildcards(path: str) -> bool:
    return not _WILDCARDS.isdisjoint(path)


def match(tree: FileTree, pattern: str) -> list[str]:
    """The paths a pattern matches, name by name; a directory on the way may be a link. Raises ValueError."""
    found = [""]
    for part in pattern.split("/"):
        if part in ("", "."):
            continue
        if not has_wildcards(part):
            found = [f"{path}/{part}" for path in found]
            continue
        fits = compile_pattern(part.replace("**", "*")).fullmatch
        found = [f"{path}/{name}" for path in found for name in _names_behind(tree, path) if fits(name)]
    return [path for path in found if tree.look(resolve(tree, path))]


def _names_behind(tree: FileTree, path: str) -> list[str]:
    real = resolve(tree, path)
    found = tree.look(real)
    return tree.names(real) if found and found.is_folder else []


def walk(tree: FileTree, path: str) -> Iterator[tuple[str, FoundFile]]:
    """Everything below a directory, each with its path from there, parents first. Links are not followed."""
    pending = [("", name) for name in reversed(tree.names(path))]
    while pending:
        inside, name = pending.pop()
        relative = f"{inside}{name}"
        found = tree.look(f"{path.rstrip('/')}/{relative}")
        if found is None:
            continue
        yield relative, found
        if found.is_folder:
            below = tree.names(f"{path.rstrip('/')}/{relative}")
            pending += [(f"{relative}/", child) for child in reversed(below)]


# The build context, without what `.dockerignore` leaves out.


class ContextTree:
    """A folder of this machine as a tree, seen through ignore rules."""

    def __init__(self, root: Path, rules: IgnoreRules) -> None:
        self._root = root
        self._rules = rules

    def look(self, path: str) -> FoundFile | None:
        """What is at a path that no link is in the way of; what is ignored is not there."""
        found = self.look_anyway(path)
        if found is None or not self.ignores(path):
            return found
        # A directory that is ignored is there all the same if something in it is brought back.
        return found if found.is_folder and self._rules.bring_back and self.names(path) else None

    def ignores(self, path: str) -> bool:
        """Whether the rules leave out a path."""
        relative = path.strip("/")
        return bool(relative) and not self._rules.empty and self._rules.ignores(relative)

    def look_anyway(self, path: str) -> FoundFile | None:
        """What is at a path, ignored or not."""
        place = self._root / path.strip("/")
        try:
            return FoundFile(place, place.lstat())
        except (FileNotFoundError, NotADirectoryError):
            return None

    def names(self, path: str) -> list[str]:
        """The entries of a directory that count."""
        inside = path.strip("/")
        entries = sorted(entry.name for entry in (self._root / inside).iterdir())
        if self._rules.empty:
            return entries
        return [name for name in entries if self.look(f"/{inside}/{name}" if inside else f"/{name}")]


# Sources: the context, another stage, or another image; and the reason where a file is missing.


@dataclass(frozen=True, slots=True)
class CopySource:
    """Something to copy: a path in a tree that no link is in the way of, and the name it has in the Dockerfile."""

    tree: FileTree
    path: str
    name: str


@dataclass(frozen=True, slots=True)
class Origin:
    """A place files are copied from; `key` stands for its content, where it is known without looking."""

    tree: FileTree
    key: str | None
    context: Path | None = None


def find_sources(origin: Origin, words: Sequence[str]) -> list[CopySource]:
    """What some words of COPY name, in their order. Raises WordError, OSError.

    A pattern that matches nothing is no mistake beside something that is there.
    """
    found: list[CopySource] = []
    for word in words:
        found += _find(origin, word)
    if not found and words:
        raise WordError(f"{' '.join(words)} matches nothing in {_describe_source(origin)}")
    return found


def _find(origin: Origin, word: str) -> list[CopySource]:
    if has_wildcards(word):
        try:
            paths = match(origin.tree, _from_root(word))
        except ValueError as error:
            raise WordError(str(error)) from None
        return [_source(origin.tree, path) for path in paths]
    path = resolve(origin.tree, _from_root(word))
    if origin.tree.look(path) is None:
        raise WordError(_why_missing(origin, word))
    return [_source(origin.tree, _from_root(word))]


def _source(tree: FileTree, path: str) -> CopySource:
    return CopySource(tree, resolve(tree, path), path.rstrip("/").rpartition("/")[2])


def _from_root(word: str) -> str:
    """A path from the root of the origin: `..` leads no further up."""
    parts: list[str] = []
    for part in word.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def _describe_source(origin: Origin) -> str:
    return f"the build context {origin.context}" if origin.context else "the image it is copied from"


def _why_missing(origin: Origin, word: str) -> str:
    missing = f"{word} is not in {_describe_source(origin)}"
    if origin.context is None or not isinstance(origin.tree, ContextTree):
        return missing
    relative = _from_root(word).lstrip("/")
    if found := origin.tree.look_anyway(relative):
        if found.is_link and not origin.tree.ignores(relative):
            return f"{word} is a link to {found.place.readlink()}, and that is not in {_describe_source(origin)}"
        return f"{word} is left out of the build context by .dockerignore"
    folder = origin.context.parent
    if not (folder / "task.toml").exists() or not (folder / relative).exists():
        return missing
    inside = relative.removeprefix(f"{origin.context.name}/")
    advice = f"write {inside!r}" if inside != relative else f"move it to {origin.context.name}/"
    if relative.partition("/")[0] in ("tests", "solution"):
        advice = "leave it out, since agents see what is in their image"
    return f"{missing}, which is the task's {origin.context.name}/ folder; it is in the task folder itself: {advice}"
