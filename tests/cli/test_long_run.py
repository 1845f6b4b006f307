"""Long commands: which signals end them in good order, and what the collector is not concerned with any more."""

import signal
import subprocess
import sys

import pytest

from seatrial.cli.long_run import ending_signals

CHECK = """
import gc
from seatrial.cli.long_run import relax_gc
before = gc.get_threshold()
relax_gc()
assert gc.get_freeze_count() > 1000
assert gc.get_threshold()[0] > before[0]
class Knot: pass
knots = [Knot() for _ in range(9)]
for knot in knots: knot.self = knot
del knots, knot
assert gc.collect() >= 9
"""


def test_only_what_comes_later_is_collected():
    subprocess.run([sys.executable, "-c", CHECK], check=True)


@pytest.mark.parametrize(
    ("handler", "expected"),
    [(signal.SIG_DFL, [signal.SIGTERM, signal.SIGHUP]), (signal.SIG_IGN, [signal.SIGTERM])],
    ids=["usual", "nohup"],
)
def test_a_terminal_that_goes_away_ends_it_unless_that_is_ignored(handler, expected):
    before = signal.signal(signal.SIGHUP, handler)
    try:
        assert ending_signals() == expected
    finally:
        signal.signal(signal.SIGHUP, before)
