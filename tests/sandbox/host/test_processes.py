"""When no more processes can be started, by whose limit."""

import pytest

from seatrial.sandbox.host.gauges import HostProcesses, can_start
from seatrial.sandbox.processor import OwnGroup
from tests.sandbox.host.fakes import found_by


@pytest.fixture
def group(tmp_path):
    def make(**files):
        for name, content in files.items():
            (tmp_path / name.replace("_", ".")).write_text(content)
        return OwnGroup(tmp_path, 2)

    return make


def test_a_user_at_the_limit_is_found_out_by_trying():
    asked = []

    def refuse(count):
        asked.append(count)
        return False

    found = found_by(HostProcesses([], user_limit=2, try_to_start=refuse))
    assert (found.resource, found.capacity, asked) == ("processes", 2, [1])
    assert found.message == "this user (`ulimit -u`) cannot have more processes (2 of 2)"
    assert HostProcesses([], user_limit=2, try_to_start=lambda _: True).read() is None


def test_nothing_is_tried_while_the_whole_machine_has_fewer():
    assert HostProcesses([], user_limit=10**7, try_to_start=lambda _: False).read() is None


def test_a_few_more_can_be_started_here():
    assert can_start(2)
    assert can_start(0)


@pytest.mark.parametrize(
    ("limit", "current", "short"), [("100", "95", True), ("100", "80", False), ("max", "95", False)]
)
def test_a_control_group_around_us_may_be_full(group, limit, current, short):
    found = HostProcesses([group(pids_max=limit, pids_current=current)]).read()
    assert bool(found) is short
    assert found is None or "(95 of 100)" in found.message


def test_a_refusal_of_that_group_is_noticed_afterwards_and_once(group):
    around = group(pids_max="100", pids_current="1", pids_events_local="max 3\n")
    gauge = HostProcesses([around])
    assert gauge.read() is None
    group(pids_events_local="max 4\n")
    assert found_by(gauge).passed
    assert gauge.read() is None


def test_a_limit_below_ours_is_none_of_this_machines(group):
    around = group(pids_max="100", pids_current="1", pids_events="max 3\n")
    gauge = HostProcesses([around])
    group(pids_events="max 9\n")
    assert gauge.read() is None
