"""What `kill -9` of a whole run leaves: `seatrial gc` and the next run remove it, and nothing that is in use."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from seatrial.cli import main
from seatrial.model.record import LimitSpec
from seatrial.sandbox.cgroups import Hierarchy
from seatrial.sandbox.engine.client import Engine
from seatrial.sandbox.local import LocalBackend
from seatrial.sandbox.runs import Scratch, sweep_scratch
from tests.conftest import REPOSITORY
from tests.docker_daemon import IMAGE, engine_endpoint, in_time, needs
from tests.sandbox.embedded.support import needs_root, processes, wait_until
from tests.sandbox.engine.support import run

LOCAL_VICTIM = """
import asyncio, sys, warnings
from pathlib import Path
from seatrial.sandbox.api import ExecSpec, Network, SandboxSpec
from seatrial.sandbox.local import LocalBackend
async def main():
    async with LocalBackend(Path(sys.argv[1])) as backend:
        sandbox = await backend.create(SandboxSpec(enforcement="partial"))
        script = "echo $SANDBOX_ROOT; sleep 1000 >/dev/null 2>&1 &"
        shown = await sandbox.exec(ExecSpec(("/bin/sh", "-c", script), network=Network("host")))
        print(shown.stdout.decode().strip(), flush=True)
        await asyncio.Event().wait()
warnings.simplefilter("ignore")
asyncio.run(main())
"""


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing of the machine's own: neither its state nor its images and daemons."""
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("SEATRIAL_STATE_DIR", str(folder))
    monkeypatch.setenv("SEATRIAL_CACHE", str(tmp_path / "cache"))
    for name in ("DOCKER_HOST", "CONTAINER_HOST"):
        monkeypatch.setenv(name, f"unix://{tmp_path}/nobody.sock")
    return folder


def kill_at_its_first_line(command: list[str]) -> str:
    """What a program prints first, after which it is killed."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) as victim:
        assert victim.stdout is not None
        line = victim.stdout.readline().strip()
        victim.kill()
    assert line
    return line


@pytest.mark.parametrize(
    ("engine", "variable"),
    [
        pytest.param("docker", "DOCKER_HOST", marks=needs("docker")),
        pytest.param("podman", "CONTAINER_HOST", marks=needs("podman")),
    ],
)
@needs_root
def test_containers_and_volumes(engine: Engine, variable: str, state: Path, monkeypatch, capsys):
    address = str(engine_endpoint(engine).socket)
    monkeypatch.setenv(variable, f"unix://{address}")
    victim = [sys.executable, "-m", "tests.sandbox.engine.victim", engine, address, IMAGE]
    name = kill_at_its_first_line(victim)
    said: list[str] = []

    def gone() -> bool:
        """Docker may hold a volume for a moment longer than the container it was for: then once more."""
        assert main.run(["gc"]) == 0
        said.append(capsys.readouterr().out)
        return f"removed {engine} volume seatrial-{name}\n" in "".join(said)

    assert in_time(gone, 20)
    assert f"removed {state / name}\n" in "".join(said)
    assert list(state.iterdir()) == []


@needs("podman")
@needs_root
def test_the_next_run_with_containers_clears_away_the_directory_too(state: Path):
    address = str(engine_endpoint("podman").socket)
    name = kill_at_its_first_line([sys.executable, "-m", "tests.sandbox.engine.victim", "podman", address, IMAGE])
    assert (state / name).is_dir()
    run(lambda _: asyncio.sleep(0), "podman")
    assert list(state.iterdir()) == []


@needs_root
def test_plain_processes_and_their_folders(tmp_path: Path):
    place = tmp_path / "scratch"
    place.mkdir()
    folder = Path(kill_at_its_first_line([sys.executable, "-c", LOCAL_VICTIM, str(place)]))
    assert folder.is_dir()
    left = processes(str(folder))
    assert left

    async def next_run() -> None:
        async with LocalBackend(place):
            pass

    asyncio.run(next_run())
    assert list(place.iterdir()) == []
    wait_until(lambda: not any(Path(f"/proc/{pid}/root/").exists() for pid in left))


def test_a_folder_in_use_and_one_of_somebody_else_are_left_alone(tmp_path: Path):
    look_alike = tmp_path / "seatrial-scratch-of-mine"
    look_alike.mkdir()
    with Scratch(tmp_path) as living:
        (living / "file").write_text("in use")
        assert asyncio.run(sweep_scratch(tmp_path)) == []
        assert (living / "file").read_text() == "in use"
    assert list(tmp_path.iterdir()) == [look_alike]


@needs_root
def test_control_groups_of_a_run_whose_directory_is_gone(state: Path, capsys):
    hierarchy = Hierarchy.here()
    if not hierarchy.mounts:
        pytest.skip("no control groups on this machine")
    dead = subprocess.Popen(["true"])
    dead.wait()
    orphan, living = f"run-{dead.pid}-0123abcd", f"run-{os.getpid()}-0123abcd"
    for name in (orphan, living):
        hierarchy.create(name, "anchor", LimitSpec())
    try:
        assert main.run(["gc"]) == 0
        said = capsys.readouterr().out
        assert f"/seatrial/{orphan}\n" in said
        assert living not in said
    finally:
        hierarchy.sweep(living)
        hierarchy.sweep(orphan)
