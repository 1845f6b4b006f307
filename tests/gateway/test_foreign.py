"""Agents whose upstream speaks another dialect: whole conversations over HTTP, what is noted, and what errors say."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from seatrial.gateway.api import ModelReply, ModelRequest
from seatrial.gateway.calls import CALLS_FILE
from seatrial.gateway.dialects import PATHS
from seatrial.gateway.foreign import error_in_dialect
from seatrial.gateway.upstreams.replay import ReplayModel
from seatrial.model.trace import Dialect
from seatrial.testing.fake_provider import Fail, Say
from tests.gateway.agent_requests import CLAUDE_CODE, CODEX, PATCH
from tests.gateway.gateways import Gateway, gateway_to, open_gateway, post
from tests.gateway.strict_upstream import StrictUpstream

AGENTS: dict[Dialect, dict[str, Any]] = {"anthropic": CLAUDE_CODE, "openai_responses": CODEX}
WAYS: list[tuple[Dialect, Dialect]] = [
    ("anthropic", "openai_chat"),
    ("anthropic", "openai_responses"),
    ("openai_responses", "openai_chat"),
    ("openai_responses", "anthropic"),
]
EFFORT = {"openai_chat": "reasoning_effort", "openai_responses": "reasoning", "anthropic": "thinking"}


async def asked(gateway: Gateway, dialect: Dialect, **changes: Any) -> tuple[int, bytes]:
    body = orjson.dumps({**AGENTS[dialect], **changes})
    return await post(gateway, PATHS[dialect], body, **{"anthropic-beta": "new-2026", "user-agent": "cli/1"})


@pytest.mark.parametrize(("here", "there"), WAYS)
def test_what_is_left_out_is_noted_with_the_first_call_and_for_the_trial(tmp_path, here, there):
    upstream = StrictUpstream(there, ["one", "two"])

    async def scenario() -> None:
        async with open_gateway(upstream, tmp_path) as gateway:
            assert [(await asked(gateway, here))[0] for _ in range(2)] == [200, 200]
        first, second = gateway.calls
        assert "cache_control" in first.omitted or "client_metadata" in first.omitted
        assert (second.omitted, gateway.session.usage.omitted) == ((), first.omitted)
        assert gateway.session.tally.refused_by_us == 0

    asyncio.run(scenario())
    assert all("anthropic-beta" not in request.headers for request in upstream.taken)
    assert all(request.headers["user-agent"] == "cli/1" for request in upstream.taken)


@pytest.mark.parametrize(("here", "there"), WAYS)
def test_a_setting_that_the_model_refuses_is_left_out_from_then_on(tmp_path, here, there):
    upstream = StrictUpstream(there, ["one", "two"], refuses=[EFFORT[there]])

    async def scenario() -> None:
        async with open_gateway(upstream, tmp_path) as gateway:
            assert [(await asked(gateway, here))[0] for _ in range(2)] == [200, 200]
        assert upstream.asked == 3
        assert [call.status for call in gateway.calls] == [200, 200]
        effort = {"anthropic": "output_config.effort", "openai_responses": "reasoning.effort"}[here]
        assert effort in gateway.session.usage.omitted

    asyncio.run(scenario())


@pytest.mark.parametrize(("sampling", "status"), [({}, 200), ({"top_p": 0.5}, 400)])
def test_sampling_that_the_model_refuses_is_left_out_unless_the_run_has_set_it(tmp_path, sampling, status):
    upstream = StrictUpstream("anthropic", ["one"], refuses=["top_p"])

    async def scenario() -> None:
        async with open_gateway(upstream, tmp_path, sampling=sampling) as gateway:
            assert (await asked(gateway, "openai_responses", temperature=1, top_p=0.9))[0] == status
        assert ("top_p" in gateway.session.usage.omitted) == (status == 200)

    asyncio.run(scenario())


def test_a_strict_translation_leaves_nothing_out(tmp_path):
    upstream = StrictUpstream("openai_chat", ["one"], refuses=["reasoning_effort"])
    effort = {
        "tools": None,
        "context_management": None,
        "metadata": None,
        "messages": [{"role": "user", "content": "x"}],
    }

    async def scenario() -> None:
        async with open_gateway(upstream, tmp_path, translation="strict") as gateway:
            refused = await asked(gateway, "anthropic")
            unsupported = await asked(gateway, "anthropic", **effort)
        assert refused[0] == unsupported[0] == 400
        assert b"`context_management` cannot be translated" in refused[1]
        said = orjson.loads(unsupported[1])["error"]["message"]
        assert "`reasoning_effort` is what `output_config.effort` was translated to" in said

    asyncio.run(scenario())
    assert upstream.asked == 1


@pytest.mark.parametrize(
    ("there", "told", "left_out"),
    [
        ("anthropic", "output_config.effort: Input should be 'low'", "reasoning.effort"),
        ("anthropic", "adaptive thinking is not supported on this model", "reasoning.effort"),
        ("openai_chat", "Unsupported parameter: 'parallel_tool_calls'", "parallel_tool_calls"),
        ("anthropic", "messages.1.content.0.thinking.signature: Field required", None),
        ("openai_chat", "the prompt is too long", None),
    ],
)
def test_refusals_that_speak_of_a_setting_are_told_apart(tmp_path, there, told, left_out):
    async def scenario() -> None:
        script = (Fail(400, told), Say("ok"))
        async with gateway_to(tmp_path, *script, speaks=there) as (gateway, _):
            status, _ = await asked(gateway, "openai_responses")
        assert status == (400 if left_out is None else 200)
        assert left_out is None or left_out in gateway.session.usage.omitted

    asyncio.run(scenario())


def test_errors_name_what_the_agent_sent():
    told = error_in_dialect(400, "Unknown parameter: 'text.format'.", "openai_responses", "anthropic")
    assert "`text.format` is what `output_config.format` was translated to" in orjson.loads(told)["error"]["message"]
    told = error_in_dialect(400, "messages: too long", "anthropic", "openai_chat")
    assert orjson.loads(told)["error"]["message"] == "messages: too long"


def test_other_refusals_are_the_agents_to_hear(tmp_path):
    async def scenario() -> None:
        script = (Fail(400, "the prompt is too long"), Say("ok"))
        async with gateway_to(tmp_path, *script, speaks="openai_chat") as (gateway, fake):
            status, said = await asked(gateway, "anthropic", stream=False)
        assert (status, len(fake.received)) == (400, 1)
        assert orjson.loads(said)["error"]["message"] == "the prompt is too long"

    asyncio.run(scenario())


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("there", ["openai_chat", "anthropic"])
def test_a_patch_reaches_codex_as_the_text_that_it_wants(tmp_path, there, stream):
    line = {"tool_calls": [{"name": "apply_patch", "id": "c9", "arguments": {"input": PATCH}}]}
    upstream = StrictUpstream(there, [line])

    async def scenario() -> None:
        async with open_gateway(upstream, tmp_path) as gateway:
            status, said = await asked(gateway, "openai_responses", stream=stream)
            assert status == 200
            told = said
        async with open_gateway(ReplayModel.from_file(tmp_path / CALLS_FILE), tmp_path / "again") as gateway:
            status, again = await asked(gateway, "openai_responses", stream=stream)
        for body in (told, again):
            (call,) = _answer(body, stream=stream)["output"]
            assert (call["type"], call["name"], call["input"]) == ("custom_tool_call", "apply_patch", PATCH)
            assert call["call_id"] == "c9"
            assert (b"response.custom_tool_call_input.done" in body) == stream

    (tmp_path / "again").mkdir()
    asyncio.run(scenario())


def _answer(body: bytes, *, stream: bool) -> Any:
    if not stream:
        return orjson.loads(body)
    last = [line for line in body.splitlines() if line.startswith(b"data:")][-1]
    return orjson.loads(last.removeprefix(b"data:"))["response"]


@pytest.mark.parametrize(
    ("path", "there", "counts"),
    [
        ("/v1/messages/count_tokens", "openai_chat", True),
        ("/v1/responses/input_tokens", "anthropic", True),
        ("/v1/messages/count_tokens?beta=true", "anthropic", False),
    ],
)
def test_tokens_are_estimated_for_agents_that_the_upstream_does_not_understand(tmp_path, path, there, counts):
    async def scenario() -> None:
        async with gateway_to(tmp_path, speaks=there) as (gateway, fake):
            status, said = await post(gateway, path, b'{"messages": []}' + b" " * 24)
        assert status == 200
        assert bool(fake.received) != counts
        if counts:
            assert orjson.loads(said)["input_tokens"] == 10
        assert gateway.calls == []

    asyncio.run(scenario())


class Lingering(StrictUpstream):
    """Says everything, and closes its answer only when it is told to."""

    @asynccontextmanager
    async def ask(self, request: ModelRequest) -> AsyncIterator[ModelReply]:
        async with super().ask(request) as reply:

            async def chunks() -> AsyncIterator[bytes]:
                async for chunk in reply.chunks:
                    yield chunk
                await asyncio.Event().wait()

            yield reply._replace(chunks=chunks(), whole=None)


@pytest.mark.parametrize(("here", "there"), WAYS)
def test_whoever_hangs_up_at_the_last_word_has_had_the_answer(tmp_path, here, there):
    last = {"anthropic": b"message_stop", "openai_responses": b"response.completed"}[here]

    async def scenario() -> None:
        async with (
            open_gateway(Lingering(there, ["all of it"]), tmp_path) as gateway,
            gateway.plain() as client,
            client.post(PATHS[here], json=AGENTS[here]) as response,
        ):
            heard = b""
            while last not in heard:
                heard += await response.content.readany()
            response.close()
        (call,) = gateway.calls
        assert (call.status, call.error) == (200, None)

    asyncio.run(asyncio.wait_for(scenario(), 30))
