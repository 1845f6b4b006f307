"""Each of our processes is stopped and killed once while honest trials run: none of them is scored 0, nothing hangs."""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from seatrial.errors import SandboxError
from seatrial.sandbox.api import ExecSpec, SandboxSpec
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from tests.conftest import sampled
from tests.faults.spawner_faults import (
    STUCK,
    Fault,
    first_stage,
    inner_inits,
    outer_inits,
    rewards,
    run_honest_trials,
    spawner,
)
from tests.sandbox.embedded.support import TIMEOUT_SEC, mounts, needs_root, processes

pytestmark = needs_root

TARGETS: dict[str, Callable[[Path], list[int]]] = {
    "spawner": lambda state: [spawner(state)],
    "first stage": lambda state: [first_stage(state)],
    "outer init": outer_inits,
    "inner init": inner_inits,
}


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory of our own, and a watch that looks more often than once a second."""
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("SEATRIAL_STATE_DIR", str(folder))
    monkeypatch.setattr("seatrial.sandbox.embedded.client.LOOK_SEC", 0.02)
    return folder


def assert_nothing_left(state: Path) -> None:
    assert list(state.iterdir()) == []
    assert processes(str(state)) == []
    assert mounts(str(state)) == []


@pytest.mark.parametrize("number", sampled([signal.SIGKILL, signal.SIGSTOP]), ids=["killed", "stopped"])
@pytest.mark.parametrize("when", sampled(["agent", "verify"]))
@pytest.mark.parametrize("who", sampled(TARGETS))
def test_no_honest_trial_is_scored_0(who, when, number, state: Path, tmp_path: Path):
    hit: list[int] = []

    def strike() -> None:
        for pid in TARGETS[who](state):
            os.kill(pid, number)
            hit.append(pid)

    fault = Fault(strike, when)
    store = run_honest_trials(tmp_path, fault)
    assert hit
    assert rewards(store) == [1.0, 1.0, 1.0]
    assert {event.failure.cause for event in fault.retried} <= {"SandboxError"}
    if number == signal.SIGKILL or who == "spawner":
        assert fault.retried or who in ("outer init", "inner init")
    assert_nothing_left(state)


def test_the_time_of_an_agent_ends_although_the_spawner_is_stopped(state: Path):
    async def scene() -> None:
        async with asyncio.timeout(TIMEOUT_SEC), EmbeddedBackend() as backend:
            sandbox = await backend.create(SandboxSpec())
            running = asyncio.ensure_future(sandbox.exec(ExecSpec(("sleep", "1000"), timeout_sec=0.2)))
            await asyncio.to_thread(os.kill, spawner(state), signal.SIGSTOP)
            with pytest.raises(SandboxError, match="was stopped"):
                await running

    asyncio.run(scene())
    assert_nothing_left(state)


@pytest.mark.whole
def test_the_time_of_an_agent_ends_although_the_first_process_of_its_sandbox_is_stopped(state: Path):
    """It is the one who ends the others. The spawner ends it, which ends them all; its neighbour is not harmed."""

    async def scene() -> None:
        async with asyncio.timeout(TIMEOUT_SEC), EmbeddedBackend() as backend:
            sandbox = await backend.create(SandboxSpec())
            (init,) = outer_inits(state)
            neighbour = await backend.create(SandboxSpec())
            os.kill(init, signal.SIGSTOP)
            with pytest.raises(SandboxError, match="first process is gone"):
                await sandbox.exec(ExecSpec(("sleep", "1000"), timeout_sec=0.2))
            assert (await neighbour.exec(ExecSpec(("true",)))).exit_code == 0

    asyncio.run(scene())
    assert_nothing_left(state)


@pytest.mark.whole
def test_an_interrupt_comes_through_although_the_spawner_is_stopped(state: Path, tmp_path: Path):
    """As Ctrl-C does it: by a signal to our process, whose handler cancels the run."""

    def strike() -> None:
        os.kill(spawner(state), signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run_honest_trials(tmp_path, Fault(strike, "agent"), agent=STUCK)
    assert_nothing_left(state)
