"""Exports: whole or not at all, the same bytes for the same jobs, and no link that leads nowhere."""

import inspect
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from seatrial.errors import StoreError, UsageError
from seatrial.view import export
from seatrial.view.app import Viewer
from seatrial.view.export import MARK, export_jobs, export_pages
from seatrial.view.export_links import ExportBounds, ExportLinks
from seatrial.view.links import Links
from tests.view.hostile_files import write_hostile_files
from tests.view.viewers import settings_for, stored_job

TRIAL = "crc.noop.1"


@pytest.fixture
def job(tmp_path):
    folder = tmp_path / "jobs/job"
    stored_job(folder, {"crc": [1.0], "beam": [0.5]})
    artifacts = folder / "trials" / TRIAL / "artifacts"
    write_hostile_files(artifacts)
    (artifacts / "link.txt").symlink_to("/etc/passwd")
    (artifacts / "large.bin").write_bytes(b"\0" * 6_000_000)
    return folder


class LinkReader(HTMLParser):
    """Notes where a page leads, and what it loads."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if name in ("href", "src", "action")]


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_every_link_leads_to_a_file_of_the_export(job, tmp_path):
    target = tmp_path / "out"
    done = export_jobs([job], target)
    pages = list(target.rglob("*.html"))
    assert len(pages) == done.pages
    for page in pages:
        reader = LinkReader()
        reader.feed(page.read_text())
        for link in reader.found:
            path = unquote(link.partition("#")[0])
            if path and not path.startswith(("data:image/", "http://evil.example")):
                assert (page.parent / path).resolve().is_relative_to(target), (page, link)
                assert (page.parent / path).is_file(), (page, link)
    assert (target / "jobs/job/trials" / TRIAL / "index.html").is_file()
    assert not [path for path in target.rglob("*") if path.is_symlink()]
    assert "root:" not in "".join(page.read_text() for page in pages)


def test_large_raw_files_are_left_out_and_that_is_said(job, tmp_path):
    done = export_jobs([job], tmp_path / "out")
    assert (done.left_out_files, done.left_out_pages) == (1, 0)
    folder = tmp_path / "out/jobs/job/trials" / TRIAL
    (page,) = folder.glob("file/artifacts_large.bin-*.html")
    assert "Its bytes are not part of this export." in page.read_text()
    assert not list(folder.glob("raw/*large*"))


def test_the_same_job_gives_the_same_bytes_in_the_place_of_an_earlier_export(job, tmp_path):
    export_jobs([job], tmp_path / "one")
    export_jobs([job], tmp_path / "two")
    assert files_in(tmp_path / "one") == files_in(tmp_path / "two")
    (tmp_path / "one/jobs/stale.html").write_text("stale")
    export_jobs([job], tmp_path / "one")
    assert files_in(tmp_path / "one") == files_in(tmp_path / "two")
    assert {path.name for path in tmp_path.iterdir()} == {"jobs", "one", "two"}


def test_nothing_else_is_ever_replaced(job, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/mine.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    (tmp_path / "empty").mkdir()
    for name in ("notes", "file", "link"):
        with pytest.raises(UsageError, match=r"is no export of ours|is a link"):
            export_jobs([job], tmp_path / name)
    assert (tmp_path / "notes/mine.txt").read_text() == "mine"
    export_jobs([job], tmp_path / "empty")
    assert (tmp_path / "empty" / MARK).is_file()


def test_a_link_to_an_earlier_export_is_refused_before_anything_is_made(job, tmp_path):
    export_jobs([job], tmp_path / "out/one")
    (tmp_path / "out/link").symlink_to("one")
    with pytest.raises(UsageError, match="is a link"):
        export_jobs([job], tmp_path / "out/link")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["link", "one"]


def test_an_export_that_fails_leaves_everything_as_it_was(job, tmp_path, monkeypatch):
    export_jobs([job], tmp_path / "out")
    before = files_in(tmp_path / "out")
    write = Path.write_bytes

    def full(path: Path, content: bytes) -> int:
        if path.name == "index.html":
            raise OSError(28, "No space left on device")
        return write(path, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(StoreError, match="free some space"):
        export_jobs([job], tmp_path / "out")
    with pytest.raises(StoreError, match="free some space"):
        export_jobs([job], tmp_path / "other")
    assert files_in(tmp_path / "out") == before
    assert {path.name for path in tmp_path.iterdir()} == {"jobs", "out"}


def test_an_export_has_so_many_pages_at_most(job, tmp_path):
    view = Viewer(settings_for(job))
    done = export_pages(view, tmp_path / "out", ExportBounds(pages=5, raw_each=100, raw_total=300))
    assert done.pages == 5
    assert done.left_out_pages > 0
    raw = [path.stat().st_size for path in (tmp_path / "out").rglob("raw/*")]
    assert max(raw, default=0) <= 100
    assert sum(raw) <= 300


def test_a_trial_that_cannot_be_shown_is_a_page_that_says_so(job, tmp_path, monkeypatch):
    def broken(*_: object) -> str:
        raise StoreError("its record is damaged")

    monkeypatch.setitem(export._PAGES, "trial", broken)
    export_jobs([job], tmp_path / "out")
    assert "its record is damaged" in (tmp_path / "out/jobs/job/trials" / TRIAL / "index.html").read_text()


def test_every_link_of_a_viewer_is_thought_of():
    """A link that an export inherits would lead to a server that is not there."""
    own = {name for name, _ in inspect.getmembers(ExportLinks, inspect.isfunction) if name in vars(ExportLinks)}
    assert {name for name in vars(Links) if not name.startswith("_") and name != "kind"} <= own
