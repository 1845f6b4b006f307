"""What an export consists of: whatever its pages lead to, up to its bounds, each with the name of its file."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Literal

from seatrial.view.exporting.names import plain_name, raw_name

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
