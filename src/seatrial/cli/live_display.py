"""The live display of a job on a terminal: a bar, the trials that run, how it stands, and when it will be done.

It draws when something has happened, at most five times a second, and once a second while trials run, for their ages.
"""

import asyncio
import time
from collections.abc import Callable
from itertools import islice
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from seatrial.analysis.figures import OUTCOMES
from seatrial.cli.progress import Beginning, Board, Ending, Telling, TrialLines, conclude_in_words, notice_line
from seatrial.cli.screen import OUTCOME_COLOURS
from seatrial.model.events import Notice
from seatrial.model.outcome import format_mean
from seatrial.report.text import format_cost, format_duration, harmless
from seatrial.trial.events import Event, RolloutFinished, TrialFinished, TrialPassedOver, TrialRetried

_SHORTEST_SEC = 0.2
_TICK_SEC = 1.0
_ROWS = 12
_OTHER_LINES = 4
_INDENT = 4  # of what does not fit on the first line of a trial


class Timer(Protocol):
    """A call that is still to come."""

    def cancel(self) -> None: ...


Later = Callable[[float, Callable[[], None]], Timer]


def _on_the_loop(delay: float, call: Callable[[], None]) -> Timer:
    return asyncio.get_running_loop().call_later(delay, call)


class LiveDisplay:
    """Draws the board. `later` calls a function after a delay, on the thread that brings the events."""

    def __init__(
        self,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
        later: Later = _on_the_loop,
    ) -> None:
        self._clock = clock
        self._later = later
        self._timer: Timer | None = None
        self._due = 0.0
        self._drawn = -_SHORTEST_SEC
        self._console = console or Console()
        self._live: Live | None = None
        self.observe: Callable[[Event], None] = Telling(self._take)

    def begin(self, job: Beginning) -> None:
        self._name = str(job.folder)
        self._board = Board(job.planned, job.earlier, self._clock())
        self._lines = TrialLines(job.limits)
        self._starts_unheard = job.unit == "rollout"
        self._live = Live(get_renderable=self._render, console=self._console, auto_refresh=False, transient=True)
        self._live.start(refresh=True)

    def _take(self, event: Event) -> None:
        self._board.apply(event, self._clock())
        if isinstance(event, TrialRetried):
            self._say(self._lines.retried(event))
        elif isinstance(event, TrialPassedOver):
            self._say(self._lines.passed_over(event))
        elif isinstance(event, Notice):
            self._say(notice_line(event))
        elif line := self._noteworthy(event):
            self._say(line)
        self._draw_within(_SHORTEST_SEC)

    def _noteworthy(self, event: Event) -> str | None:
        if isinstance(event, RolloutFinished):
            return self._lines.noteworthy_rollout(event)
        return self._lines.noteworthy(event.record) if isinstance(event, TrialFinished) else None

    def _say(self, line: str) -> None:
        first, *rest = Text.from_ansi(line).wrap(self._console, self._console.width - _INDENT) or [Text()]
        self._console.print(first)
        for more in rest:
            self._console.print(Padding(more, (0, 0, 0, _INDENT)))

    def _draw_within(self, delay: float) -> None:
        now = self._clock()
        due = max(now, self._drawn + delay)
        if self._timer is not None:
            if self._due <= due:
                return
            self._timer.cancel()
        self._due = due
        self._timer = self._later(due - now, self._draw)

    def _draw(self) -> None:
        self._timer = None
        self._drawn = self._clock()
        try:
            if self._live is not None:
                self._live.refresh()
        except OSError:  # the terminal is gone; the job is not
            return
        if self._board.running or (self._starts_unheard and self._board.finished < self._board.planned):
            self._draw_within(_TICK_SEC)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._live is not None:
            self._live.stop()
            self._live = None

    def conclude(self, end: Ending) -> None:
        conclude_in_words(end)

    def _render(self) -> RenderableType:
        board, now = self._board, self._clock()
        return Group(self._bar(board, now), _counts(board), _running(board, now, self._room()))

    def _room(self) -> int:
        return max(1, min(_ROWS, self._console.height - _OTHER_LINES))

    def _bar(self, board: Board, now: float) -> Table:
        left = board.remaining_sec(now)
        eta = f"about {format_duration(left)} left" if left else ""
        line = Table.grid(padding=(0, 2))
        line.add_row(
            Text(harmless(self._name), style="bold"),
            ProgressBar(total=max(1, board.planned), completed=board.finished, width=30, complete_style="green"),
            Text(f"{board.finished}/{board.planned}"),
            Text(format_duration(board.elapsed_sec(now))),
            Text(eta),
        )
        return line


def _counts(board: Board) -> Text:
    words = [
        (f"{board.counts[outcome]} {outcome}", OUTCOME_COLOURS[outcome])
        for outcome in OUTCOMES
        if board.counts[outcome]
    ]
    if board.unjudged:
        words.append((f"{board.unjudged} not judged", ""))
    if board.retries:
        words.append((f"{board.retries} retried", "magenta"))
    if nodes := {trial.node for trial in board.running.values() if trial.node}:
        words.append((f"on {len(nodes)} {'node' if len(nodes) == 1 else 'nodes'}", ""))
    if means := board.means():
        words.append(
            (f"mean: {', '.join(f'{harmless(agent)} {format_mean(mean)}' for agent, mean in means.items())}", "bold")
        )
    if board.cost_usd is not None:
        words.append((format_cost(board.cost_usd), ""))
    return Text("  ").join(Text(word, style=style) for word, style in words)


def _running(board: Board, now: float, room: int) -> Table:
    """The trials that run, oldest first: those are the ones to wonder about."""
    table = Table.grid(padding=(0, 2))
    for trial in islice(board.running.values(), room):
        where = f"on {trial.node}" if trial.node else ""
        again = f"try {trial.tries}" if trial.tries > 1 else ""
        table.add_row(
            Text(harmless(trial.trial_id), overflow="ellipsis", no_wrap=True),
            Text(harmless(trial.phase), style="cyan"),
            Text(format_duration(now - trial.since)),
            Text(harmless(where), style="dim"),
            Text(again),
        )
    if (hidden := len(board.running) - room) > 0:
        table.add_row(Text(f"and {hidden} more", style="dim"))
    return table
