"""Long streams: each chunk is passed on before the next is asked for, and what was put off is not lost."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.gateway.api import HttpAnswer, ModelReply, ModelRequest
from seatrial.gateway.base import EndedCall
from seatrial.gateway.calls import CallLog
from seatrial.gateway.notes import CallNotes
from seatrial.gateway.prices import PriceTable
from seatrial.gateway.session import Session, SessionOptions
from seatrial.gateway.streaming import KeepAlives, pass_on_stream
from seatrial.gateway.upstreams.replies import Reply, render_stream
from seatrial.gateway.upstreams.scripted import ScriptedModel

FIRST, *MIDDLE, STOP, USAGE, DONE = render_stream("openai_chat", Reply(text="a stream of many words, " * 40))
LONG = (FIRST, *MIDDLE * 20, STOP, USAGE, DONE)
TEXT = "a stream of many words, " * 40 * 20


class Listener:
    """A way back to an agent that hangs up after so many pieces."""

    begun = True

    def __init__(self, most: int = 10**6) -> None:
        self.heard: list[bytes] = []
        self._most = most

    async def begin(self, status: int, headers: dict[str, str]) -> None:
        assert (status, headers["content-type"].partition(";")[0]) == (200, "text/event-stream")

    async def write(self, data: bytes) -> None:
        if len(self.heard) >= self._most:
            raise ConnectionResetError
        self.heard.append(data)

    async def answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        raise AssertionError("a stream is not answered as a whole")


async def passed_on(chunks: Sequence[bytes], listener: Listener, folder: Path, *, hides_usage: bool) -> EndedCall:
    """The call that a stream makes; fails if a chunk is asked for before the last one was passed on."""

    async def pieces() -> AsyncIterator[bytes]:
        for number, chunk in enumerate(chunks):
            assert len(listener.heard) == number
            yield chunk

    payload = {"messages": [], "stream": True, "stream_options": {"include_usage": not hides_usage}}
    request = ModelRequest("/v1/chat/completions", dialect="openai_chat", payload=payload, stream=True)
    with CallLog(folder) as log:
        session = Session(ScriptedModel([]), log, SessionOptions(), PriceTable(models={}))
        notes = CallNotes(session, request, 0, None)
        with contextlib.suppress(ConnectionResetError), HttpAnswer(session.bodies) as answer:
            await pass_on_stream(request, request, ModelReply(200, {}, pieces()), listener, notes, answer)
        return notes.call()


def said(call: EndedCall) -> str:
    text: str = call["response"]["choices"][0]["message"]["content"]
    return text


@pytest.mark.parametrize("hides_usage", [False, True])
def test_a_long_stream_is_recorded_whole(tmp_path: Path, hides_usage: bool):
    listener = Listener()
    chunks = LONG if not hides_usage else (*LONG[:-2], USAGE + DONE)
    call = asyncio.run(passed_on(chunks, listener, tmp_path, hides_usage=hides_usage))
    assert said(call) == TEXT
    assert call["finish_reason"] == "stop"
    assert "usage" in call
    assert call["first_token_sec"] > 0
    heard = b"".join(listener.heard)
    assert heard == b"".join(LONG).replace(USAGE if hides_usage else b"nothing", b"")


def test_what_came_before_an_agent_hung_up_is_recorded(tmp_path: Path):
    call = asyncio.run(passed_on(LONG, Listener(most=30), tmp_path, hides_usage=True))
    assert TEXT.startswith(said(call))
    assert len(said(call)) > 20 * 16
    assert "finish_reason" not in call


PINGS = [
    b": OPENROUTER PROCESSING\n\n",
    b":\n\n",
    b"\n",
    b"\r\n\r\n",
    b'event: ping\ndata: {"type": "ping"}\n\n',
    b'event: ping\ndata: {"type":"ping"}\n\n',
    b'event: keepalive\ndata: {"type":"keepalive","sequence_number":3}\n\n',
    b": keep-alive\r\n\r\n: keep-alive\r\n\r\n",
]
WORDS = [
    b'data: {"choices":[{"delta":{"content":": "}}]}\n\n',
    b'event: content_block_delta\ndata: {"type":"content_block_delta"}\n\n',
    b'data: {"type":"response.output_text.delta","delta":"ping"}\n\n',
    b"data: [DONE]\n\n",
]


@pytest.mark.parametrize("ping", PINGS)
def test_nothing_of_an_answer_is_in_a_keep_alive(ping):
    keep_alives = KeepAlives()
    assert all(keep_alives.is_one(ping) for _ in range(3))


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("ping", PINGS)
def test_a_word_among_keep_alives_is_a_word(word, ping):
    assert not KeepAlives().is_one(word)
    assert not KeepAlives().is_one(ping + word)
    keep_alives = KeepAlives()
    assert [keep_alives.is_one(each) for each in (ping, word, ping)] == [True, False, True]


@given(st.lists(st.sampled_from(PINGS[:4]), min_size=1), st.lists(st.integers(1, 9)))
def test_comments_are_keep_alives_however_they_are_cut(pings, sizes):
    keep_alives, whole = KeepAlives(), b"".join(pings)
    for size in [*sizes, len(whole)]:
        piece, whole = whole[:size], whole[size:]
        assert not piece or keep_alives.is_one(piece)


@given(st.lists(st.binary(max_size=40)))
def test_no_bytes_make_it_fail(chunks):
    keep_alives = KeepAlives()
    for chunk in chunks:
        keep_alives.is_one(chunk)
