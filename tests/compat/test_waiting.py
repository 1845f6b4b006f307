"""SandboxClient, which waits: in plain code, where an event loop runs, and for several clients of the same sandbox."""

import asyncio
import functools
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from seatrial.compat import waiting
from seatrial.compat.prime_sandboxes import APIError, CommandTimeoutError
from seatrial.compat.waiting import SandboxClient
from seatrial.env.sandbox_values import SandboxRequest


def test_methods_wait_and_clients_know_the_same_sandboxes(tmp_path):
    client = SandboxClient(api_key="none")
    made = client.create(SandboxRequest(name="own", docker_image="host"))
    client.wait_for_creation(made.id)
    (tmp_path / "a.txt").write_text("sea")
    client.upload_file(made.id, "/tmp/a.txt", str(tmp_path / "a.txt"))

    async def on_a_loop():
        return SandboxClient().execute_command(made.id, "cat /tmp/a.txt; exit 3")

    said = asyncio.run(on_a_loop())
    assert (said.stdout, said.exit_code) == ("sea", 3)
    with pytest.raises(CommandTimeoutError, match="sleep 60"):
        client.execute_command(made.id, "sleep 60", timeout=0.1)
    SandboxClient().bulk_delete(sandbox_ids=[made.id])
    with pytest.raises(APIError, match="is gone"):
        client.execute_command(made.id, "true")
    with pytest.raises(AttributeError, match="fly"):
        client.fly()


def test_clients_that_threads_make_at_the_same_time_know_the_same_sandboxes(monkeypatch):
    both = threading.Barrier(2)

    class Slow:
        def __init__(self):
            with suppress(threading.BrokenBarrierError):
                both.wait(0.05)  # for another one that is made meanwhile

    monkeypatch.setattr(waiting, "AsyncSandboxClient", Slow)
    monkeypatch.setattr(waiting, "_of_process", functools.cache(waiting._of_process.__wrapped__))
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(lambda _: SandboxClient(), range(2))
    assert one._client is other._client


def test_after_a_fork_there_is_a_thread_that_works():
    background = waiting._background()
    assert waiting._of_process(os.getpid()) is background
    assert waiting._of_process(-1) is not background


def test_what_comes_after_the_end_is_told_so(monkeypatch):
    monkeypatch.setattr(waiting, "_of_process", functools.cache(waiting._of_process.__wrapped__))
    client = SandboxClient()
    waiting._background()._end()
    with pytest.raises(APIError, match="closed already"):
        client.get("own")
