"""What is there when a job starts is no concern of the collector any more; what comes later is."""

import subprocess
import sys

CHECK = """
import gc
from seatrial.cli.long_run import settle_in
before = gc.get_threshold()
settle_in()
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
