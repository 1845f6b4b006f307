"""The page of a trial in a real browser: trials that really ran, keys, more of a conversation, and no complaints."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import start
from tests.cli.test_gc_command import why_no_sandbox
from tests.conftest import REPOSITORY
from tests.report.html.test_browser import browser as browser  # noqa: PLC0414 - the fixture
from tests.report.sample_reports import HOSTILE
from tests.view.trial.trials import told_calls
from tests.view.viewers import BEARER, serving

NOOP, ORACLE = "voltage-drop.noop.1", "voltage-drop.oracle.1"


@pytest.fixture(scope="module")
def job(tmp_path_factory) -> Path:
    """A job that really ran; one of its agents is given a conversation of three pages."""
    if reason := why_no_sandbox():
        pytest.skip(f"embedded sandbox: {reason}")
    folder: Path = tmp_path_factory.mktemp("jobs") / "job"
    run = ("run", "-p", REPOSITORY / "examples/tasks/voltage-drop", "--allow-partial-limits", "--image", "host")
    done = start(*run, "-a", "oracle", "-a", "noop", "-o", folder)
    assert done.code == 0, done.err
    told_calls(folder / "trials" / NOOP, 60, failing=30, text=" ".join(HOSTILE[:8]))
    return folder


class Visit:
    """A page that is open, with everything that it complained about."""

    def __init__(self, browser: Any, address: str, **context: Any) -> None:
        self.page = browser.new_context(extra_http_headers=BEARER, **context).new_page()
        self.page.set_default_timeout(20_000)
        self.troubles: list[str] = []
        self.page.on("console", lambda message: self.troubles.append(message.text))
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.goto(address)


def test_real_trials_by_keys(job, browser):
    with serving(job) as address:
        visit = Visit(browser, f"{address}/jobs/job/trials/{NOOP}/")
        page = visit.page
        assert page.inner_text(".amounts-to strong") == "Failed: it left no output"
        assert page.locator(".turn").count() == 25
        page.locator("a.more-turns").click()
        page.locator("#call-30").wait_for()
        assert page.locator(".turn").count() == 50
        page.keyboard.press("f")
        assert page.evaluate("document.activeElement.id") == "first-failure"
        assert "exit status 2" in page.inner_text("#first-failure")
        page.keyboard.press("?")
        assert page.locator("#keys").is_visible()
        page.keyboard.press("Escape")
        page.keyboard.press("n")
        page.wait_for_url(f"**/{ORACLE}/")
        assert page.inner_text(".amounts-to strong") == "Passed"
        assert "the declared output" in page.inner_text("#changes")
        assert page.locator("#time svg rect.phase").count() >= 3
        page.keyboard.press("p")
        page.wait_for_url(f"**/{NOOP}/")
        page.keyboard.press("f")
        page.wait_for_url("**/conversation?page=2#first-failure")
        assert page.evaluate("window.attacked") is None
        assert visit.troubles == []


def test_narrow_and_without_a_script(job, browser):
    with serving(job) as address:
        narrow = Visit(browser, f"{address}/jobs/job/trials/{NOOP}/", viewport={"width": 360, "height": 700})
        assert narrow.page.evaluate("document.documentElement.scrollWidth") == 360
        bare = Visit(browser, f"{address}/jobs/job/trials/{NOOP}/", java_script_enabled=False)
        assert not bare.page.locator("button.copy").first.is_visible()
        folded = bare.page.locator("details.said.system").first
        folded.locator("summary").click()
        assert folded.locator("pre").is_visible()
        bare.page.locator("a.more-turns").click()
        bare.page.wait_for_url("**/conversation?page=2")
        assert bare.page.locator("#call-30").is_visible()
        assert narrow.troubles + bare.troubles == []
