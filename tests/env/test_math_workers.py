"""Processes that compare answers: kept, replaced when they end, ended when they hang."""

import sys

import pytest

from seatrial.env.math_workers import MathWorkers
from seatrial.errors import InfraError

SCRIPT = """
import json, os, sys, time
for line in sys.stdin:
    asked = json.loads(line)
    if "die" in asked:
        sys.exit(1)
    if "hang" in asked:
        time.sleep(60)
    print(int(os.getpid() == asked.get("pid", os.getpid())), flush=True)
"""


@pytest.fixture
def workers():
    workers = MathWorkers(1, 20.0, (sys.executable, "-c", SCRIPT))
    yield workers
    workers.close()


def test_a_process_is_kept_for_the_next_question(workers):
    assert workers.ask({})
    worker = workers._free.get()
    workers._free.put(worker)
    assert workers.ask({"pid": worker.pid})
    assert not workers.ask({"pid": 0})
    workers.close()
    assert worker.poll() is not None


def test_one_that_ends_is_an_error_and_replaced(workers):
    with pytest.raises(InfraError, match=r"ended without saying anything of .*die"):
        workers.ask({"die": 1})
    assert workers.ask({})


def test_one_that_hangs_is_ended():
    workers = MathWorkers(1, 0.2, (sys.executable, "-c", SCRIPT))
    with pytest.raises(InfraError, match="hang"):
        workers.ask({"hang": 1})
    workers.close()
