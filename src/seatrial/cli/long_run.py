"""How our own process behaves while it carries out a job or serves a model: which signals end it, and its memory."""

import gc
import signal

_MANY_NEW = 50_000


def ending_signals() -> list[signal.Signals]:
    """The signals that end it in good order, besides Ctrl-C: SIGTERM, and the loss of its terminal unless that is
    ignored, as `nohup` has it.
    """
    hang_up = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGTERM, *hang_up]


def settle_in() -> None:
    """Keep the collector from what is there for good, and let more come together before it looks.

    Modules, types and plans stay to the end; going through them again and again is a tenth of what a model call costs
    us. What trials leave behind is freed as before, mostly without any collector. Only for commands of ours: a library
    does not decide this for the program it is part of.
    """
    gc.collect()
    gc.freeze()
    _, middle, old = gc.get_threshold()
    gc.set_threshold(_MANY_NEW, middle, old)
