"""Events come out the same however the network cuts the stream."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.errors import ProviderError
from seatrial.gateway.sse import SseEvent, SseReader, encode_event

EVENT_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=20)
EVENT_NAME = st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), min_size=1, max_size=8)
LINES = st.sampled_from(
    [
        b'data: {"a":1}',
        b"data:x",
        b"data",
        b"event: ping",
        b"event:",
        b": keep-alive",
        b"id: 7",
        b"",
        b"",
        "data: é😀".encode(),
    ]
)
LINE_ENDS = st.sampled_from([b"\n", b"\r", b"\r\n"])
STREAMS = st.lists(st.tuples(LINES, LINE_ENDS).map(b"".join), max_size=12).map(b"".join)


def read(*chunks: bytes, limit: int = 10_000) -> list[SseEvent]:
    reader = SseReader(limit)
    events = [event for chunk in chunks for event in reader.feed(chunk)]
    return events + reader.close()


@given(st.sampled_from([b"", b"\xef\xbb\xbf"]), STREAMS, st.lists(st.integers(0, 200), max_size=8))
def test_any_split_gives_the_same_events(start, stream, cuts):
    whole = start + stream
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    chunks = [whole[left:right] for left, right in pairwise(places)]
    expected = read(whole)
    assert read(*chunks) == expected
    assert read(*(whole[i : i + 1] for i in range(len(whole)))) == expected


@given(st.lists(st.builds(SseEvent, EVENT_NAME, EVENT_TEXT), max_size=5))
def test_what_is_written_is_what_is_read(events):
    assert read(b"".join(encode_event(event) for event in events)) == events


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\ndata: b\n\n", [(None, "a"), (None, "b")]),
        (b"event: x\ndata: a\ndata: b\n\n", [("x", "a\nb")]),
        (b"\xef\xbb\xbfdata: a\r\n\r\n", [(None, "a")]),
        (b"data: a\r\rdata: b\r\r", [(None, "a"), (None, "b")]),
        (b": comment\n\n\n\ndata:  two spaces\n\n", [(None, " two spaces")]),
        (b"event: lonely\n\ndata\n\n", [(None, "")]),
        (b"data: not ended", [(None, "not ended")]),
        (b"data: \xff\n\n", [(None, "\ufffd")]),
    ],
)
def test_fields_and_line_ends(stream, events):
    assert read(stream) == events


def test_an_event_without_end_is_refused():
    reader = SseReader(limit=100)
    for _ in range(7):
        assert reader.feed(b"data: 12345678") == []
    with pytest.raises(ProviderError, match="larger than 100 bytes"):
        reader.feed(b"data: 12345678")


def test_many_events_do_not_add_up_to_the_limit():
    reader = SseReader(limit=100)
    assert sum(len(reader.feed(b"data: 1234567890\n\nda" if i % 2 == 0 else b"ta: x\n\n")) for i in range(100)) == 100
