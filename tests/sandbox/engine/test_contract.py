"""Containers keep the contract, as far as one container can hold both an agent and its judge."""

import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from seatrial.sandbox.api import Image, SandboxBackend, SandboxSpec
from seatrial.sandbox.engine.backend import EngineBackend
from seatrial.sandbox.engine.client import Engine
from tests.docker_daemon import busybox_archive, engine_endpoint, needs
from tests.sandbox.kept_backend import KeptBackendContract


class EngineContract(KeptBackendContract):
    """In an image of ours, which the daemon is given."""

    engine: Engine
    layer: Path

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def make_layer(cls, tmp_path_factory: pytest.TempPathFactory) -> None:
        cls.layer = tmp_path_factory.mktemp("busybox")
        with tarfile.open(fileobj=BytesIO(busybox_archive())) as tar:
            tar.extractall(cls.layer)  # noqa: S202 - it is our own

    def make_backend(self) -> SandboxBackend:
        return EngineBackend(self.engine, engine_endpoint(self.engine))

    def make_spec(self) -> SandboxSpec:
        return SandboxSpec(image=Image("busybox", (self.layer,)))


@needs("docker")
class TestDocker(EngineContract):
    engine = "docker"


@needs("podman")
class TestPodman(EngineContract):
    engine = "podman"
    ambient_env = EngineContract.ambient_env | {"TERM", "container"}
