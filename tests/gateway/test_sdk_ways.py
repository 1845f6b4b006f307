"""The official SDKs at the gateway: every dialect in front of every provider, with tools, pictures and streams."""

import asyncio
from typing import Any

import pytest

from seatrial.gateway.upstreams.replies import Reply, ReplyCall
from seatrial.gateway.upstreams.scripted import ScriptedModel
from seatrial.model.trace import DialectName
from seatrial.testing.fake_provider import Say
from tests.gateway import sdk_program
from tests.gateway.gateways import Gateway, gateway_to, open_gateway

CALLS = (ReplyCall("add", '{"x": 1}'), ReplyCall("add", '{"x": 2}'))
ADDED = [("add", {"x": 1}), ("add", {"x": 2})]
SCRIPT = [Reply("one"), Reply("two", CALLS), Reply("three"), Reply("four"), Reply("five", CALLS)]
SAID = ["one", ADDED, "three", "four", ADDED]
PARTS: dict[str, DialectName] = {"chat": "openai_chat", "responses": "openai_responses", "messages": "anthropic"}


async def run_program(gateway: Gateway, monkeypatch: pytest.MonkeyPatch, *parts: str) -> dict[str, Any]:
    with monkeypatch.context() as patch:
        patch.setenv("OPENAI_BASE_URL", f"{gateway.url}/v1")
        patch.setenv("ANTHROPIC_BASE_URL", gateway.url)
        patch.setenv("OPENAI_API_KEY", gateway.session.key)
        patch.setenv("ANTHROPIC_API_KEY", gateway.session.key)
        return await asyncio.to_thread(sdk_program.main, parts)


@pytest.mark.parametrize("speaks", ["openai_chat", "openai_responses", "anthropic", None])
@pytest.mark.parametrize("part", PARTS)
def test_every_dialect_in_front_of_every_provider(tmp_path, monkeypatch, part, speaks):
    async def scenario() -> None:
        async with gateway_to(tmp_path, *map(Say, SCRIPT), speaks=speaks) as (gateway, fake):
            assert await run_program(gateway, monkeypatch, part) == {part: SAID}
        paths = {received.path for received in fake.received}
        assert len(paths) == 1
        assert "iVBORw0KGgo" in fake.received[1].body.decode()
        assert [call.error for call in gateway.calls] == [None] * 5
        assert [call.dialect for call in gateway.calls] == [PARTS[part]] * 5
        assert [call.stream for call in gateway.calls] == [False, False, False, True, True]
        assert all(call.usage and call.usage.output_tokens for call in gateway.calls)
        assert all(call.first_token_sec is not None for call in gateway.calls if call.stream)

    asyncio.run(scenario())


@pytest.mark.parametrize("part", PARTS)
def test_a_scripted_model_says_the_same(tmp_path, monkeypatch, part):
    calls = [{"name": call.name, "arguments": call.arguments} for call in CALLS]
    lines = [{"text": reply.text, "tool_calls": calls if reply.tool_calls else []} for reply in SCRIPT]

    async def scenario() -> None:
        async with open_gateway(ScriptedModel(lines), tmp_path) as gateway:
            assert await run_program(gateway, monkeypatch, part) == {part: SAID}

    asyncio.run(scenario())


def test_calls_side_by_side_are_answered_side_by_side(tmp_path, monkeypatch):
    async def scenario() -> None:
        script = [Say(f"{n}", late=True) for n in range(8)]
        async with gateway_to(tmp_path, *script) as (gateway, fake), asyncio.TaskGroup() as group:
            program = group.create_task(run_program(gateway, monkeypatch, "side_by_side"))
            await fake.arrived(8)
            fake.release()
        assert program.result() == {"side_by_side": [str(n) for n in range(8)]}
        assert fake.most_in_flight == 8
        assert sorted(call.index for call in gateway.calls) == list(range(8))

    asyncio.run(scenario())


def test_the_other_paths_and_a_budget_that_is_used_up(tmp_path, monkeypatch):
    async def scenario() -> None:
        async with gateway_to(tmp_path, max_turns=8) as (gateway, _):
            assert await run_program(gateway, monkeypatch, "models") == {"models": ["fake"], "count": 42}
            await run_program(gateway, monkeypatch, "side_by_side")
            assert await run_program(gateway, monkeypatch, "refused") == {"refused": ["insufficient_quota", 429]}

    asyncio.run(scenario())
