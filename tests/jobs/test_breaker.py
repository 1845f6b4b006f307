"""When a job gives up on its machine."""

import pytest

from seatrial.errors import HostExhaustedError, SandboxError
from seatrial.jobs.breaker import Breaker
from seatrial.model.record import Failure
from tests.model.samples import evaluation, record


def failed(cause="SandboxError", phase="setup"):
    return record(evaluation=None, failure=Failure(phase=phase, cause=cause, message="no spawner", retryable=True))


def test_a_machine_that_starts_nothing_any_more_ends_the_job():
    breaker = Breaker()
    for _ in range(15):
        breaker.note(failed(), slots=8)
    with pytest.raises(SandboxError, match=r"16 trials in a row, last: no spawner.*--retry-failed"):
        breaker.note(failed(), slots=8)


@pytest.mark.parametrize(
    "other",
    [record(evaluation=evaluation(1.0)), failed(cause="AgentSetupError"), failed(phase="verify")],
    ids=["judged", "the task's fault", "later"],
)
def test_anything_else_shows_that_the_machine_works(other):
    breaker = Breaker()
    for _ in range(5):
        for _ in range(9):
            breaker.note(failed(), slots=1)
        breaker.note(other, slots=1)


def test_a_machine_that_has_no_room_for_anything_ends_the_job():
    breaker = Breaker()
    for _ in range(9):
        breaker.note(failed(cause="HostExhaustedError", phase="verify"), slots=1)
    with pytest.raises(HostExhaustedError, match=r"10 trials in a row had no room.*--retry-failed"):
        breaker.note(failed(cause="HostExhaustedError", phase="agent"), slots=1)
