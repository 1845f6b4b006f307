"""Which SIGINTs get through. Real runs that are interrupted are in test_killed.py."""

import signal
import threading

from seatrial.jobs.api import one_interrupt


def test_only_the_first_one_gets_through():
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        with one_interrupt():
            for _ in range(3):
                signal.raise_signal(signal.SIGINT)
        assert heard == [signal.SIGINT]
        signal.raise_signal(signal.SIGINT)
        assert len(heard) == 2, "afterwards all is as it was"
    finally:
        signal.signal(signal.SIGINT, before)


def test_signals_that_are_ignored_stay_so():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with one_interrupt():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_may_not_and_need_not():
    done: list[bool] = []

    def work():
        with one_interrupt():
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]
