"""Messages and descriptors arrive as they were sent, however large."""

import os
import socket

import pytest

from seatrial.sandbox.embedded.protocol import receive, send


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    yield ours, theirs
    ours.close()
    theirs.close()


@pytest.mark.parametrize("size", [0, 1, 90_000, 98_304, 100_000, 5_000_000], ids=str)
def test_a_message_of_any_size(pair, size):
    message = {"text": "ü" * size, "number": 1}
    send(pair[0], message)
    assert receive(pair[1]) == (message, [])


@pytest.mark.parametrize("size", [1, 200_000], ids=["in a packet", "in a file"])
def test_descriptors_travel_beside(pair, size):
    reader, writer = os.pipe()
    send(pair[0], {"text": "x" * size}, [reader, writer])
    received = receive(pair[1])
    assert received is not None
    _, (their_reader, their_writer) = received
    os.write(their_writer, b"through")
    assert os.read(reader, 100) == b"through"
    assert not os.get_inheritable(their_reader)
    for descriptor in (reader, writer, their_reader, their_writer):
        os.close(descriptor)


def test_the_end_is_told_apart_from_an_empty_message(pair):
    send(pair[0], {})
    pair[0].close()
    assert receive(pair[1]) == ({}, [])
    assert receive(pair[1]) is None
