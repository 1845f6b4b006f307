"""The live display: what it shows, how often it draws, and that nothing on the screen disturbs the job."""

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from seatrial.cli.live_display import LiveDisplay
from seatrial.cli.progress import Beginning
from seatrial.trial.events import PhaseStarted, RolloutFinished, TrialPassedOver, TrialRetried
from tests.cli.conftest import on_terminal
from tests.cli.job_folders import BROKEN, FLAKY
from tests.cli.test_progress import finished, started


class Clock:
    """A clock that stands still until told, and calls what was asked for when its time has come."""

    def __init__(self) -> None:
        self.now = 100.0
        self.calls: list[tuple[float, Callable[[], None]]] = []

    def __call__(self) -> float:
        return self.now

    def later(self, delay: float, call: Callable[[], None]) -> "Appointment":
        self.calls.append((self.now + delay, call))
        return Appointment(self, self.calls[-1])

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while due := sorted((call for call in self.calls if call[0] <= end), key=lambda call: call[0]):
            self.calls.remove(due[0])
            self.now = max(self.now, due[0][0])
            due[0][1]()
        self.now = end


class Appointment:
    def __init__(self, clock: Clock, call: tuple[float, Callable[[], None]]) -> None:
        self.clock, self.call = clock, call

    def cancel(self) -> None:
        self.clock.calls.remove(self.call)


@pytest.fixture
def clock() -> Clock:
    return Clock()


class Screen(io.StringIO):
    """A terminal that counts how often it is written to."""

    def __init__(self) -> None:
        super().__init__()
        self.flushes = 0

    def isatty(self) -> bool:
        return True

    def flush(self) -> None:
        self.flushes += 1


@pytest.fixture
def screen() -> Screen:
    return Screen()


@pytest.fixture
def live(clock: Clock, screen: Screen):
    console = Console(file=screen, force_terminal=True, width=160, height=40, color_system=None)
    display = LiveDisplay(console, clock, clock.later)
    display.begin(Beginning("job", Path("jobs/job"), 100))
    yield display
    display.close()


def test_it_shows_the_state(live: LiveDisplay, clock: Clock, screen: Screen):
    live.observe(started("volts.1"))
    live.observe(PhaseStarted("volts.1", "agent"))
    live.observe(finished("crc.1", 1.0))
    live.observe(finished("beam.1", 0.5))
    clock.advance(10)
    shown = screen.getvalue()
    for part in ("jobs/job", "2/100", "1 pass", "1 partial", "mean: oracle 0.750", "volts.1", "agent", "left"):
        assert part in shown


def test_a_burst_of_events_is_drawn_once(live: LiveDisplay, clock: Clock, screen: Screen):
    clock.advance(1)
    before = screen.flushes
    for index in range(1000):
        live.observe(finished(f"t{index}", 1.0))
    assert len(clock.calls) == 1
    clock.advance(0.0)
    per_draw = screen.flushes - before
    for _ in range(100):
        live.observe(finished("again", 1.0))
        clock.advance(0.01)
    assert screen.flushes - before <= per_draw * (1 + 5 + 1)


def test_ages_go_on_while_trials_run_and_nothing_happens_after(live: LiveDisplay, clock: Clock, screen: Screen):
    live.observe(started("slow"))
    clock.advance(65)
    assert "1 min 0" in screen.getvalue()
    live.observe(finished("slow", 1.0))
    clock.advance(5)
    assert clock.calls == []


def test_of_many_running_trials_a_few_are_shown(live: LiveDisplay, clock: Clock, screen: Screen):
    for index in range(100):
        live.observe(started(f"trial-{index:03}"))
    clock.advance(1)
    shown = screen.getvalue()
    assert "trial-011" in shown
    assert "trial-012" not in shown
    assert "and 88 more" in shown


def test_what_was_not_judged_stays_above(live: LiveDisplay, screen: Screen):
    live.observe(finished("disk", BROKEN))
    live.observe(TrialRetried("net", 1, FLAKY))
    live.observe(TrialPassedOver("old", "no end state was kept"))
    assert "old: no end state was kept" in screen.getvalue()
    told = "disk: the disk  [31mburns (SandboxError, while the sandbox was set up)"
    assert f"infrastructure_error      -    2.0 s  {told}" in screen.getvalue()
    assert "trying again                   try 2  net: the same as disk" in screen.getvalue()


def test_names_do_not_steer_the_terminal(live: LiveDisplay, clock: Clock, screen: Screen):
    live.observe(started("[red]\x1b]0;owned\x07"))
    clock.advance(1)
    assert "[red] ]0;owned" in screen.getvalue()
    assert "\x1b]0;" not in screen.getvalue()


def test_a_terminal_that_goes_away_does_not_disturb(live: LiveDisplay, clock: Clock, screen: Screen, monkeypatch):
    def gone(*_: object) -> int:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(screen, "write", gone)
        live.observe(started("a"))
        clock.advance(1)
        live.observe(finished("a", BROKEN))
        live.observe(started("b"))
        clock.advance(5)


def test_a_terminal_gets_the_live_display_and_then_the_summary(tmp_path):
    """The real thing: an event loop, a pseudo-terminal, trials that come to an end."""
    script = f"""
import asyncio
from pathlib import Path
from seatrial.cli.progress import Beginning, Ending, choose_display
from seatrial.analysis.summary import summarise
from seatrial.trial.events import *
from tests.cli.job_folders import record

async def job(display):
    display.observe(TrialStarted("volts.1", "volts", "oracle"))
    display.observe(PhaseStarted("volts.1", "verify"))
    drawn = asyncio.Event()
    refresh = display._live.refresh
    display._live.refresh = lambda: (refresh(), drawn.set())
    await drawn.wait()
    display.observe(TrialFinished(record("volts", 1.0)))

display = choose_display(as_json=False, quiet=False)
display.begin(Beginning("job", Path({str(tmp_path)!r}), 7))
asyncio.run(job(display))
display.close()
display.conclude(Ending(Path("job"), "complete", summarise([], {{"oracle": 7}}), [], 0))
"""
    shown = on_terminal((sys.executable, "-c", f"import sys; sys.path.insert(0, {str(Path.cwd())!r})\n{script}"))
    assert "0/7" in shown
    assert "verify" in shown
    assert "\x1b[?25l" in shown
    assert shown.index("\x1b[?25h") < shown.index("7 not run yet")
    assert "Traceback" not in shown


def test_the_clock_of_an_evaluation_goes_on_until_all_rollouts_are_there(
    live: LiveDisplay, clock: Clock, screen: Screen
):
    live.close()
    live.begin(Beginning("job", Path("job"), 2, unit="rollout"))
    for number in range(2):
        live.observe(RolloutFinished(f"example 0.{number}", "toy", "pass", 1.0))
        clock.advance(65)
        assert (clock.calls == []) is (number == 1)
    assert "1 min 05 s" in screen.getvalue()
