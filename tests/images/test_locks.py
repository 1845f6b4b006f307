"""The process that handles layers: killed or stopped, it is neither waited for for ever nor the image's fault."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from seatrial.errors import SandboxError
from seatrial.images.locks import run_worker
from tests.images.support import TIMEOUT_SEC, needs_root, run
from tests.sandbox.embedded.support import children, read, wait_until

pytestmark = needs_root


def workers() -> list[int]:
    """The workers that this process has started."""
    return [pid for pid in children(os.getpid()) if "seatrial.images.worker" in read(Path(f"/proc/{pid}/cmdline"))]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_a_worker_that_does_not_come_back(number, tmp_path: Path, monkeypatch):
    monkeypatch.setattr("seatrial.sandbox.embedded.client.LOOK_SEC", 0.02)
    source, never = os.pipe()  # an archive that does not go on: the worker waits for it

    async def scene() -> None:
        target = os.open(tmp_path, os.O_RDONLY)
        order = {"op": "unpack", "manner": ("kept", "trusted"), "bounds": (10**6, 100), "size": None}
        unpacking = asyncio.ensure_future(run_worker(order, [source, target]))
        await asyncio.to_thread(lambda: os.kill(wait_until(workers)[0], number))
        async with asyncio.timeout(TIMEOUT_SEC):
            with pytest.raises(SandboxError, match="killed by signal 9") as caught:
                await unpacking
        os.close(target)
        assert caught.value.retryable

    asyncio.run(scene())
    os.close(source)
    os.close(never)
    assert workers() == []


def test_nothing_of_a_lost_layer_is_kept(tmp_path: Path):
    source, never = os.pipe()

    async def scene(store) -> None:
        with os.fdopen(source, "rb") as archive:
            adding = asyncio.ensure_future(store.add_layer(archive))
            await asyncio.to_thread(lambda: os.kill(wait_until(workers)[0], signal.SIGKILL))
            with pytest.raises(SandboxError):
                await adding
        assert list(store.session.path.iterdir()) == []
        assert list(store.layers.iterdir()) == []

    run(scene, tmp_path)
    os.close(never)


def test_a_worker_that_is_gone_before_it_gets_its_order_was_killed(monkeypatch):
    def too_late(*_) -> None:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        raise BrokenPipeError

    monkeypatch.setattr("seatrial.images.locks._COMMAND", ("/bin/sh", "-c", "kill -9 $$"))
    monkeypatch.setattr("seatrial.images.locks.send", too_late)
    with pytest.raises(SandboxError, match="killed by signal 9"):
        asyncio.run(run_worker({"op": "unpack"}))
