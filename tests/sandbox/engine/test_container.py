"""What is left with the daemon when a run ends, is cancelled, or is killed."""

import asyncio
import subprocess
import sys
from contextlib import suppress

import pytest

from seatrial.errors import SandboxError
from seatrial.sandbox.api import open_sandbox
from seatrial.sandbox.engine.container import RUN, labels, sweep
from tests.conftest import REPOSITORY
from tests.docker_daemon import IMAGE, engine_endpoint, in_time, needs
from tests.sandbox.engine.support import SPEC, ask_daemon, run, with_label

pytestmark = needs("docker")


def test_a_run_that_ends_leaves_nothing():
    async def work(backend):
        await backend.create(SPEC)
        assert len(await asyncio.to_thread(with_label, f"{RUN}={backend.run_name}")) == 2  # and the volume
        return backend.run_name

    assert with_label(f"{RUN}={run(work)}") == []


def test_creating_can_be_cancelled_at_any_moment():
    async def work(backend):
        for seconds in (0.0, 0.01, 0.05, 0.15, 0.25):
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds), open_sandbox(backend, SPEC):
                    await asyncio.Event().wait()
        left = await asyncio.to_thread(with_label, f"{RUN}={backend.run_name}")
        assert [name for name in left if name != f"seatrial-{backend.run_name}"] == []

    run(work)


def test_a_killed_run_is_gone_with_its_processes_and_swept_by_the_next():
    """Its containers end with their input; the volume is what the next run finds."""
    endpoint = engine_endpoint("docker")
    command = [sys.executable, "-m", "tests.sandbox.engine.victim", "docker", str(endpoint.socket), IMAGE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) as victim:
        assert victim.stdout is not None
        name = victim.stdout.readline().strip()
        mine = f"{RUN}={name}"
        assert len(with_label(mine)) == 3
        ask_daemon(sweep)
        assert len(with_label(mine)) == 3, "somebody who is alive has lost their containers"
        victim.kill()
    # No longer the container; the volume may have been found by another test's run meanwhile.
    assert in_time(lambda: with_label(mine) in ([], [f"seatrial-{name}"]), 20)

    def gone_after_one_more_run() -> bool:
        run(lambda _: asyncio.sleep(0))
        return with_label(mine) == []

    # Docker may hold a volume for a moment longer than the container it was for: then a later run removes it.
    assert in_time(gone_after_one_more_run, 20)


def test_runs_of_other_machines_are_left_alone(tmp_path, monkeypatch):
    class Elsewhere:
        name, path = "run-elsewhere", tmp_path / "gone"

    with monkeypatch.context() as patch:
        patch.setattr("socket.gethostname", lambda: "another-machine")
        marks = dict(labels(Elsewhere))  # type: ignore[arg-type]
    name = {"Name": "seatrial-run-elsewhere", "Labels": marks}
    ask_daemon(lambda client: client.ask("POST", "/volumes/create", name))
    ask_daemon(sweep)
    assert with_label(f"{RUN}=run-elsewhere") == ["seatrial-run-elsewhere"]
    monkeypatch.setattr("socket.gethostname", lambda: "another-machine")
    ask_daemon(sweep)
    assert with_label(f"{RUN}=run-elsewhere") == []


def test_a_container_that_is_taken_away_is_an_error_of_ours():
    async def work(backend):
        sandbox = await backend.create(SPEC)
        (name,) = [
            each for each in await asyncio.to_thread(with_label, f"{RUN}={backend.run_name}") if each[-2:] == "-1"
        ]
        await asyncio.to_thread(ask_daemon, lambda client: client.ask("DELETE", f"/containers/{name}", force="1"))
        with pytest.raises(SandboxError):
            await sandbox.kill_all()
        with pytest.raises(SandboxError):
            await sandbox.changes()
        await sandbox.destroy()

    run(work)
