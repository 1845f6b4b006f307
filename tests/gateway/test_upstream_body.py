"""What comes of a provider's answer: no secret of this machine's, however the network cuts it."""

import asyncio
from typing import Any, cast

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.gateway.upstreams.http import Body, Hider, secrets_of
from seatrial.testing.fake_provider import Fail, Raw, Say, Step
from tests.gateway.gateways import gateway_to, post
from tests.gateway.test_waits import by_hand
from tests.gateway.upstream_calls import KEY, PATHS, call

CHAT = PATHS["openai_chat"]
TRICKY = "sk-aabaabaabaac"  # begins again within itself


class Wire:
    """A response whose body comes in these pieces."""

    closed = True

    def __init__(self, pieces: list[bytes]) -> None:
        self.content = self
        self._pieces = pieces

    async def readany(self) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""

    def is_eof(self) -> bool:
        return len(self._pieces) < 2

    def at_eof(self) -> bool:
        return not self._pieces

    def read_nowait(self) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""


async def read(pieces: list[bytes], *secrets: str) -> bytes:
    body = await Body.begun(cast("Any", Wire(pieces)), 60, Hider(secrets))
    whole = body.whole()
    said = whole if whole is not None else b"".join([chunk async for chunk in body])
    body.close()
    return said


@given(st.lists(st.sampled_from([TRICKY, TRICKY[:7], "\n", "sk-", "a", "data: "])), st.data())
def test_a_key_is_hidden_however_its_answer_is_cut(words, data):
    said = "".join(words).encode()
    borders = sorted(data.draw(st.lists(st.integers(0, len(said)), max_size=8)))
    pieces = [said[start:end] for start, end in zip([0, *borders], [*borders, len(said)], strict=True)]
    assert asyncio.run(read(pieces, TRICKY)) == said.replace(TRICKY.encode(), b"[key]")


def test_what_a_provider_is_sent_as_a_secret():
    headers = {"x-upstream-auth": "Basic dXNlcjpwYXNz", "x-title": "a name in the open", "cookie": "short"}
    assert secrets_of("the-key-itself", headers) == ("Basic dXNlcjpwYXNz", "the-key-itself", "dXNlcjpwYXNz")


def test_a_key_with_characters_that_json_writes_otherwise():
    key = 'quo"te\\slash'
    assert asyncio.run(read([orjson.dumps({"said": key})], key)) == b'{"said":"[key]"}'


@pytest.mark.parametrize("step", ["answer", "header", "refusal", "event"])
def test_a_key_does_not_come_back(tmp_path, step):
    """Neither to the agent, nor into what is kept."""
    said = f"you sent me {KEY}, and {KEY[:-1]}"
    event = f'data: {{"choices":[{{"index":0,"delta":{{"content":"{said}"}}}}]}}\n\n'.encode()
    steps: dict[str, Step] = {
        "answer": Say(said),
        "header": Say(headers={"x-echo": said}),
        "refusal": Fail(400, said),
        "event": Raw(event, headers={"content-type": "text/event-stream"}),
    }

    async def scenario() -> None:
        async with gateway_to(tmp_path, steps[step]) as (gateway, _), gateway.plain() as client:
            async with client.post(CHAT, data=call(stream=step == "event").body) as response:
                seen = f"{response.headers}{await response.text()}"
            assert ("[key]" in seen, KEY in seen) == (True, False)
        assert KEY.encode() not in (tmp_path / "calls.jsonl").read_bytes()

    by_hand(scenario)


def test_garbage_that_ends_in_half_a_key(tmp_path):
    async def scenario() -> None:
        async with gateway_to(tmp_path, Raw(KEY[:5].encode())) as (gateway, _):
            status, said = await post(gateway, CHAT, call().body)
            assert (status, b"with 'sk-pr', which is no answer" in said) == (502, True)

    by_hand(scenario)
