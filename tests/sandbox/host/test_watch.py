"""Who is let in, what is noticed, and whose agent is ended."""

import asyncio
import os

import pytest

from seatrial.errors import HostExhaustedError
from seatrial.sandbox.host.watch import host_watch
from seatrial.sandbox.processor import Meter, VerifierSeats
from tests.sandbox.host.fakes import HERE, FakeGauge, Hog, furnished, on_watch, shortage


def play(scene, gauge=None):
    async def run():
        chosen = gauge or FakeGauge()
        await asyncio.wait_for(scene(on_watch(chosen), chosen), 20)

    asyncio.run(run())


def test_a_shortage_is_noticed_by_all_who_are_in_and_by_nobody_who_comes_later():
    async def scene(watch, gauge):
        async with watch.attend("early", HERE) as early, watch.attend("other", HERE) as other:
            assert early.excuse is None
            gauge.found = shortage()
            await early.look()
            assert early.excuse == other.excuse == "the disk at /full is short"
            gauge.found = None
            await early.look()
            async with watch.attend("late", HERE) as late:
                assert late.excuse is None
            assert early.excuse

    play(scene)


def test_while_something_is_short_nobody_is_let_in():
    async def scene(watch, gauge):
        async with watch.attend("first", HERE) as first:
            gauge.found = shortage()
            await first.look()
            entered = asyncio.Event()

            async def come():
                async with watch.attend("second", HERE) as second:
                    entered.set()
                    assert second.excuse is None

            coming = asyncio.ensure_future(come())
            await first.look()
            assert not entered.is_set()
            gauge.found = None
            await coming

    play(scene)


def test_whoever_waits_in_vain_is_told_for_what():
    async def scene(watch, _):
        with pytest.raises(HostExhaustedError, match=r"for 0.01 s: the disk at /full is short") as error:
            async with watch.attend("trial", HERE, longest_sec=0.01):
                pass
        assert error.value.retryable

    play(scene, FakeGauge(shortage()))


def test_what_has_passed_spoils_those_who_are_in_and_keeps_nobody_out():
    async def scene(watch, gauge):
        async with watch.attend("first", HERE) as first:
            gauge.found = shortage("memory", passed=True)
            await first.look()
            assert first.excuse
            async with watch.attend("second", HERE, longest_sec=0.01) as second:
                assert second.excuse is None

    play(scene)


def test_one_that_wants_no_company_waits_for_the_others_and_keeps_them_out():
    async def scene(watch, _):
        seen = []

        async def come(name, company):
            async with watch.attend(name, HERE, company):
                seen.append(name)
                await asyncio.sleep(0)
                if company == "none":
                    assert next(iter(watch._inside)).trial == name
                    assert len(watch._inside) == 1
                seen.append(f"{name} left")

        async with asyncio.TaskGroup() as group:
            for name, company in [("a", "others"), ("lone", "none"), ("b", "others"), ("c", "others")]:
                group.create_task(come(name, company))
        assert seen.index("a left") < seen.index("lone")
        assert seen.index("lone left") < min(seen.index("b"), seen.index("c"))

    play(scene)


def test_the_one_that_took_most_has_its_agent_ended_and_no_excuse():
    async def scene(watch, gauge):
        async with watch.attend("greedy", HERE) as greedy, watch.attend("modest", HERE) as modest:
            furnished(greedy, Hog(900))
            furnished(modest, Hog(20))
            gauge.found = shortage()
            await modest.look()
            assert greedy.sandbox.killed == ["agent"]
            assert greedy.excuse is None
            assert "trial greedy (900 B)" in greedy.own_doing
            assert modest.sandbox.killed == []
            assert "trial greedy (900 B)" in modest.excuse

    play(scene)


@pytest.mark.parametrize(
    ("resource", "hog"),
    [
        ("disk", Hog(900, storage_mb=1)),
        ("inodes", Hog(900, storage_mb=1)),
        ("memory", Hog(900, memory_mb=0)),
        ("disk", Hog(400)),
        ("memory", Hog(400)),
    ],
    ids=["its own disk", "its own inodes", "its own memory", "less than half", "less than half of memory"],
)
def test_one_that_stays_within_its_limit_or_took_less_than_half_is_not_to_blame(resource, hog):
    async def scene(watch, gauge):
        async with watch.attend("trial", HERE) as trial:
            furnished(trial, hog)
            gauge.found = shortage(resource)
            await trial.look()
            assert trial.own_doing is None
            assert hog.killed == []
            assert trial.excuse

    play(scene)


@pytest.mark.parametrize(("freed", "is_its_own"), [(500, True), (10, False)])
def test_one_that_runs_alone_and_hides_what_it_takes_is_known_by_the_room_there_is_without_it(freed, is_its_own):
    async def scene(watch, gauge):
        class Hider(Hog):
            async def kill_all(self, phase="agent"):
                await super().kill_all(phase)
                gauge.free(freed)

        async with watch.attend("hider", HERE, "none") as hider:
            furnished(hider, Hider(0))
            gauge.found = shortage()
            await hider.look()
            assert hider.sandbox.killed[0] == "agent"
            assert (hider.excuse is None) == (hider.own_doing is not None) == is_its_own

    play(scene, FakeGauge(left=20))


def test_one_that_runs_alone_on_a_nearly_full_disk_and_takes_the_rest_is_to_blame():
    async def scene(watch, gauge):
        async with watch.attend("beside", HERE) as beside:
            gauge.found = shortage()
            await furnished(beside, Hog(100)).look()
            assert beside.own_doing is None
        gauge.found = None
        async with watch.attend("alone", HERE, "none") as alone:
            gauge.found = shortage()
            await furnished(alone, Hog(100)).look()
            assert alone.own_doing

    play(scene, FakeGauge(left=120))


def test_what_strangers_took_is_called_so():
    async def scene(watch, gauge):
        async with watch.attend("trial", HERE) as trial:
            furnished(trial, Hog(100))
            gauge.found = shortage()
            await trial.look()
            assert trial.excuse.endswith("the trials that run have 100 B, so something else has taken it")

    play(scene)


def test_a_verifier_that_takes_all_is_not_its_agents_doing():
    async def scene(watch, gauge):
        async with watch.attend("trial", HERE) as trial:
            furnished(trial, Hog(900)).agent_at_work = lambda: False
            gauge.found = shortage()
            await trial.look()
            assert trial.own_doing is None

    play(scene)


def test_it_rests_when_nobody_is_in():
    async def scene(watch, gauge):
        gauge.found = shortage()
        with watch.guarding(HERE):
            assert watch.shortage
        assert (watch.shortage, watch._timer, gauge.closed) == (None, None, True)

    play(scene)


def test_a_gauge_that_cannot_be_read_for_once_harms_nobody():
    async def scene(watch, gauge):
        async with watch.attend("trial", HERE) as trial:
            read = gauge.read
            gauge.read = lambda: os.open("/nowhere/to/be/found", os.O_RDONLY)
            await trial.look()
            assert trial.excuse is None
            gauge.read, gauge.found = read, shortage()
            await trial.look()
            assert trial.excuse

    play(scene)


def test_an_event_loop_has_one_watch():
    async def scene(watch, _):
        assert host_watch() is watch

    play(scene)


class Asleep:
    """Processes that have no use for a processor."""

    def processor_times(self):
        return 1.0, 0.0

    def members(self):
        return {1}


def test_each_look_lets_in_verifiers_beside_those_that_do_nothing():
    async def scene(watch, _):
        watch.seats = VerifierSeats(count=1)
        begun = asyncio.Event()

        async def verify():
            async with watch.seats.take():
                begun.set()

        async with watch.attend("trial", HERE), watch.seats.take():
            Meter(Asleep())
            second = asyncio.create_task(verify())
            await begun.wait()
            await second

    play(scene)
