"""Which display suits the output, and that none of them can disturb the job."""

from pathlib import Path

import pytest

from seatrial.cli.progress import Beginning, LinesDisplay, Telling, choose_display
from seatrial.trial.events import Event
from tests.cli.test_progress_board import finished, started


def test_an_observer_that_fails_is_told_nothing_more(caplog: pytest.LogCaptureFixture):
    told = []

    def fail(event: Event) -> None:
        told.append(event)
        raise RuntimeError("boom")

    tell = Telling(fail)
    tell(started("a"))
    tell(started("b"))
    assert told == [started("a")]
    assert "the display failed" in caplog.text


def test_lines_end_with_the_reader(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    display = LinesDisplay(lambda: 0.0)
    display.begin(Beginning("job", Path("job"), 1))
    monkeypatch.setattr("click.echo", lambda _: (_ for _ in ()).throw(BrokenPipeError))
    display.observe(finished("a", 1.0))


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"as_json": True, "quiet": True}, "JsonDisplay"),
        ({"as_json": False, "quiet": True}, "QuietDisplay"),
        ({"as_json": False, "quiet": False}, "LinesDisplay"),
    ],
)
def test_the_display_suits_the_output(options, kind):
    assert type(choose_display(**options)).__name__ == kind


@pytest.mark.parametrize(("term", "kind"), [("xterm", "LiveDisplay"), ("dumb", "LinesDisplay")])
def test_a_terminal_gets_the_live_display_if_it_can_draw(monkeypatch: pytest.MonkeyPatch, term, kind):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", term)
    assert type(choose_display(as_json=False, quiet=False)).__name__ == kind
