"""What requests about a review say."""

import asyncio
import json
from unittest.mock import Mock

from aiohttp.streams import StreamReader
from aiohttp.test_utils import make_mocked_request

from seatrial.review.given import GivenVerdict
from seatrial.view.review.asked import given_in
from tests.view.review.reviewing import ENTRY


def test_what_arrives_in_pieces_is_put_together():
    text = json.dumps({"id": ENTRY, "reviewer": "ada", "judgment": "pass", "notes": "x" * 100}).encode()

    async def receive() -> GivenVerdict:
        arriving = StreamReader(Mock(), 2**16, loop=asyncio.get_running_loop())
        request = make_mocked_request("POST", "/", payload=arriving)
        arriving.feed_data(text[:20])
        reading = asyncio.ensure_future(given_in(request, GivenVerdict))
        await asyncio.sleep(0)  # until it has read what there is
        arriving.feed_data(text[20:])
        arriving.feed_eof()
        return await reading

    assert asyncio.run(receive()).notes == "x" * 100
