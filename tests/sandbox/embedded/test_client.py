"""Our end of the wire: what becomes of answers that nobody waits for any more."""

import asyncio
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from seatrial.sandbox.embedded.client import SpawnerClient
from seatrial.sandbox.embedded.protocol import receive, send


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


async def ask_and_give_up(answer: Callable[[], None], client: SpawnerClient, *, before_the_answer: bool) -> None:
    """Wait for something and give up at the worst moment: right before its answer comes, or right after."""
    asked = asyncio.ensure_future(client.call("listen", port=80))
    await asyncio.sleep(0)
    if before_the_answer:
        asked.cancel()
        await asyncio.wait([asked])
    answer()
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked


@pytest.mark.parametrize("before_the_answer", [True, False])
def test_what_comes_with_an_answer_that_nobody_waits_for_is_closed(before_the_answer, tmp_path: Path):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    client = SpawnerClient("root", tmp_path)
    client._connection = ours
    passed = []

    def answer() -> None:
        asked = receive(theirs)
        assert asked
        listener = os.open(os.devnull, os.O_RDONLY)
        send(theirs, {"id": asked[0]["id"]}, [listener])
        os.close(listener)
        message, descriptors = receive(ours) or ({}, [])
        passed.extend(descriptors)
        client._dispatch(message, descriptors)

    with ours, theirs:
        asyncio.run(ask_and_give_up(answer, client, before_the_answer=before_the_answer))
    assert [is_open(descriptor) for descriptor in passed] == [False]
