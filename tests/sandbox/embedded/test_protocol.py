"""Messages and descriptors arrive as they were sent, however large."""

import os
import resource
import socket

import pytest

from seatrial.sandbox.embedded.protocol import DescriptorsLostError, receive, send


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


@pytest.mark.parametrize("size", [1, 200_000], ids=["in a packet", "in a file"])
def test_whoever_has_no_room_for_the_descriptors_still_learns_which_message_it_was(pair, size):
    send(pair[0], {"id": 7, "text": "x" * size}, [0, 1])
    before = set(os.listdir("/proc/self/fd"))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
    try:
        with pytest.raises(DescriptorsLostError) as caught:
            receive(pair[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert caught.value.message["id"] == 7
    assert set(os.listdir("/proc/self/fd")) == before
