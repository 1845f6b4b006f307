"""Time that others use the processors: how it is measured, what deadlines make of it, how many verifiers may begin."""

import asyncio
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest

import seatrial.sandbox.processor as processor_module
from seatrial.sandbox.api import HOST_IMAGE, Network, SandboxSpec
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from seatrial.sandbox.local import LocalBackend
from seatrial.sandbox.processor import (
    Meter,
    OwnGroup,
    VerifierSeats,
    deadline,
    machine_busy_sec,
    own_groups,
    processors,
)
from tests.sandbox.embedded.support import needs_root, python

USES_A_PROCESSOR = "while True: pass"


@contextmanager
def busy_machine(times: int = 4) -> Iterator[None]:
    """Keep all processors busy with so many processes each."""
    command = [sys.executable, "-c", USES_A_PROCESSOR]
    burners = [subprocess.Popen(command) for _ in range(times * processors())]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


class Scripted:
    """Processes and a machine of two processors, of which a test says what they did in `passed` seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ran: float | None, waited: float | None, busy: float) -> None:
        monkeypatch.setattr(processor_module, "processors", lambda: 2)
        self._amounts = {"ran": ran, "waited": waited, "busy": busy, "passed": 6.0}
        self._over = False
        self.meter = Meter(self, lambda: self._now("busy") or 0.0, lambda: self._now("passed") or 0.0)
        self._over = True

    def _now(self, name: str) -> float | None:
        """One hundred at the beginning, and as much more at the end as the test has said."""
        amount = self._amounts[name]
        return None if amount is None else 100.0 + amount * self._over

    def processor_times(self) -> tuple[float | None, float | None]:
        return self._now("ran"), self._now("waited")

    def members(self) -> set[int]:
        return set()


@pytest.mark.parametrize(
    ("ran", "waited", "busy", "kept_waiting"),
    [
        pytest.param(1.5, 4.5, 12.0, 4.5, id="one process beside seven"),
        pytest.param(6.0, 6.0, 12.0, 3.0, id="four threads beside four"),
        pytest.param(12.0, 6.0, 12.0, 0.0, id="a hundred threads of its own"),
        pytest.param(0.0, 0.0, 12.0, 0.0, id="asleep on a busy machine"),
        pytest.param(3.0, 3.0, 3.0, 0.0, id="held back by its own limit"),
        pytest.param(0.5, 9.0, 60.0, 6.0, id="never more than the time that passed"),
        pytest.param(1.5, None, 12.0, None, id="a kernel without figures"),
        pytest.param(None, None, 12.0, None, id="no control group"),
    ],
)
def test_what_others_took_is_told_from_what_is_its_own(monkeypatch, ran, waited, busy, kept_waiting):
    meter = Scripted(monkeypatch, ran, waited, busy).meter
    assert meter.read() == (kept_waiting or 0.0)
    assert (meter.wait_sec, meter.cpu_sec) == (kept_waiting, ran)


def test_nobody_looks_at_the_whole_machine_for_what_was_never_kept_waiting(monkeypatch):
    scripted = Scripted(monkeypatch, ran=1.5, waited=0.0, busy=12.0)

    def refuse() -> int:
        raise AssertionError("processors were counted")

    monkeypatch.setattr(processor_module, "processors", refuse)
    assert scripted.meter.read(ended=True) == 0.0
    assert (scripted.meter.wait_sec, scripted.meter.cpu_sec) == (0.0, 1.5)


class Waits:
    """A meter that has found so much when it is read, one after the other, and says so when it was read last."""

    alive = True

    def __init__(self, *found: float) -> None:
        self._found = list(found)
        self.ended = asyncio.Event()

    def read(self, *, ended: bool = False) -> float:
        found = self._found.pop(0)
        if not self._found:
            self.ended.set()
        return found


@pytest.mark.parametrize(
    ("found", "patience", "reads"),
    [
        pytest.param([0.0], 1.0, 1, id="nothing kept it waiting"),
        pytest.param([0.03, 0.06, 0.06, 9.0], 1.0, 3, id="later, until nothing more is added"),
        pytest.param([0.03, 9.0, 9.0, 9.0], 0.06, 3, id="up to the bound"),
    ],
)
def test_a_deadline_is_put_off_by_what_others_took(found, patience, reads):
    async def run() -> list[float]:
        meter = Waits(*found)
        with pytest.raises(TimeoutError):
            async with deadline(0.01, patience, meter):  # type: ignore[arg-type]
                await asyncio.Event().wait()
        return meter._found

    assert asyncio.run(asyncio.wait_for(run(), 20)) == found[reads:]


def test_work_that_ends_in_the_time_that_was_added_has_ended():
    async def run() -> str:
        meter = Waits(5.0)
        async with deadline(0.01, 10.0, meter):  # type: ignore[arg-type]
            await meter.ended.wait()
        return "ended"

    assert asyncio.run(asyncio.wait_for(run(), 4)) == "ended"


@pytest.mark.parametrize("patience", [None, 0.0])
def test_without_patience_the_time_is_over_at_once(patience):
    async def run() -> None:
        with pytest.raises(TimeoutError):
            async with deadline(0.01, patience, Waits(5.0)):  # type: ignore[arg-type]
                await asyncio.Event().wait()

    asyncio.run(asyncio.wait_for(run(), 20))


@pytest.mark.parametrize(
    ("version", "files", "count"),
    [
        (2, {"cpu.max": "max 100000"}, 64),
        (2, {"cpu.max": "150000 100000"}, 2),
        (2, {"cpu.max": "10000 100000"}, 1),
        (1, {"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"}, 64),
        (1, {"cpu.cfs_quota_us": "300000", "cpu.cfs_period_us": "100000"}, 3),
        (2, {}, 64),
    ],
)
def test_processors_are_those_that_a_quota_leaves(tmp_path, monkeypatch, version, files, count):
    for name, text in files.items():
        (tmp_path / name).write_text(f"{text}\n")
    monkeypatch.setattr(processor_module, "own_groups", lambda _: (OwnGroup(tmp_path, version),))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    assert processors() == count


class Room:
    """Verifiers on seats: who is in, by name; all of them leave when they are told."""

    def __init__(self, count: int = 2) -> None:
        self.now, self.wanted = 100.0, 0.0
        self.seats = VerifierSeats(count, lambda: self.now)
        self.inside: list[str] = []
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._leave: dict[str, asyncio.Event] = {}

    async def come(self, *names: str, alone: bool = False) -> list[str]:
        for name in names:
            self._leave[name] = asyncio.Event()
            self._tasks[name] = asyncio.ensure_future(self._sit(name, alone))
        return await self.look_around()

    async def _sit(self, name: str, alone: bool) -> None:
        async with self.seats.take(alone=alone):
            Meter(self, clock=lambda: self.now)
            self.inside.append(name)
            try:
                await self._leave[name].wait()
            finally:
                self.inside.remove(name)

    async def leave(self, name: str) -> list[str]:
        self._leave[name].set()
        await self._tasks[name]
        return await self.look_around()

    async def cancel(self, name: str) -> list[str]:
        self._tasks[name].cancel()
        return await self.look_around()

    async def pass_time(self, seconds: float, wanted: float) -> list[str]:
        """Let time pass, for so much of which each of them ran or waited for a processor, half of it each."""
        self.now += seconds
        self.wanted += wanted
        self.seats.look()
        return await self.look_around()

    def processor_times(self) -> tuple[float, float]:
        return self.wanted / 2, self.wanted / 2

    def members(self) -> set[int]:
        return set()

    async def look_around(self) -> list[str]:
        for _ in range(5):
            await asyncio.sleep(0)
        return list(self.inside)


def test_only_so_many_verifiers_work_at_once_in_their_order():
    async def run() -> None:
        room = Room()
        assert await room.come("a", "b", "c", "d") == ["a", "b"]
        assert await room.leave("a") == ["b", "c"]
        assert await room.leave("b") == ["c", "d"]

    asyncio.run(run())


def test_one_that_is_alone_waits_for_the_others_and_they_for_it():
    async def run() -> None:
        room = Room()
        assert await room.come("a") == ["a"]
        await room.come("alone", alone=True)
        assert await room.come("b") == ["a"]
        assert await room.pass_time(1.0, wanted=0.0) == ["a"]
        assert await room.leave("a") == ["alone"]
        assert await room.pass_time(1.0, wanted=0.0) == ["alone"]
        assert await room.leave("alone") == ["b"]

    asyncio.run(run())


def test_whoever_is_cancelled_keeps_nobody_waiting():
    async def run() -> None:
        room = Room()
        await room.come("a", "b")
        await room.come("alone", alone=True)
        await room.come("c")
        assert await room.cancel("alone") == ["a", "b"]
        assert await room.cancel("a") == ["b", "c"]
        room._leave["b"].set()
        await room.come("d")
        assert await room.cancel("d") == ["c"]
        assert await room.come("e") == ["c", "e"]

    asyncio.run(run())


def test_one_that_is_let_in_and_cancelled_at_the_same_moment_leaves_its_seat():
    async def run() -> None:
        room = Room(1)
        await room.come("a", "b")
        room._leave["a"].set()
        await asyncio.sleep(0)
        room._tasks["b"].cancel()
        assert await room.come("c") == ["c"]

    asyncio.run(run())


def test_all_that_are_cancelled_at_once_leave_every_seat_free():
    async def run() -> None:
        room = Room(1)
        await room.come("a", "b", "c")
        for name in "abc":
            room._tasks[name].cancel()
        assert await room.come("d") == ["d"]
        assert all(room._tasks[name].cancelled() for name in "abc")

    asyncio.run(run())


def test_more_are_let_in_while_those_who_are_in_have_no_use_for_a_processor():
    async def run() -> None:
        room = Room()
        await room.come(*"abcdefgh")
        assert await room.pass_time(0.25, wanted=0.25) == ["a", "b"]
        assert await room.pass_time(0.05, wanted=0.0) == ["a", "b"]
        assert await room.pass_time(0.20, wanted=0.1) == ["a", "b", "c"]
        assert await room.pass_time(0.25, wanted=0.01) == ["a", "b", "c", "d", "e"]
        assert await room.leave("a") == ["b", "c", "d", "e"]
        assert await room.pass_time(0.25, wanted=0.5) == ["b", "c", "d", "e"]

    asyncio.run(run())


def test_seats_are_as_many_as_there_are_processors():
    async def run() -> None:
        room = Room(0)
        names = [str(number) for number in range(processors() + 1)]
        assert await room.come(*names) == names[:-1]

    asyncio.run(run())


def test_seats_follow_a_quota_that_changes_but_do_not_ask_for_each_verifier(monkeypatch):
    quotas, asked = [1, 2], list[int]()

    def processors_now() -> int:
        asked.append(quotas[0])
        return quotas[0]

    monkeypatch.setattr(processor_module, "processors", processors_now)

    async def run() -> None:
        room = Room(0)
        assert await room.come("a", "b", "c") == ["a"]
        del quotas[0]
        room.now += 1.0
        assert await room.leave("a") == ["b", "c"]
        assert await room.come("d") == ["b", "c"]
        assert asked == [1, 2]

    asyncio.run(run())


@pytest.mark.alone
def test_the_machine_tells_what_it_does():
    before = machine_busy_sec()
    with busy_machine(1):
        while machine_busy_sec() == before:
            pass
    assert 0 < before < machine_busy_sec() < math.inf


@pytest.mark.alone
@needs_root
@pytest.mark.filterwarnings("ignore::seatrial.sandbox.local.UnisolatedWarning")
@pytest.mark.parametrize("backend", [EmbeddedBackend, LocalBackend])
def test_a_sandbox_tells_what_its_command_got_and_for_how_long_it_had_to_wait(backend):
    work = python("import time\nwhile time.process_time() < 0.5: pass", patience_sec=0.0, network=Network("host"))

    async def run() -> None:
        async with backend() as made:
            sandbox = await made.create(SandboxSpec(HOST_IMAGE))
            unmeasured = await sandbox.exec(python("pass", network=Network("host")))
            assert (unmeasured.cpu_sec, unmeasured.cpu_wait_sec) == (None, None)
            with busy_machine():
                ended = await sandbox.exec(work)
            assert ended.exit_code == 0, ended
            assert ended.cpu_sec is None or 0.45 < ended.cpu_sec < 5
            assert ended.cpu_wait_sec is None or 0 < ended.cpu_wait_sec < ended.duration_sec

    asyncio.run(asyncio.wait_for(run(), 100))


@pytest.mark.alone
@needs_root
@pytest.mark.filterwarnings("ignore::seatrial.sandbox.local.UnisolatedWarning")
@pytest.mark.parametrize("backend", [EmbeddedBackend, LocalBackend])
def test_a_command_that_is_kept_waiting_comes_to_its_end(backend):
    """Its time would be enough on a machine of its own, and is not beside so many others."""
    code = (
        "import time\nbegan = time.monotonic()\nwhile time.process_time() < 0.6: pass\nprint(time.monotonic() - began)"
    )
    work = python(code, timeout_sec=1.0, patience_sec=60.0, network=Network("host"))

    async def run() -> None:
        async with backend() as made:
            sandbox = await made.create(SandboxSpec(HOST_IMAGE))
            with busy_machine(8):
                ended = await sandbox.exec(work)
            assert ended.exit_code == 0, ended

    asyncio.run(asyncio.wait_for(run(), 100))


def test_numbers_are_read_and_what_is_none_is_none(tmp_path):
    (tmp_path / "pids.max").write_text("max\n")
    (tmp_path / "memory.events").write_text("low 0\noom 7\n")
    group = OwnGroup(tmp_path, 2)
    assert group.number("pids.max") is None
    assert group.number("memory.events", "oom") == 7
    assert group.number("memory.events", "missing") is None
    assert group.number("not.there") is None


def test_they_are_found_from_our_own_up_to_the_top():
    for controller in ("pids", "memory"):
        paths = [group.path for group in own_groups(controller)]
        assert all(later == earlier.parent for earlier, later in pairwise(paths))
