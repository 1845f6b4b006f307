"""A stopped process is told from a slow one: by looks at it, not by the clock."""

import os
import signal
import subprocess
import sys

import pytest

from seatrial.sandbox.embedded.watch import ASK_AFTER_LOOKS, SILENT_LOOKS, STOPPED_LOOKS, Look, Watch, look_at
from tests.sandbox.embedded.support import wait_until

IDLE, STOPPED, WAITING_FOR_A_PROCESSOR, ON_DISK = Look("S", 7), Look("T", 7), Look("R", 7), Look("D", 7)


def verdicts(*looks: Look) -> list[str | None]:
    watch = Watch()
    return [watch.note(look) for look in looks]


@pytest.mark.parametrize("stopped", [STOPPED, Look("t", 7)], ids=["by a signal", "by a debugger"])
def test_one_that_stays_stopped_is_given_up(stopped):
    *earlier, last = verdicts(*[stopped] * STOPPED_LOOKS)
    assert not any(earlier)
    assert last
    assert "stopped" in last


def test_one_that_goes_on_in_between_is_not():
    assert not any(verdicts(*[*[STOPPED] * (STOPPED_LOOKS - 1), IDLE] * 5))


@pytest.mark.parametrize("look", [IDLE, ON_DISK], ids=["idle", "on disk"])
def test_one_that_neither_answers_nor_works_is_given_up_after_two_minutes(look):
    *earlier, last = verdicts(*[look] * (SILENT_LOOKS + 1))
    assert not any(earlier)
    assert last


def test_one_that_works_or_waits_for_a_processor_is_slow_and_no_more():
    working = [Look("D", number) for number in range(SILENT_LOOKS * 2)]
    assert not any(verdicts(*working))
    assert not any(verdicts(*[WAITING_FOR_A_PROCESSOR] * SILENT_LOOKS * 2))


def test_it_is_asked_for_a_sign_of_life_before_and_one_is_enough():
    watch = Watch()
    for _ in range(SILENT_LOOKS * 2):
        assert watch.note(IDLE) is None
        if watch.wants_a_sign:
            watch.heard()
    assert not watch.wants_a_sign
    for _ in range(ASK_AFTER_LOOKS):
        watch.note(IDLE)
    assert watch.wants_a_sign


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_a_look_at_a_real_process():
    with subprocess.Popen(["sleep", "1000"]) as process:
        assert not look_at(process.pid).stopped
        os.kill(process.pid, signal.SIGSTOP)
        wait_until(lambda: look_at(process.pid).stopped)
        process.kill()
    assert look_at(process.pid) == Look("", 0)
