"""Long streams: each chunk is passed on before the next is asked for, and what was put off is not lost."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from seatrial.gateway.api import ModelReply, ModelRequest
from seatrial.gateway.bodies import HttpAnswer
from seatrial.gateway.calls import CallLog
from seatrial.gateway.ended import EndedCall
from seatrial.gateway.notes import CallNotes
from seatrial.gateway.pricing import PriceTable
from seatrial.gateway.session import Session, SessionOptions
from seatrial.gateway.streaming import pass_on_stream
from seatrial.gateway.upstreams.render import render_stream
from seatrial.gateway.upstreams.reply import Reply
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
