"""Keep-alives: told from answers however a network cuts them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.gateway.keep_alive import KeepAlives

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
