"""On a machine that has other things to do, a page may take longer than its readers have patience; tests have it."""

import pytest

from seatrial.view.pages import job
from tests.report.html.test_browser import browser as browser  # noqa: PLC0414 - the fixture, for all of them


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "_PATIENCE_SEC", 60.0)
