"""Containers keep the contract, as far as one container can hold both an agent and its judge."""

from seatrial.sandbox.api import Image, SandboxBackend, SandboxSpec
from seatrial.sandbox.engine.backend import EngineBackend
from seatrial.testing.contract import ContractBase, SandboxContract
from tests.docker_daemon import IMAGE, engine_endpoint, needs

# The shell that stands between the engine and a command exports what shells do.
OF_A_SHELL = frozenset({"PWD", "OLDPWD", "SHLVL", "_"})


@needs("docker")
class TestDocker(SandboxContract):
    ambient_env = ContractBase.ambient_env | OF_A_SHELL

    def make_backend(self) -> SandboxBackend:
        return EngineBackend("docker", engine_endpoint("docker"))

    def make_spec(self) -> SandboxSpec:
        return SandboxSpec(image=Image(IMAGE))


@needs("podman")
class TestPodman(SandboxContract):
    ambient_env = ContractBase.ambient_env | OF_A_SHELL

    def make_backend(self) -> SandboxBackend:
        return EngineBackend("podman", engine_endpoint("podman"))

    def make_spec(self) -> SandboxSpec:
        return SandboxSpec(image=Image(IMAGE))
