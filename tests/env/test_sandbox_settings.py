"""Which image is really used, and what else may be said about sandboxes."""

from typing import Any

import pytest

from seatrial.env.sandbox_settings import SandboxSettings
from seatrial.errors import HostUnsupportedError, UsageError
from seatrial.model.record import LimitSpec
from seatrial.sandbox.api import HOST_IMAGE, Network
from seatrial.testing.fake import ALL_POWERFUL


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
