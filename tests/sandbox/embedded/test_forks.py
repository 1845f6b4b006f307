"""A child that works for the spawner and is stopped comes to an end; a command of a sandbox may stop and go on."""

import json
import subprocess
import sys

import pytest

from tests.sandbox.embedded.support import needs_root

pytestmark = needs_root

# In a process of its own, which is taken over: signals, and the children of the whole process.
SCRIPT = """
import json, os, select, signal, sys
from seatrial.sandbox.embedded import forks
forks.LOOK_SEC = 0.02
ends = {}
poll = select.poll()
family = forks.Forks(poll)
for name, may_stop in (("helper", False), ("command", True)):
    child = family.start(lambda _: os.kill(os.getpid(), signal.SIGSTOP), may_stop=may_stop)
    child.on_exit = lambda code, name=name: ends.update({name: code})
while "helper" not in ends:
    for descriptor, _ in family.wait():
        family.handle(descriptor)
if "command" not in ends:
    os.kill(child.pid, signal.SIGCONT)
while "command" not in ends:
    for descriptor, _ in family.wait():
        family.handle(descriptor)
print(json.dumps(ends))
"""


@pytest.mark.timeout(60)
def test_only_a_helper_that_stays_stopped_is_killed():
    shown = subprocess.check_output([sys.executable, "-c", SCRIPT], text=True, timeout=50)
    assert json.loads(shown) == {"helper": -9, "command": 0}
