"""Listeners for whoever may not enter the network of a container: the contract of networks, by way of visitors."""

import asyncio
import os
import pwd
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from seatrial.sandbox.api import Image, SandboxBackend, SandboxSpec
from seatrial.sandbox.engine import entering
from seatrial.sandbox.engine.backend import EngineBackend, examine_engine
from seatrial.testing.contract_network import NetworkContract
from tests.conftest import REPOSITORY
from tests.docker_daemon import IMAGE, engine_endpoint, needs
from tests.everybody import python_for_everybody


@needs("docker")
class TestVisitors(NetworkContract):
    @pytest.fixture(autouse=True)
    def stay_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(entering, "may_enter", lambda: False)

    def make_backend(self) -> SandboxBackend:
        return EngineBackend("docker", engine_endpoint("docker"))

    def make_spec(self) -> SandboxSpec:
        return SandboxSpec(image=Image(IMAGE))


PROGRAM = """
import asyncio, os, sys
from seatrial.sandbox.api import ExecSpec, Image, Network, SandboxSpec
from seatrial.sandbox.engine.backend import EngineBackend
from seatrial.sandbox.engine.client import Endpoint
from seatrial.sandbox.api import open_sandbox

async def main(path, image):
    async with EngineBackend("docker", Endpoint("docker", path)) as backend:
        async with open_sandbox(backend, SandboxSpec(image=Image(image))) as sandbox:
            command = ("/bin/sh", "-c", "echo ${HTTPS_PROXY%%:*}")
            result = await sandbox.exec(ExecSpec(command, network=Network("public")))
            with await sandbox.listen(8080) as listener:
                print(os.getuid() != 0, result.stdout.decode().strip(), listener.getsockname())

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
def user() -> Iterator[tuple[str, Path]]:
    """An ordinary user who may use the daemon, as members of the docker group may; gone afterwards."""
    name, socket = f"seatrial-{os.getpid()}-d", Path(str(engine_endpoint("docker").socket))
    subprocess.run(["useradd", "--no-create-home", "--shell", "/bin/sh", name], check=True, capture_output=True)
    with tempfile.TemporaryDirectory(prefix="seatrial-user-", ignore_cleanup_errors=True) as folder:
        try:
            account = pwd.getpwnam(name)
            os.chown(folder, account.pw_uid, account.pw_gid)
            socket.parent.chmod(0o711)
            os.chown(socket, 0, account.pw_gid)
            yield name, Path(folder)
        finally:
            os.chown(socket, 0, 0)
            subprocess.run(["userdel", name], check=True, capture_output=True)


@needs("docker")
def test_an_ordinary_user_has_listeners_too(user):
    name, folder = user
    command = [python_for_everybody(folder), "-c", PROGRAM, str(engine_endpoint("docker").socket), IMAGE]
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "SEATRIAL_STATE_DIR": str(folder / "state")}
    result = subprocess.run(
        command, user=name, group=name, extra_groups=[], env=env, cwd=REPOSITORY, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert result.stdout == "True http ('127.0.0.1', 8080)\n"


def test_a_daemon_that_does_not_answer_is_missing_with_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    missing = asyncio.run(examine_engine("docker"))
    assert (missing.status, f"no docker daemon at unix://{tmp_path}/none" in missing.detail) == ("missing", True)
    monkeypatch.setenv("DOCKER_HOST", "ssh://elsewhere")
    assert "ssh -L" in asyncio.run(examine_engine("docker")).fix


@needs("docker")
def test_a_daemon_that_answers_works(monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", str(engine_endpoint("docker")))
    found = asyncio.run(examine_engine("docker"))
    assert (found.status, found.detail.startswith("Docker ")) == ("works", True)
