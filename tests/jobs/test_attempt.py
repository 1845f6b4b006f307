"""How much memory a trial counts for before it may start."""

import pytest

from seatrial.jobs.attempt import backoff_sec, company_for, should_retry
from seatrial.jobs.places import memory_of
from seatrial.model.job import TrialOptions
from seatrial.model.record import Failure
from seatrial.tasks.load import load_task
from tests.jobs.samples import broken_machine

OWN = "[environment]\nmemory_mb = 100\n"
SEPARATE = f'{OWN}[verifier]\nenvironment_mode = "separate"\n'


@pytest.mark.parametrize(
    ("toml", "options", "memory_mb"),
    [
        (OWN, {}, 100),
        (OWN, {"memory_mb": 700}, 700),
        ("", {}, 0),
        (SEPARATE, {}, 200),
        (SEPARATE, {"memory_mb": 700}, 1400),
        (f"{SEPARATE}[verifier.environment]\nmemory_mb = 50\n", {"memory_mb": 700}, 750),
        (OWN, {"isolation": "separate"}, 200),
    ],
)
def test_memory_of_a_trial(make_task, toml, options, memory_mb):
    assert memory_of(load_task(make_task(toml=toml)), TrialOptions(**options)) == memory_mb


@pytest.mark.parametrize(("tries", "retries", "again"), [(1, 0, False), (1, 1, True), (2, 1, False), (2, 2, True)])
def test_as_often_as_allowed(tries, retries, again):
    assert should_retry(broken_machine(), tries, retries) is again


def test_what_cannot_pass_is_not_tried_again():
    assert not should_retry(broken_machine(retryable=False), 1, 5)
    assert not should_retry(Failure(kind="cancelled", phase="agent", cause="x", message="y", retryable=True), 1, 5)


@pytest.mark.parametrize("cause", ["NodeLostError", "NodeUnreachableError"])
def test_what_is_lost_with_its_node_has_more_tries_but_not_without_end(cause):
    failure = Failure(phase="setup", cause=cause, message="the node has died", retryable=True)
    assert [should_retry(failure, tries, 0) for tries in (1, 10, 11)] == [True, True, False]
    assert should_retry(failure, 11, 12)


def test_at_once_first_then_ever_longer_up_to_a_limit():
    waits = [backoff_sec(tries) for tries in range(1, 12)]
    assert waits[0] == 0.0
    assert waits == sorted(waits)
    assert 0 < waits[1] < waits[2]
    assert backoff_sec(10_000) == waits[-1] <= 60


@pytest.mark.parametrize(
    ("cause", "tries", "company"),
    [
        ("HostExhaustedError", 1, "others"),
        ("HostExhaustedError", 2, "none"),
        ("HostBusyError", 1, "others"),
        ("HostBusyError", 2, "none"),
        ("SandboxError", 2, "others"),
    ],
)
def test_on_a_machine_that_was_full_or_busy_the_last_try_is_made_alone(cause, tries, company):
    failure = Failure(phase="score", cause=cause, message="full", retryable=True)
    assert company_for(failure, tries, 2) == company
