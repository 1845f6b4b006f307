"""The page in a real browser, opened from a file: what is seen, what is clicked, and that nothing else happens."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from seatrial.report.document import make_document
from seatrial.report.html.page import render_html
from tests.analysis.memory_jobs import memory_job, trial
from tests.report.sample_reports import HOSTILE, hostile_job, sample_job

CHROMIUM = shutil.which("chromium")
WITHOUT_BROWSER = "no chromium: install chromium"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser for all tests; of a user who is root it cannot have a sandbox of its own."""
    if CHROMIUM is None:
        pytest.skip(WITHOUT_BROWSER)
    playwright = pytest.importorskip("playwright.sync_api", reason=WITHOUT_BROWSER)
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=CHROMIUM, chromium_sandbox=os.geteuid() != 0)
        yield launched
        launched.close()


class Visit:
    """A page that is open, with everything that it complained about or asked for."""

    def __init__(self, browser: Any, file: Path, **context: Any) -> None:
        self.page = browser.new_context(**context).new_page()
        self.troubles: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.troubles.append(message.text))
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(file.as_uri())

    def wait_for(self, found: str) -> None:
        """Wait until so many trials are listed, in the page's words."""
        self.page.locator("#found").get_by_text(found, exact=True).wait_for(timeout=20_000)

    def rows(self) -> list[str]:
        """The ids of the listed trials."""
        return [str(text) for text in self.page.locator("#list tbody th").all_inner_texts()]

    def colour(self) -> str:
        """What the page's paper looks like."""
        return str(self.page.evaluate("getComputedStyle(document.body).backgroundColor"))

    def width(self) -> int:
        """How wide the page is, with what can only be seen by scrolling."""
        return int(self.page.evaluate("document.documentElement.scrollWidth"))


def write(folder: Path, name: str, *jobs: Any) -> Path:
    file = folder / name
    file.write_bytes(render_html(make_document(jobs), folder))
    return file


@pytest.mark.whole
def test_numbers_lead_to_their_trials(browser, tmp_path):
    file = write(tmp_path, "report.html", sample_job())
    visit = Visit(browser, file)
    visit.wait_for("216 of 216 trials, the first 50 shown")
    visit.page.click("#more")
    assert len(visit.rows()) == 100
    row = visit.page.locator("#rests-on tr", has_text="guesser").first
    row.locator("a").last.click()
    visit.wait_for("3 of 216 trials")
    assert all(".guesser." in trial for trial in visit.rows())
    assert visit.page.input_value("[name=outcome]") == "infrastructure_error"
    lost = visit.page.locator("#differences tbody tr", has_text="guesser").first.locator("td").nth(6)
    tasks = int(lost.inner_text())
    lost.locator("a").click()
    visit.page.locator("#compared").get_by_text("guesser and careful at tasks that the first did worse at").wait_for()
    while visit.page.locator("#more").is_visible():
        visit.page.click("#more")
    assert len({trial.partition(".")[0] for trial in visit.rows()}) == tasks > 5
    assert {trial.split(".")[1] for trial in visit.rows()} == {"guesser", "careful"}
    row.locator("a").last.click()
    visit.wait_for("3 of 216 trials")
    visit.page.select_option("[name=outcome]", "pass")
    visit.wait_for("16 of 216 trials")
    visit.page.fill("[name=task]", "beam-02")
    visit.page.press("[name=task]", "Enter")
    visit.wait_for("9 of 216 trials")
    assert {trial[:7] for trial in visit.rows()} == {"beam-02"}
    visit.page.click("[type=reset]")
    visit.wait_for("216 of 216 trials, the first 50 shown")
    visit.page.locator("#tasks svg a").first.click()
    visit.wait_for("3 of 216 trials")
    assert visit.rows() == ["beam-020.careful.1", "beam-020.careful.2", "beam-020.careful.3"]
    assert visit.page.locator("#list tbody th a").first.get_attribute("href").endswith("/trials/beam-020.careful.1/")
    assert (visit.troubles, visit.requests) == ([], [file.as_uri()])


@pytest.mark.whole
def test_links_of_several_jobs_and_of_rounded_rewards_reach_what_they_count(browser, tmp_path):
    thirds = [trial("t0", "a", 1 / 3, attempt) for attempt in (1, 2, 3)]
    thirds += [trial("t0", "b", float(attempt == 1), attempt) for attempt in (1, 2, 3)]
    steady = [trial("t1", agent, reward) for agent, reward in (("a", 0.25), ("b", 0.5))]
    file = write(tmp_path, "report.html", memory_job(thirds + steady, name="x"), memory_job(steady, name="y"))
    visit = Visit(browser, file)
    for link, found in (
        ("agent=a", 5),
        ("agent=b%20(x)", 4),
        ("agent=b%20(x)&against=a%20(x)&tasks=won", 2),
        ("agent=b%20(x)&against=a%20(x)&tasks=lost", 0),
    ):
        visit.page.evaluate(f"location.hash = '#trials?{link}'")
        visit.wait_for(f"{found} of 10 trials")


@pytest.mark.whole
def test_light_dark_narrow_and_without_a_script(browser, tmp_path):
    file = write(tmp_path, "report.html", sample_job())
    light = Visit(browser, file, color_scheme="light")
    dark = Visit(browser, file, color_scheme="dark", viewport={"width": 360, "height": 700})
    assert (light.colour(), dark.colour()) == ("rgb(253, 252, 250)", "rgb(20, 24, 29)")
    assert dark.width() == 360
    dark.page.click("#theme")
    assert dark.colour() == light.colour()
    dark.page.reload()
    assert dark.colour() == light.colour()
    bare = Visit(browser, file, java_script_enabled=False)
    assert bare.page.locator("noscript").inner_text().endswith("seatrial show --all /jobs/bridge-checks")
    assert not bare.page.locator("#filters").is_visible()
    assert light.troubles + dark.troubles + bare.troubles == []


CONTRASTS = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const light = (element) => {
    canvas.fillStyle = getComputedStyle(element).fill;
    canvas.fillRect(0, 0, 1, 1);
    const parts = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((each) => each / 255);
    const [red, green, blue] = parts.map((each) => (each <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05;
  };
  return [...document.querySelectorAll("#tasks .heat:not(.none)")].map((square) => {
    const both = [light(square), light(square.parentNode.querySelector("text"))];
    return [square.classList[1], Math.max(...both) / Math.min(...both)];
  });
}"""


@pytest.mark.whole
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_number_of_the_heat_map_can_be_read(browser, tmp_path, scheme):
    rewards = [0.0, *(step / 9 - 0.05 for step in range(1, 10)), 1.0]
    job = memory_job([trial(f"t{number}", "a", reward) for number, reward in enumerate(rewards)])
    found = Visit(browser, write(tmp_path, "report.html", job), color_scheme=scheme).page.evaluate(CONTRASTS)
    assert {shade for shade, _ in found} == {f"h{number}" for number in range(11)}
    assert [shade for shade, contrast in found if contrast < 4.5] == []


@pytest.mark.whole
def test_on_paper_no_table_is_cut_off_and_no_short_name_is_broken(browser, tmp_path):
    paper = Visit(browser, write(tmp_path, "report.html", sample_job()), viewport={"width": 720, "height": 1000})
    paper.page.emulate_media(media="print")
    assert paper.width() == 720
    names = paper.page.locator("#agents tbody th a")
    assert [names.nth(at).evaluate("link => link.getClientRects().length") for at in range(3)] == [1, 1, 1]


@pytest.mark.whole
def test_hostile_names_are_shown_and_do_nothing(browser, tmp_path):
    file = write(tmp_path, "report.html", hostile_job())
    visit = Visit(browser, file, viewport={"width": 360, "height": 700})
    links = visit.page.locator("#agents table a, #failures table a, #tasks svg a")
    for link in links.all()[::7]:
        link.evaluate("link => ['mouseover', 'click'].forEach((kind) => link.dispatchEvent(new MouseEvent(kind)))")
    visit.page.goto(f"{file.as_uri()}#trials?task=%E0%A4&agent=nobody&<script>")
    visit.wait_for("0 of 22 trials")
    visit.page.evaluate("task => location.hash = '#trials?task=' + encodeURIComponent(task)", HOSTILE[2])
    visit.wait_for("2 of 22 trials")
    assert HOSTILE[2] in visit.page.inner_text("#list")
    assert visit.page.evaluate("window.attacked") is None
    assert visit.width() == 360
    assert visit.troubles == []
    assert {request.partition("#")[0] for request in visit.requests} == {file.as_uri()}
