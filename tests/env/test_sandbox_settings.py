"""Which image is really used, and what else may be said about sandboxes."""

from typing import Any

import pytest

from seatrial.env.sandbox_settings import SandboxSettings, is_plain_python
from seatrial.errors import HostUnsupportedError, UsageError
from seatrial.model.record import LimitSpec
from seatrial.sandbox.api import Network
from seatrial.testing.fake import ALL_POWERFUL


@pytest.mark.parametrize(
    ("settings", "asked", "chosen"),
    [
        ({}, "python:3.11-slim", ("host", "fallback")),
        ({}, "docker.io/library/python:3.13", ("host", "fallback")),
        ({}, "host", ("host", "asked")),
        ({}, "/images/mine", ("/images/mine", "asked")),
        ({"image": "host"}, "nvidia/cuda:12", ("host", "setting")),
        ({"image": "/images/all"}, "python:3.11", ("/images/all", "setting")),
        ({"image_fallback": "host"}, "nvidia/cuda:12", ("host", "fallback")),
        ({"image_map": {"nvidia/*": "/images/cuda"}}, "nvidia/cuda:12", ("/images/cuda", "setting")),
        ({"image_map": {"python:*": "/images/python"}}, "python:3.11", ("/images/python", "setting")),
        ({"image_map": {"a": "/1", "*": "/2"}}, "a", ("/1", "setting")),
    ],
)
def test_what_is_used_for_an_image(settings, asked, chosen):
    choice = SandboxSettings(**settings).choose_image(asked)
    assert (choice.image, choice.by) == chosen


@pytest.mark.parametrize(
    ("settings", "asked"),
    [({}, "nvidia/cuda:12"), ({}, "me/python:3"), ({"image_fallback": "refuse"}, "python:3.11-slim")],
)
def test_an_image_that_nothing_stands_in_for_is_refused(settings, asked):
    with pytest.raises(HostUnsupportedError, match=f"the image {asked} is not here.*image_map.*image_fallback"):
        SandboxSettings(**settings).choose_image(asked)


@pytest.mark.parametrize("image", ["pythonic:3", "evil/python:3.11", "python:3.11@sha256:0", "python: 3"])
def test_not_every_image_with_python_in_its_name_is_plain(image):
    assert not is_plain_python(image)


def test_resources_become_limits():
    settings = SandboxSettings(cpu_cores=0.5, memory_gb=1.5, disk_size_gb=2)
    assert settings.limits == LimitSpec(cpus=0.5, memory_mb=1536, storage_mb=2048)
    spec = settings.sandbox_spec("host", ALL_POWERFUL, "/app", {"A": "1"})
    assert (spec.limits.memory_mb, spec.workdir, spec.env, spec.image.base) == (1536, "/app", {"A": "1"}, "host")


@pytest.mark.parametrize("given", [{"cpu_cores": -1}, {"memory_gb": 0}, {"disk_size_gb": -0.5}])
def test_no_resource_is_nothing_or_less(given: dict[str, Any]):
    (name,) = given
    with pytest.raises(UsageError, match=f"{name}={given[name]}"):
        SandboxSettings(**given)


def test_the_network_is_public_or_none():
    assert SandboxSettings().reach(ALL_POWERFUL) == Network("public")
    assert SandboxSettings(network="none").reach(ALL_POWERFUL) == Network("none")
