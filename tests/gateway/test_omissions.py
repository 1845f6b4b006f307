"""Omissions: each thing once, wherever in a list it stood, and only so many; other models are among them."""

import asyncio
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.gateway.dialects import PATHS
from seatrial.gateway.dialects.fields import with_one_model
from seatrial.gateway.omissions import Omissions
from tests.gateway.gateways import gateway_to, post
from tests.gateway.upstream_calls import HELLO, call

CHAT = PATHS["openai_chat"]


def test_each_thing_is_noted_once():
    omissions = Omissions()
    assert omissions.first_seen(["store", "tools[3] (web_search)"]) == ["store", "tools[3] (web_search)"]
    assert omissions.first_seen(["tools[4] (web_search)", "store", "tools[4] (computer)"]) == ["tools[4] (computer)"]
    assert omissions.noted == ("store", "tools[3] (web_search)", "tools[4] (computer)")


def test_an_agent_cannot_fill_the_record_with_names():
    omissions = Omissions()
    for number in range(1000):
        omissions.first_seen([f"field{number}" * 100])
    assert len(omissions.noted) == 100
    assert max(map(len, omissions.noted)) == 200


OTHERS: dict[str, Any] = {
    "models": ["dear"],
    "fallbacks": [{"model": "dear"}],
    "plugins": [{"id": "web", "model": "dear"}],
    "provider": {"order": ["dear"]},
    "preset": "dear",
    "route": "fallback",
    "a_field_of_tomorrow": {"x": ["dear"]},
}
KEPT = {
    "top_k": 4,
    "min_p": 0.1,
    "stop": ["x"],
    "guided_json": {"properties": {"model": {}}},
    "metadata": {"model": "a"},
}
OF_OURS = {"type": "function", "function": {"name": "f", "parameters": {"properties": {"model": {"type": "string"}}}}}


def test_a_run_with_a_model_reaches_no_other_by_any_field(tmp_path):
    async def scenario() -> None:
        async with gateway_to(tmp_path, model="cheap") as (gateway, fake):
            tools = [OF_OURS, {"type": "image_generation", "model": "dear", "size": "small"}]
            await post(gateway, CHAT, orjson.dumps({**HELLO, "tools": tools, **OTHERS, **KEPT}))
            sent = fake.received[0].payload
            assert {name: sent[name] for name in KEPT} == KEPT
            assert sent["tools"] == [OF_OURS, {"type": "image_generation", "size": "small"}]
            assert (sent["model"], OTHERS.keys() & sent.keys(), "dear" in str(sent)) == ("cheap", set(), False)
            (kept,) = gateway.calls
            assert {*kept.omitted} == {*OTHERS, "tools[1].model"}

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("dialect", "field"),
    [
        ("openai_responses", {"tools": [{"type": "image_generation", "model": "dear"}]}),
        ("anthropic", {"tools": [{"type": "advisor", "name": "a", "model": "dear"}]}),
        ("anthropic", {"fallback_models": ["dear"]}),
        ("google", {"generationConfig": {"routingConfig": {"manualMode": {"modelName": "dear"}}}}),
        ("google", {"modelRouting": {"name": "dear"}}),
    ],
)
def test_nor_in_any_dialect(tmp_path, dialect, field):
    async def scenario() -> None:
        request = call(dialect)
        async with gateway_to(tmp_path, speaks=dialect, model="cheap") as (gateway, fake):
            await post(gateway, request.path, orjson.dumps({**orjson.loads(request.body), **field}))
            assert (b"dear" in fake.received[0].body, bool(gateway.session.usage.omitted)) == (False, True)

    asyncio.run(scenario())


def test_a_strict_run_refuses_such_a_field_and_one_without_a_model_passes_it_on(tmp_path):
    async def scenario() -> None:
        async with gateway_to(tmp_path, model="cheap", translation="strict") as (gateway, fake):
            status, said = await post(gateway, CHAT, call(models=["dear"]).body)
            assert (status, b"models" in said, len(fake.received)) == (400, True, 0)
        async with gateway_to(tmp_path) as (gateway, fake):
            await post(gateway, CHAT, call(models=["dear"]).body)
            assert fake.received[0].body == call(models=["dear"]).body

    asyncio.run(scenario())


NAMES = st.text() | st.sampled_from(["model", "tools", "messages", "models", "thinking", "type", "function"])
LEAVES = st.none() | st.integers() | NAMES


@given(
    st.dictionaries(
        NAMES, st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(NAMES, inner), max_leaves=6)
    )
)
def test_whatever_strangers_send_is_left_out_once(payload):
    kept, dropped = with_one_model(payload)
    assert with_one_model(kept) == (kept, ())
    assert bool(dropped) == (kept != payload)
