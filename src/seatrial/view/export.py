"""A static export: the pages of a viewer as files, whole or not at all, the same bytes for the same jobs."""

import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from seatrial.errors import SeatrialError, StoreError, UsageError
from seatrial.store.files import remove_tree, storing
from seatrial.untrusted.files import open_below
from seatrial.view.access import ViewSettings
from seatrial.view.app import Viewer
from seatrial.view.export_links import ExportBounds, ExportLinks, ExportPlan, PageKind, PlannedPage, PlannedRaw
from seatrial.view.pages.files import file_page
from seatrial.view.pages.job import job_page
from seatrial.view.pages.jobs import jobs_page
from seatrial.view.pages.trial import change_page, conversation_page, trial_page
from seatrial.view.queries import TrialQuery
from seatrial.view.static_files import static_files
from seatrial.view.templating import render
from seatrial.view.trial_files import place_of

MARK = ".seatrial-export"
_NOWHERE = re.compile(r'(<a\b[^<>]*?) href=""')
_MARK_TEXT = b"An export of seatrial view. The next one to this place replaces all of it.\n"


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export has, and how much it would have had without its bounds."""

    pages: int
    raw_files: int
    left_out_pages: int
    left_out_files: int


def export_jobs(jobs: Sequence[Path], folder: Path) -> Exported:
    """Write the pages of jobs to a folder, as `export_pages` does."""
    return export_pages(Viewer(ViewSettings(tuple(jobs))), folder)


def export_pages(view: Viewer, folder: Path, bounds: ExportBounds | None = None) -> Exported:
    """Write the pages of all jobs that a view shows to a folder, in the place of an earlier export if there is one.

    Raises UsageError for a folder with anything else in it, StoreError when the disk refuses; then nothing changed.
    """
    _refuse_others(folder)
    with storing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".new", dir=folder.parent))
        try:
            # Of its own: parts of pages that a library keeps for others have the links of those.
            own = Viewer(view.settings, view.links)
            done = _Export(own, draft, ExportPlan(bounds or ExportBounds())).write()
            draft.chmod(0o755)
            _take_place(draft, folder)
        except BaseException:
            remove_tree(draft)
            raise
    return done


def _refuse_others(folder: Path) -> None:
    if folder.is_symlink():
        raise UsageError(f"{folder}: is a link, in whose place no export can be put; name the folder that it leads to")
    if not folder.exists() or (folder / MARK).is_file():
        return
    if not folder.is_dir() or any(folder.iterdir()):
        raise UsageError(f"{folder}: holds something that is no export of ours; name another folder, or empty this one")


def _take_place(draft: Path, folder: Path) -> None:
    """The new export has its name at the end; where there was an earlier one, that is gone."""
    if not folder.exists():
        draft.rename(folder)
        return
    earlier = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".old", dir=folder.parent))
    folder.rename(earlier)  # in the place of an empty folder
    draft.rename(folder)
    remove_tree(earlier)


@dataclass(frozen=True, slots=True)
class _Export:
    """One export while it is written."""

    view: Viewer
    folder: Path
    plan: ExportPlan

    def write(self) -> Exported:
        (self.folder / MARK).write_bytes(_MARK_TEXT)
        for name, file in sorted(static_files().items()):
            self._put(Path("static", name), file.content)
        self._plan_jobs()
        pages = 0
        for page in self.plan.pages():
            self._put(Path(page.file), _unlinked(self._page(page)).encode("utf-8", "replace"))
            pages += 1
        raws = [raw for raw in self.plan.raws.values() if raw]
        for raw in raws:
            self._copy(raw)
        return Exported(pages, len(raws), len(self.plan.left_out_pages), len(self.plan.raws) - len(raws))

    def _plan_jobs(self) -> None:
        """Every job and every trial has a page, whether or not another page leads there."""
        self.plan.page("jobs")
        for key in self.view.library.find():
            self.plan.page("job", key, "1")
            with suppress(SeatrialError):  # its page says what is the matter with it
                for trial in self.view.library.job(key).trials:
                    self.plan.page("trial", key, trial.trial_id)

    def _page(self, page: PlannedPage) -> str:
        links = ExportLinks(self.plan, page.file, self._size)
        view = replace(self.view, links=links)
        try:
            return _PAGES[page.kind](view, *page.of)
        except SeatrialError as error:
            return render("error.html.jinja", links, title="That cannot be shown", text=str(error))

    def _size(self, job: str, trial_id: str, path: str) -> int | None:
        try:
            with open_below(place_of(trial_id, path), self.view.library.folder(job)) as file:
                return os.fstat(file).st_size
        except SeatrialError:
            return None

    def _copy(self, raw: PlannedRaw) -> None:
        job, trial_id, path = raw.of
        try:
            with open_below(place_of(trial_id, path), self.view.library.folder(job)) as file:
                content = os.pread(file, self.plan.bounds.raw_each, 0)
        except StoreError:
            content = b""  # it is gone since its page was made
        self._put(Path(raw.file), content)

    def _put(self, file: Path, content: bytes) -> None:
        target = self.folder / file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def _unlinked(page: str) -> str:
    """A page in which what leads nowhere is no link. A stranger's `<` is always escaped, so that all these are ours."""
    return _NOWHERE.sub(r"\1", page)


def _job(view: Viewer, job: str, page: str) -> str:
    return job_page(view, job, TrialQuery(page=int(page)))


def _conversation(view: Viewer, job: str, trial_id: str, step: str, page: str) -> str:
    return conversation_page(view, job, trial_id, step or None, int(page))


_PAGES: Mapping[PageKind, Callable[..., str]] = {
    "jobs": jobs_page,
    "job": _job,
    "trial": trial_page,
    "conversation": _conversation,
    "change": change_page,
    "file": file_page,
}
