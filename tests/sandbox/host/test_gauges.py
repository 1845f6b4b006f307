"""When memory counts as used up, and by whom it was."""

import pytest

from seatrial.sandbox.host.gauges import Memory, Pauses, waited_sec
from seatrial.sandbox.processor import OwnGroup
from tests.sandbox.host.fakes import found_by

GIB_IN_KB = 2**20


@pytest.fixture
def machine(tmp_path):
    def tell(kills=0, stalls=0, available=GIB_IN_KB, swap=0):
        (tmp_path / "vmstat").write_text(f"nr_free_pages 7\nallocstall_normal {stalls}\noom_kill {kills}\n")
        meminfo = f"MemTotal:  {2 * GIB_IN_KB} kB\nMemAvailable: {available} kB\nSwapFree: {swap} kB\n"
        (tmp_path / "meminfo").write_text(meminfo)
        return str(tmp_path)

    return tell


@pytest.fixture
def group(tmp_path):
    def make(version, **files):
        for name, content in files.items():
            (tmp_path / name.replace("__", ".")).write_text(content)
        return OwnGroup(tmp_path, version)

    return make


def test_a_kill_of_a_machine_that_is_short_is_the_machines(machine):
    gauge = Memory([], machine(kills=5, stalls=5))
    assert gauge.read() is None
    machine(kills=6, stalls=9)
    found = found_by(gauge)
    assert found.passed
    assert found.message.startswith("this machine ran out of memory (2.0 GiB)")
    assert gauge.read() is None


def test_a_kill_by_somebodys_own_limit_is_not(machine):
    gauge = Memory([], machine(kills=5, stalls=5))
    machine(kills=9, stalls=5)
    assert gauge.read() is None


@pytest.mark.parametrize(("available", "swap", "short"), [(20_000, 0, True), (20_000, GIB_IN_KB, False)])
def test_hardly_any_memory_left_is_a_shortage_unless_there_is_swap(machine, available, swap, short):
    found = Memory([], machine(available=available, swap=swap)).read()
    assert bool(found) is short
    assert found is None or not found.passed


def test_a_control_group_around_us_may_run_out(machine, group):
    around = group(2, memory__max=str(300 * 2**20), memory__events__local="oom 1\noom_kill 1\n")
    gauge = Memory([around], machine())
    assert gauge.read() is None
    group(2, memory__events__local="oom 2\noom_kill 2\n")
    assert found_by(gauge).message.endswith("ran out of memory (its limit is 300.0 MiB)")


def test_version_1_counts_pressure_too_so_a_kill_must_come_with_it(machine, group):
    around = group(1, memory__limit_in_bytes=str(300 * 2**20), memory__failcnt="1")
    gauge = Memory([around], machine(kills=1))
    group(1, memory__failcnt="5")
    assert gauge.read() is None
    group(1, memory__failcnt="6")
    machine(kills=2)
    assert found_by(gauge).passed


def test_a_group_without_a_limit_is_not_looked_at(machine, group):
    gauge = Memory([group(1, memory__limit_in_bytes=str(2**63 - 4096), memory__failcnt="0")], machine())
    group(1, memory__failcnt="5")
    machine(kills=9)
    assert gauge.read() is None


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
