"""Which image is really used, and what else may be said about sandboxes."""

import asyncio
from typing import Any, ClassVar

import pytest

from seatrial.env.sandboxes import SandboxSettings, SharedBackend
from seatrial.errors import HostUnsupportedError, UsageError
from seatrial.model.record import LimitSpec
from seatrial.sandbox.api import HOST_IMAGE, Network
from seatrial.testing.fake import ALL_POWERFUL, FakeBackend


@pytest.mark.parametrize(
    ("settings", "asked", "used", "stands_in"),
    [
        ({}, "python:3.11-slim", "host", True),
        ({}, "docker.io/library/python:3.13", "host", True),
        ({}, "python:3.11-slim", "python:3.11-slim", False),
        ({}, "host", "host", False),
        ({"image": "host"}, "nvidia/cuda:12", "host", False),
        ({"image_fallback": "host"}, "nvidia/cuda:12", "host", True),
        ({"image_map": {"nvidia/*": "host"}}, "nvidia/cuda:12", "host", False),
    ],
)
def test_whether_this_machine_stands_in_for_an_image(settings: dict[str, Any], asked, used, stands_in):
    assert SandboxSettings(**settings).stands_in(asked, used) == stands_in


@pytest.mark.parametrize(
    ("settings", "asked"),
    [({}, "nvidia/cuda:12"), ({}, "me/python:3"), ({"image_fallback": "refuse"}, "python:3.11-slim")],
)
def test_where_it_must_not_stand_in_it_is_refused(settings: dict[str, Any], asked):
    with pytest.raises(HostUnsupportedError, match=f"the image {asked} cannot be had.*image_map.*image_fallback"):
        SandboxSettings(**settings).stands_in(asked, "host")


def test_resources_become_limits():
    settings = SandboxSettings(cpu_cores=0.5, memory_gb=1.5, disk_size_gb=2)
    assert settings.limits == LimitSpec(cpus=0.5, memory_mb=1536, storage_mb=2048)
    spec = settings.sandbox_spec(HOST_IMAGE, ALL_POWERFUL, "/app", {"A": "1"})
    assert (spec.limits.memory_mb, spec.workdir, spec.env, spec.image.base) == (1536, "/app", {"A": "1"}, "host")


@pytest.mark.parametrize("given", [{"cpu_cores": -1}, {"memory_gb": 0}, {"disk_size_gb": -0.5}])
def test_no_resource_is_nothing_or_less(given: dict[str, Any]):
    (name,) = given
    with pytest.raises(UsageError, match=f"{name}={given[name]}"):
        SandboxSettings(**given)


def test_the_network_is_public_or_none():
    assert SandboxSettings().reach(ALL_POWERFUL) == Network("public")
    assert SandboxSettings(network="none").reach(ALL_POWERFUL) == Network("none")


@pytest.mark.parametrize(
    ("minutes", "seconds", "least"), [(None, None, None), (2, None, 120), (None, 5, 5), (2, 5, 5), (2, 500, 120)]
)
def test_a_rollout_takes_no_longer_than_its_sandbox_may(minutes, seconds, least):
    assert SandboxSettings(timeout_minutes=minutes).seconds_within(seconds) == least


class Counted(FakeBackend):
    """Notes when it is opened and closed."""

    events: ClassVar[list[str]] = []

    def __init__(self):
        super().__init__({})

    async def __aenter__(self):
        await asyncio.sleep(0)
        self.events.append("open")
        return self

    async def __aexit__(self, *error):
        self.events.append("close")


class Broken(Counted):
    async def __aenter__(self):
        raise HostUnsupportedError("no namespaces")


@pytest.fixture
def events(monkeypatch):
    monkeypatch.setattr("seatrial.jobs.machinery.make_backend", lambda name: Broken() if name == "local" else Counted())
    Counted.events = []
    return lambda: Counted.events


def test_all_users_have_the_same_backend_and_the_last_one_closes_it(events):
    shared = SharedBackend("embedded")

    async def use(entered, leave):
        async with shared.use() as machinery:
            entered.set()
            await leave.wait()
            return machinery.backend

    async def run():
        leave, entered = asyncio.Event(), [asyncio.Event(), asyncio.Event()]
        users = [asyncio.create_task(use(each, leave)) for each in entered]
        for each in entered:
            await each.wait()
        during = list(events())
        leave.set()
        return during, {id(backend) for backend in await asyncio.gather(*users)}

    during, backends = asyncio.run(run())
    assert (during, len(backends), events()) == (["open"], 1, ["open", "close"])


def test_it_stays_open_for_a_moment_for_whoever_comes_back(events):
    shared = SharedBackend("embedded")

    async def run():
        for _ in range(3):
            async with shared.use():
                pass
        return list(events())

    assert asyncio.run(run()) == ["open"]
    assert events() == ["open", "close"]


def test_it_is_closed_when_nobody_comes_back(events, monkeypatch):
    monkeypatch.setattr("seatrial.env.sandboxes._LINGER_SEC", 0)
    shared = SharedBackend("embedded")

    async def run():
        async with shared.use():
            pass
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
        return list(events()), dict(shared._kept)

    assert asyncio.run(run()) == (["open", "close"], {})


def test_it_can_be_closed_at_once_but_not_under_its_users(events):
    shared = SharedBackend("embedded")

    async def run():
        async with shared.use():
            await shared.close()
            assert events() == ["open"]
        await shared.close()
        await shared.close()
        return list(events())

    assert asyncio.run(run()) == ["open", "close"]


def test_it_is_opened_again_for_whoever_comes_later_also_in_another_loop(events):
    shared = SharedBackend("embedded")

    async def use():
        async with shared.use():
            pass

    asyncio.run(use())
    asyncio.run(use())
    assert events() == ["open", "close"] * 2


def test_one_that_is_given_up_while_it_opens_is_closed(events):
    shared = SharedBackend("embedded")

    async def run():
        async def use():
            async with shared.use():
                raise AssertionError("not reached")

        task = asyncio.create_task(use())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert events() == ["open", "close"]


def test_one_that_cannot_be_opened_fails_everybody(events):
    async def run():
        async with SharedBackend("local").use():
            raise AssertionError("not reached")

    with pytest.raises(HostUnsupportedError, match="no namespaces"):
        asyncio.run(run())


def test_the_callers_own_backend_stays_open(events):
    own = Counted()

    async def run():
        async with SharedBackend(own).use() as machinery:
            return machinery.backend

    assert asyncio.run(run()) is own
    assert events() == []


def test_an_unknown_name_is_refused_at_once():
    with pytest.raises(UsageError, match="no sandbox backend called 'dokcer'"):
        SharedBackend("dokcer")
