"""Hostile files in a real browser, from a running viewer and from an export: they are seen and run nothing."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from seatrial.view.export import export_jobs
from tests.view.hostile_files import HOSTILE_FILES, write_hostile_files
from tests.view.viewers import TOKEN, serving, stored_job

TRIAL = "crc.noop.1"


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("jobs") / "job"
    stored_job(folder, {"crc": [1.0], "beam": [0.0]})
    write_hostile_files(folder / "trials" / TRIAL / "artifacts")
    return folder


class Visit:
    """A page that is open, with all dialogs, complaints, and requests that got out of it."""

    def __init__(self, browser: Any, home: str, **context: Any) -> None:
        self.context = browser.new_context(**context)
        self.context.set_default_timeout(20_000)
        self.page = self.context.new_page()
        self.dialogs: list[str] = []
        self.troubles: list[str] = []
        self.outside: list[str] = []
        self.page.on("dialog", self._note_dialog)
        self.page.on("console", lambda message: self.troubles.append(message.text))
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        # What a policy forbids is never routed.
        self.context.route(lambda url: not url.startswith((home, "data:", "chrome")), self._note_request)

    def _note_dialog(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def _note_request(self, route: Any) -> None:
        self.outside.append(route.request.url)
        route.abort()

    def go(self, address: str) -> Any:
        self.page.goto(address)
        return self.page

    @property
    def other_troubles(self) -> list[str]:
        """Complaints that are not about what a policy forbade."""
        told = ("Content Security Policy", "document is sandboxed", "frame is sandboxed")
        return [each for each in self.troubles if not any(words in each for words in told)]

    @property
    def width(self) -> int:
        return int(self.page.evaluate("document.documentElement.scrollWidth"))


@pytest.mark.whole
def test_nothing_of_hostile_files_runs_in_a_viewer(browser, job):
    with serving(job) as home:
        visit = Visit(browser, home, viewport={"width": 360, "height": 700})
        visit.go(f"{home}/?token={TOKEN}")
        for kind in ("files", "raw"):
            for name in HOSTILE_FILES:
                if kind == "files" or name.endswith((".svg", ".html", ".md", ".ipynb")):
                    page = visit.go(f"{home}/jobs/job/trials/{TRIAL}/{kind}/artifacts/{quote(name)}")
                    assert kind == "raw" or visit.width == 360, name
        page = visit.go(f"{home}/jobs/job/trials/{TRIAL}/files/artifacts/page.html")
        assert page.frame_locator("iframe").locator("h1").inner_text() == "drawn all the same"
        page = visit.go(f"{home}/jobs/job/trials/{TRIAL}/files/artifacts/drawing.svg")
        assert page.evaluate("document.querySelector('.drawn-file').naturalWidth") == 90
        assert (visit.dialogs, visit.outside) == ([], [])
        # The picture that is none cannot be drawn, and that is all that is complained about.
        assert [each for each in visit.other_troubles if "ERR_" not in each] == []


@pytest.mark.whole
def test_an_export_opens_from_a_disk_and_asks_for_nothing(browser, job, tmp_path):
    export_jobs([job], tmp_path / "out")
    visit = Visit(browser, tmp_path.as_uri(), viewport={"width": 360, "height": 700}, color_scheme="dark")
    page = visit.go((tmp_path / "out/index.html").as_uri())
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 29)"
    page.locator("h2 a").click()
    page.get_by_role("link", name=TRIAL).first.click()
    page.locator("#files").wait_for()
    found = page.locator("#files a").evaluate_all("all => all.map((link) => [link.textContent, link.href])")
    addresses = {name: address for name, address in found if name in HOSTILE_FILES}
    assert addresses.keys() == HOSTILE_FILES.keys()
    for name, address in addresses.items():
        visit.go(address)
        assert page.inner_text("h1").strip() == f"artifacts/{name}"
        assert visit.width == 360, name
        raw = page.get_by_role("link", name="Raw file").get_attribute("href")
        assert not raw.endswith((".html", ".svg", ".py", ".ipynb"))
    page.get_by_role("link", name=TRIAL).click()
    page.locator("#files").wait_for()
    assert page.get_by_role("link", name="Review").count() == 0
    assert (visit.dialogs, visit.outside) == ([], [])
    assert [each for each in visit.other_troubles if "ERR_" not in each] == []
