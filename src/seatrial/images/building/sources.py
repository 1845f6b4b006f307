"""Where the files of COPY and ADD are: the context, another stage, another image; and what to say when they are not."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from seatrial.images.building.context import ContextTree
from seatrial.images.building.copying import CopySource
from seatrial.images.building.trees import FileTree, has_wildcards, match, resolve
from seatrial.images.building.words import WordError


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
        raise WordError(f"{' '.join(words)} matches nothing in {_describe(origin)}")
    return found


def _find(origin: Origin, word: str) -> list[CopySource]:
    if has_wildcards(word):
        try:
            paths = match(origin.tree, _clean(word))
        except ValueError as error:
            raise WordError(str(error)) from None
        return [_source(origin.tree, path) for path in paths]
    path = resolve(origin.tree, _clean(word))
    if origin.tree.look(path) is None:
        raise WordError(_why_missing(origin, word))
    return [_source(origin.tree, _clean(word))]


def _source(tree: FileTree, path: str) -> CopySource:
    return CopySource(tree, resolve(tree, path), path.rstrip("/").rpartition("/")[2])


def _clean(word: str) -> str:
    """A path from the root of the origin: `..` leads no further up."""
    parts: list[str] = []
    for part in word.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def _describe(origin: Origin) -> str:
    return f"the build context {origin.context}" if origin.context else "the image it is copied from"


def _why_missing(origin: Origin, word: str) -> str:
    missing = f"{word} is not in {_describe(origin)}"
    if origin.context is None or not isinstance(origin.tree, ContextTree):
        return missing
    relative = _clean(word).lstrip("/")
    if found := origin.tree.look_anyway(relative):
        if found.is_link and not origin.tree.ignores(relative):
            return f"{word} is a link to {found.place.readlink()}, and that is not in {_describe(origin)}"
        return f"{word} is left out of the build context by .dockerignore"
    folder = origin.context.parent
    if not (folder / "task.toml").exists() or not (folder / relative).exists():
        return missing
    inside = relative.removeprefix(f"{origin.context.name}/")
    advice = f"write {inside!r}" if inside != relative else f"move it to {origin.context.name}/"
    return f"{missing}, which is the task's {origin.context.name}/ folder; it is in the task folder itself: {advice}"
