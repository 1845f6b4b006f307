"""The images of a container engine, by a real daemon: found, built, and an agent set up on top."""

import re
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from seatrial.errors import BuildError, HostUnsupportedError, ImageFetchError
from seatrial.images.baking.tidy import lock_layer
from seatrial.images.choice import ImagePolicy, ImageRequest, Setup
from seatrial.images.sources import EngineSource
from seatrial.model.events import Notice
from seatrial.model.job import AgentLayer
from seatrial.sandbox.api import Image, SandboxSpec, open_sandbox
from seatrial.sandbox.engine.backend import EngineBackend
from seatrial.sandbox.transfer import pack_files
from tests.docker_daemon import IMAGE, needs
from tests.sandbox.engine.support import run, sh

pytestmark = needs("docker")
POLICY = ImagePolicy()
T = TypeVar("T")


class Bench:
    """A source, what it said, and sandboxes of its images."""

    def __init__(self, backend: EngineBackend) -> None:
        self.source = EngineSource(backend.client)
        self.said: list[str] = []
        self._backend = backend

    def observe(self, notice: Notice) -> None:
        self.said.append(notice.text)

    async def sh(self, image: Image, script: str) -> str:
        async with open_sandbox(self._backend, SandboxSpec(image=image, workdir="/")) as sandbox:
            return await sh(sandbox, script)


def on_bench(work: Callable[[Bench], Awaitable[T]]) -> T:
    return run(lambda backend: work(Bench(backend)))


def write(tmp_path: Path, text: str) -> ImageRequest:
    path = tmp_path / "environment/Dockerfile"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return ImageRequest(dockerfile=path)


def test_an_image_the_daemon_has_is_taken_and_another_missed_with_ways_out():
    async def work(bench: Bench) -> Image:
        ways = r"(?s)localhost:1/none:7 cannot be pulled: .*docker load.*--image-map.*--image host"
        with pytest.raises(ImageFetchError, match=ways):
            await bench.source.fetch("localhost:1/none:7", bench.observe)
        assert bench.said == ["docker pulls localhost:1/none:7"]
        return await bench.source.fetch(IMAGE, bench.observe)

    image = on_bench(work)
    assert image.reference == IMAGE
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", image.digest or "")


def test_a_dockerfile_is_built_once_and_an_agent_set_up_as_root(tmp_path):
    lines = (f"FROM {IMAGE}", "COPY note /opt/note", "WORKDIR /place", "USER 1000")
    request = write(tmp_path, "\n".join(lines))
    (tmp_path / "environment/note").write_text(str(tmp_path))  # so that nobody has built it before

    async def work(bench: Bench) -> tuple[Image, Image, str]:
        built = await bench.source.build(request, POLICY, bench.observe)
        assert await bench.source.build(request, POLICY, bench.observe) == built
        command = 'echo "$(cat /agent/word) set up by $(id -u)" > /opt/agent'
        setup = Setup(command, (str(tmp_path),), partial(pack_files, {"agent/word": b"it's"}))
        ready = await bench.source.extend(built, setup, bench.observe)
        assert await bench.source.extend(built, setup, bench.observe) == ready
        assert [line.split()[1] for line in bench.said] == ["builds", "sets"]
        return built, ready, await bench.sh(ready, "cat /opt/note /opt/agent; id -u")

    built, ready, said = on_bench(work)
    assert (built.config.workdir, built.config.user) == ("/place", "1000")
    assert ready.config == built.config
    assert said == f"{tmp_path}it's set up by 0\n1000\n"


def test_a_layer_is_laid_over_an_image_once_and_a_command_runs_on_top(tmp_path, monkeypatch):
    monkeypatch.setenv("SEATRIAL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    (tmp_path / "tree/opt/mine").mkdir(parents=True)
    (tmp_path / "tree/opt/mine/word").write_text(str(tmp_path))  # so that nobody has laid it before
    layer = lock_layer(AgentLayer(source=str(tmp_path / "tree")))

    async def work(bench: Bench) -> tuple[Image, str]:
        image = await bench.source.fetch(IMAGE, bench.observe)
        setup = Setup("cp /opt/mine/word /opt/mine/again", layer=layer)
        ready = await bench.source.extend(image, setup, bench.observe)
        assert await bench.source.extend(image, setup, bench.observe) == ready
        assert [line.split()[1] for line in bench.said] == ["lays", "sets"]
        return ready, await bench.sh(ready, "cat /opt/mine/again; ls -ld /opt/mine/word")

    ready, said = on_bench(work)
    assert ready.agent_layer == f"sha256:{layer.digest}"
    assert said.startswith(f"{tmp_path}-rw-r--r--")
    assert " root " in said or " 0 " in said


def test_a_build_that_fails_says_of_what(tmp_path):
    request = write(tmp_path, f"FROM {IMAGE}\nRUN exit 7\n")

    async def work(bench: Bench) -> None:
        with pytest.raises(BuildError, match=r"environment/Dockerfile: docker: .*code: 7"):
            await bench.source.build(request, POLICY, bench.observe)

    on_bench(work)


def test_what_a_daemon_cannot_do_is_refused(tmp_path):
    request = write(tmp_path, "FROM python:3.11-slim\nRUN true\n")

    async def work(bench: Bench) -> None:
        with pytest.raises(HostUnsupportedError, match=r"builds it on python:3.11-slim, whatever --image-map says"):
            await bench.source.build(request, ImagePolicy(mapped={"python:*": "host"}), bench.observe)
        with pytest.raises(HostUnsupportedError, match="no agent can be set up in"):
            await bench.source.extend(Image("mine", (tmp_path,)), Setup("true"), bench.observe)

    on_bench(work)


def test_what_a_dockerfile_may_not_name_never_reaches_the_daemon(tmp_path):
    request = write(tmp_path, "ARG BASE=oci-archive:/etc/x.tar\nFROM $BASE\n")

    async def work(bench: Bench) -> None:
        with pytest.raises(
            BuildError, match=r"Dockerfile:2: FROM: 'oci-archive:/etc/x\.tar' is a place of this machine"
        ):
            await bench.source.build(request, POLICY, bench.observe)
        assert not bench.said

    on_bench(work)
