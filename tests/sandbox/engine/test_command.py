"""A command's outputs, cut out of streams that come in any pieces."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from seatrial.sandbox.api import ExecSpec
from seatrial.sandbox.engine.client import Endpoint, EngineClient
from seatrial.sandbox.engine.command import ContainerCommand, Output

WORD = b"0123456789abcdef "


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in pairwise(places)]


@given(st.binary(max_size=60), st.binary(max_size=30), st.integers(0, 255), st.lists(st.integers(0, 200)))
def test_all_before_the_word_and_nothing_after_is_kept_however_it_comes(said, after, code, cuts):
    output = Output(None, 1000, WORD)
    for piece in pieces(said + WORD + b"%d\n" % code + after, cuts):
        output.feed(piece)
    assert (output.code, output.finish(), output.truncated) == (code, said, False)


@given(st.binary(max_size=60), st.lists(st.integers(0, 200)))
def test_without_the_word_all_of_it_is_kept(said, cuts):
    output = Output(None, 1000, WORD)
    for piece in pieces(said + WORD[:-1], cuts):
        output.feed(piece)
    assert (output.code, output.finish()) == (None, said + WORD[:-1])


@given(st.binary(max_size=60), st.integers(0, 80), st.lists(st.integers(0, 200)))
def test_what_is_too_much_is_dropped_and_said_so(said, limit, cuts):
    output = Output(None, limit, WORD)
    for piece in pieces(said + WORD + b"0\n", cuts):
        output.feed(piece)
    assert output.finish() == said[:limit]
    assert output.truncated == (len(said) > limit)


def test_into_a_file(tmp_path):
    output = Output(tmp_path / "out", 3, WORD)
    output.feed(b"12345" + WORD + b"7\n")
    assert (output.finish(), output.code, (tmp_path / "out").read_bytes()) == (b"", 7, b"123")


def test_what_comes_is_heard_at_once_up_to_the_limit():
    heard: list[bytes] = []
    output = Output(None, 8, WORD, heard.append)
    for piece in (b"hello", b" 01", b"2 world"):
        output.feed(piece)
    assert heard == [b"hello", b" ", b"01"]


def test_finishing_twice_does_no_harm():
    output = Output(None, 10, WORD)
    output.feed(b"x")
    assert [output.finish(), output.finish()] == [b"x", b""]


def test_a_command_that_is_about_to_start_is_not_forgotten_when_the_next_one_comes():
    command = ContainerCommand(EngineClient(Endpoint("docker", None)), "container", ExecSpec(("true",)))
    assert command.open
    command.finish()
    assert not command.open
