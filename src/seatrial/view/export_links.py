"""Links between the files of an export, and the plan that they fill: whatever is linked becomes a part of the export.

`export` writes what is planned here.
"""

import hashlib
import os
import posixpath
import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import ClassVar, Literal
from urllib.parse import quote

from seatrial.view.links import Links

# Names that every file system and every browser takes.

_PLAIN = re.compile(r"[a-z0-9_-][a-z0-9._-]{0,79}", re.ASCII)
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+", re.ASCII)
_KEPT = 40
# Opened from a disk, these are shown or saved; whatever else it is, `.txt` keeps a browser from running it.
_HARMLESS = {
    ".csv", ".docx", ".gif", ".gz", ".jpeg", ".jpg", ".json", ".jsonl", ".log", ".md", ".pdf", ".png", ".tar", ".tsv",
    ".txt", ".webp", ".xlsx", ".zip", ".zst",
}  # fmt: skip


def plain_name(text: str) -> str:
    """A name for something, the same for the same and another for another, also where case makes no difference."""
    if _PLAIN.fullmatch(text):
        return text
    digest = hashlib.sha256(os.fsencode(text)).hexdigest()[:12]
    return f"{_UNFIT.sub('_', text)[:_KEPT].strip('.')}-{digest}"


def raw_name(path: str) -> str:
    """A name for the bytes of a file, which no browser takes for a page or a program."""
    name, suffix = plain_name(path), PurePosixPath(path).suffix.lower()
    if suffix in _HARMLESS:
        return name if name.endswith(suffix) else f"{name}{suffix}"
    return f"{name}.txt"


# The plan: whatever pages lead to, up to its bounds, each with the name of its file.

PageKind = Literal["jobs", "job", "trial", "conversation", "change", "file"]


@dataclass(frozen=True, slots=True)
class ExportBounds:
    """How much goes into an export: pages in all, bytes of raw files, each and in all."""

    pages: int = 50_000
    raw_each: int = 5 * 10**6
    raw_total: int = 500 * 10**6


@dataclass(frozen=True, slots=True)
class PlannedPage:
    """A page: of which kind, of what, and the file that it becomes."""

    kind: PageKind
    of: tuple[str, ...]
    file: PurePosixPath


@dataclass(frozen=True, slots=True)
class PlannedRaw:
    """The bytes of a file of a trial, and the file that they become."""

    of: tuple[str, str, str]
    file: PurePosixPath


@dataclass(eq=False, slots=True)
class ExportPlan:
    """Pages and raw files that something leads to, in the order in which it was found out."""

    bounds: ExportBounds = ExportBounds()
    raws: dict[tuple[str, str, str], PlannedRaw | None] = field(default_factory=dict)
    left_out_pages: set[tuple[str, ...]] = field(default_factory=set)
    _pages: dict[tuple[str, ...], PlannedPage] = field(default_factory=dict)
    _waiting: deque[PlannedPage] = field(default_factory=deque)
    _raw_bytes: int = 0

    def pages(self) -> Iterator[PlannedPage]:
        """Each page once; more may be added while they are made."""
        while self._waiting:
            yield self._waiting.popleft()

    def page(self, kind: PageKind, *of: str) -> PurePosixPath | None:
        """The file of a page, which becomes a part of the export; None where that has enough of them."""
        known = self._pages.get((kind, *of))
        if known is None and len(self._pages) >= self.bounds.pages:
            self.left_out_pages.add((kind, *of))
            return None
        if known is None:
            known = self._pages[kind, *of] = PlannedPage(kind, of, _file_of(kind, of))
            self._waiting.append(known)
        return known.file

    def raw(self, job: str, trial_id: str, path: str, size: int | None) -> PurePosixPath | None:
        """The file of some raw bytes; None for too many of them, and for those that nobody can read."""
        of = (job, trial_id, path)
        if of not in self.raws:
            fits = size is not None and size <= self.bounds.raw_each and self._raw_bytes + size <= self.bounds.raw_total
            self._raw_bytes += size if fits and size else 0
            self.raws[of] = PlannedRaw(of, _folder_of(job, trial_id) / "raw" / raw_name(path)) if fits else None
        planned = self.raws[of]
        return planned.file if planned else None


def _folder_of(job: str, trial_id: str) -> PurePosixPath:
    return PurePosixPath("jobs", plain_name(job), "trials", plain_name(trial_id))


def _file_of(kind: PageKind, of: tuple[str, ...]) -> PurePosixPath:
    match kind, of:
        case "jobs", ():
            return PurePosixPath("index.html")
        case "job", (job, page):
            return PurePosixPath("jobs", plain_name(job), "index.html" if page == "1" else f"page-{page}.html")
        case "trial", (job, trial_id):
            return _folder_of(job, trial_id) / "index.html"
        case _, (job, trial_id, *rest):
            return _folder_of(job, trial_id) / kind / f"{plain_name('/'.join(rest))}.html"
    raise ValueError(f"no page of an export: {kind} of {of}")


_NOT_EXPORTED = ""


@dataclass(frozen=True, slots=True)
class ExportLinks(Links):
    """The links of one page. What no export has leads nowhere: its address is empty."""

    plan: ExportPlan
    here: PurePosixPath
    size_of: Callable[[str, str, str], int | None]
    kind: ClassVar[Literal["served", "exported"]] = "exported"

    def static(self, name: str) -> str:
        return self._to(PurePosixPath("static", name))

    def jobs(self) -> str:
        return self._to(self.plan.page("jobs"))

    def job(self, job: str, **query: str) -> str:
        """A job by its key, and further pages of its trials; any other choice among them is made in a viewer."""
        if query.keys() - {"page"}:
            return _NOT_EXPORTED
        return self._to(self.plan.page("job", job, query.get("page", "1")))

    def trial(self, job: str, trial_id: str) -> str:
        return self._to(self.plan.page("trial", job, trial_id))

    def file(self, job: str, trial_id: str, path: str) -> str:
        return self._to(self.plan.page("file", job, trial_id, path))

    def raw(self, job: str, trial_id: str, path: str) -> str:
        return self._to(self.plan.raw(job, trial_id, path, self.size_of(job, trial_id, path)))

    def conversation(self, job: str, trial_id: str, step: str | None, page: int) -> str:
        """A page of a trial's conversation, or of one of its steps."""
        return self._to(self.plan.page("conversation", job, trial_id, step or "", str(page)))

    def turns(self, job: str, trial_id: str, step: str | None, page: int) -> str:
        """Nowhere: parts of pages are fetched from a viewer."""
        return _NOT_EXPORTED

    def change(self, job: str, trial_id: str, path: str) -> str:
        return self._to(self.plan.page("change", job, trial_id, path))

    def trials_json(self, job: str, **query: str) -> str:
        """Nowhere: programs read the job itself."""
        return _NOT_EXPORTED

    def events(self, *jobs: str) -> str:
        """Nowhere: an export is of one moment."""
        return _NOT_EXPORTED

    def compare(self, **query: str) -> str:
        return _NOT_EXPORTED

    def review(self, job: str) -> str:
        return _NOT_EXPORTED

    def review_desk(self, desk: str, **query: str) -> str:
        return _NOT_EXPORTED

    def settle(self, job: str) -> str:
        return _NOT_EXPORTED

    def settle_desk(self, desk: str) -> str:
        return _NOT_EXPORTED

    def review_api(self, desk: str) -> str:
        return _NOT_EXPORTED

    def _to(self, file: PurePosixPath | None) -> str:
        return quote(posixpath.relpath(file, self.here.parent)) if file else _NOT_EXPORTED
