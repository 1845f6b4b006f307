"""Time that passed without us, by clocks that are turned by hand."""

import pytest

from seatrial.sandbox.host.pauses import Pauses, waited_sec
from tests.sandbox.host.fakes import found_by


class Clocks:
    """What passed, what we worked, and what we waited for a processor."""

    def __init__(self) -> None:
        self.passed = self.worked = self.waited = 0.0

    def gauge(self) -> Pauses:
        return Pauses(lambda: self.passed, lambda: self.worked, lambda: self.waited)


def test_time_that_passed_without_us_spoils_what_ran_meanwhile():
    clocks = Clocks()
    gauge = clocks.gauge()
    clocks.passed += 25
    found = found_by(gauge)
    assert found.passed
    assert "stopped for 25 s" in found.message
    assert gauge.read() is None


@pytest.mark.parametrize(("passed", "worked", "waited"), [(0.3, 0, 0), (4, 0, 0), (30, 28, 0), (30, 1, 28)])
def test_a_busy_or_starved_process_was_not_stopped(passed, worked, waited):
    clocks = Clocks()
    gauge = clocks.gauge()
    clocks.passed, clocks.worked, clocks.waited = passed, worked, waited
    assert gauge.read() is None


def test_the_kernel_tells_how_long_we_waited():
    assert waited_sec() >= 0.0
