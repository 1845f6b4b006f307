"""How our own process behaves while it carries out a job or serves a model: which signals end it, and its memory."""

import asyncio
import gc
import signal
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from seatrial.cli.program import collect_less

T = TypeVar("T")


def ending_signals() -> list[signal.Signals]:
    """The signals that end it in good order, besides Ctrl-C: SIGTERM, and the loss of its terminal unless that is
    ignored, as `nohup` has it.
    """
    hang_up = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGTERM, *hang_up]


class _Once:
    """A call that is made the first time only."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call: Callable[[], object] | None = call

    def __call__(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call()


async def cancelled_by_signals(work: Coroutine[Any, Any, T]) -> T:
    """Await some work, which the signals that end us cancel."""
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - a coroutine that runs is in a task
    loop = asyncio.get_running_loop()
    signals = ending_signals()
    # In the loop an exception could hit any trial; cancelling lets each of them tidy up. Only once: a terminal that is
    # closed and an init system send several in a row, and the others must not disturb the tidying up.
    cancel_once = _Once(task.cancel)
    for number in signals:
        loop.add_signal_handler(number, cancel_once)
    try:
        return await work
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


def relax_gc() -> None:
    """Keep the collector from what is there for good, and let more come together before it looks.

    Modules, types and plans stay to the end; going through them again and again is a tenth of what a model call costs
    us. What trials leave behind is freed as before, mostly without any collector. Only for commands of ours: a library
    does not decide this for the program it is part of.
    """
    gc.freeze()  # with what little of it is garbage: to look for that takes longer than a trial
    collect_less()
