"""A trial's limits and sums, told by the errors that the official SDKs raise and by what is in the record."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import anthropic
import openai
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.gateway.api import ModelRequest
from seatrial.gateway.base import CallTally, EndedCall
from seatrial.gateway.dialects import with_one_model
from seatrial.gateway.session import Omissions, Session, SessionOptions
from seatrial.gateway.upstreams.scripted import ScriptedModel
from seatrial.model.record import ModelUsage
from seatrial.testing.fake_provider import Cut, Fail, Say
from tests.gateway.gateways import HELLO, PRICES, Gateway, gateway_to, open_gateway, post
from tests.gateway.upstream_calls import HELLO as UPSTREAM_CALLS_HELLO
from tests.gateway.upstream_calls import PATHS, call

TEN_TOKENS: dict[str, Any] = {"text": "ok", "usage": {"input_tokens": 8, "cached_tokens": 3, "output_tokens": 2}}
CHAT_PATH = "/v1/chat/completions"
CHAT_BODY = b'{"model":"m","messages":[{"role":"user","content":"hello"}]}'
AT_ONCE = {"x-should-retry": "true", "retry-after-ms": "1"}


class Kept(list[EndedCall]):
    """A log that is only a list."""

    write = list.append


def new_session(**options: Any) -> Session:
    """A session that nobody serves."""
    return Session(ScriptedModel([]), Kept(), SessionOptions(**options), PRICES)


def ask(gateway: Gateway) -> str | None:
    """One question by chat completions; the SDK may repeat it as often as it likes to."""
    with gateway.openai(max_retries=5) as client:
        answer = client.chat.completions.create(model="m", messages=HELLO)
    return answer.choices[0].message.content


def claude(gateway: Gateway) -> str:
    with gateway.anthropic(max_retries=5) as client:
        answer = client.messages.create(model="m", max_tokens=9, messages=HELLO)
    return answer.content[0].text  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ({"max_turns": 2}, "limit of 2 model calls"),
        ({"max_tokens": 20}, "limit of 20 tokens"),
        ({"max_cost_usd": 0.000024}, "limit of 2.4e-05 USD"),
    ],
)
def test_beyond_a_limit_the_provider_seems_to_refuse(tmp_path, limit, reason):
    async def scenario() -> None:
        model = ScriptedModel([TEN_TOKENS] * 9)
        async with open_gateway(model, tmp_path, **limit) as gateway:
            for _ in range(2):
                assert await asyncio.to_thread(ask, gateway) == "ok"
            with pytest.raises(openai.RateLimitError, match=reason) as refused:
                await asyncio.to_thread(ask, gateway)
            assert refused.value.code == "insufficient_quota"
            with pytest.raises(anthropic.RateLimitError, match=reason):
                await asyncio.to_thread(claude, gateway)
        assert model.remaining == 7
        # A call each: no SDK has tried again by itself.
        assert [call.error and call.error.kind for call in gateway.calls] == [None, None, "budget", "budget"]
        assert gateway.session.failure is None

    asyncio.run(scenario())


def test_a_stream_beyond_the_limit_is_refused_before_it_begins(tmp_path):
    def stream(gateway: Gateway) -> list[Any]:
        with gateway.openai() as client:
            return list(client.chat.completions.create(model="m", messages=HELLO, stream=True))

    async def scenario() -> None:
        async with open_gateway(ScriptedModel(["a", "b"]), tmp_path, max_turns=1) as gateway:
            assert await asyncio.to_thread(stream, gateway)
            with pytest.raises(openai.RateLimitError):
                await asyncio.to_thread(stream, gateway)

    asyncio.run(scenario())


def test_what_was_used_is_summed_up(tmp_path):
    async def scenario() -> None:
        async with open_gateway(ScriptedModel([TEN_TOKENS] * 3), tmp_path) as gateway:
            await asyncio.to_thread(ask, gateway)
            await asyncio.to_thread(ask, gateway)
            await asyncio.to_thread(claude, gateway)
        used = gateway.session.usage
        assert used.cost_usd == pytest.approx(36e-6)
        counts = ModelUsage(calls=3, input_tokens=24, cached_tokens=9, output_tokens=6, cost_usd=used.cost_usd)
        assert used == counts
        assert [call.cost_usd for call in gateway.calls] == [pytest.approx(12e-6)] * 3

    asyncio.run(scenario())


def test_a_sum_with_an_unknown_cost_is_unknown(tmp_path):
    def ask_another(gateway: Gateway) -> None:
        with gateway.openai() as client:
            client.chat.completions.create(model="nobody-knows-it", messages=HELLO)

    async def scenario() -> None:
        async with open_gateway(ScriptedModel(["a", "b"]), tmp_path) as gateway:
            assert gateway.session.usage.cost_usd is None
            await asyncio.to_thread(ask, gateway)
            assert gateway.session.usage.cost_usd
            await asyncio.to_thread(ask_another, gateway)
            assert gateway.session.usage.cost_usd is None

    asyncio.run(scenario())


def test_what_an_sdk_repeats_by_itself_counts_once(tmp_path):
    async def scenario() -> None:
        script = (Fail(404, headers=AT_ONCE), Fail(404, headers=AT_ONCE), Say("at last"), Say("another"))
        async with gateway_to(tmp_path, *script, max_turns=2) as (gateway, _):
            assert await asyncio.to_thread(ask, gateway) == "at last"
            assert await asyncio.to_thread(ask, gateway) == "another"
            with pytest.raises(openai.RateLimitError):
                await asyncio.to_thread(ask, gateway)
        assert [call.retry_of for call in gateway.calls] == [None, 0, 1, None, None]
        assert gateway.session.usage.calls == 4

    asyncio.run(scenario())


SAME = ModelRequest("/v1/chat/completions", body=b"same")
FAILED: dict[str, Any] = {"error": {"kind": "provider", "status": 503, "message": "busy"}}


def ended(index: int, **fields: Any) -> EndedCall:
    call: dict[str, Any] = {"index": index, "path": SAME.path, "started_at": datetime.now(UTC), "duration_sec": 0.1}
    return cast(EndedCall, {**call, "stream": False, "messages": [], **fields})


def repeated(request: ModelRequest, count: str = "1") -> ModelRequest:
    return request._replace(headers={"x-stainless-retry-count": count} if count else {})


@pytest.mark.parametrize(
    ("body", "count", "turns"),
    [(b"same", "1", 1), (b"same", "0", 2), (b"same", "", 2), (b"other", "1", 2)],
    ids=["a repeat", "the same question anew", "no count", "a repeat of something else"],
)
def test_only_a_repeat_of_the_same_request_is_one(body, count, turns):
    session = new_session(max_turns=1)
    session.begin(SAME)
    session.end(ended(0, **FAILED), SAME)
    assert session.refusal() is None
    assert session.begin(repeated(SAME._replace(body=body), count))[1] == (None, 0)[turns == 1]
    assert (session.refusal() is None) == (turns == 1)


@pytest.mark.parametrize(
    ("outcome", "is_free"),
    [
        ({"status": 200}, False),
        (FAILED, True),
        ({"status": 404, "error": {"kind": "agent", "status": 404, "message": "no"}}, True),
        ({"error": {"kind": "disconnected", "message": "too slow"}}, True),
        ({"error": {"kind": "disconnected", "message": "enough"}, "first_token_sec": 0.1}, False),
        ({"error": {"kind": "disconnected", "message": "enough"}, "status": 200}, False),
        ({"error": {"kind": "budget", "status": 429, "message": "no more"}}, False),
    ],
)
def test_only_what_came_to_nothing_is_repeated_for_free(outcome, is_free):
    session = new_session(max_turns=1)
    session.begin(SAME)
    session.end(ended(0, **outcome), SAME)
    assert (session.begin(repeated(SAME))[1] == 0) == is_free
    # And once only: the repetition has to fail itself before there is another one.
    assert session.begin(repeated(SAME, "2"))[1] is None
    assert session.refusal() is not None


def test_a_call_that_is_still_under_way_is_not_repeated_for_free():
    session = new_session(max_turns=1)
    session.begin(SAME)
    assert session.begin(repeated(SAME))[1] is None
    assert session.refusal() is not None


def test_claiming_retries_leads_past_no_limit(tmp_path):
    async def scenario() -> None:
        async with gateway_to(tmp_path, max_turns=2) as (gateway, fake):
            statuses = []
            for count in range(5):
                headers = {"x-stainless-retry-count": str(count)}
                statuses.append((await post(gateway, "/v1/chat/completions", b'{"messages":[]}', **headers))[0])
        assert statuses == [200, 200, 429, 429, 429]
        assert len(fake.received) == 2

    asyncio.run(scenario())


def test_what_no_model_answers_does_not_fill_the_disk():
    session = new_session()
    for _ in range(700):
        session.refused("GET", "/x", 404, "nothing there")
        session.begin(SAME)
        session.end(ended(9, error={"kind": "budget", "message": "no more"}), SAME)
    session.end(ended(10, status=200), SAME)
    calls = session.log
    assert isinstance(calls, Kept)
    assert (len(calls), calls[-1]["status"]) == (501, 200)
    assert calls[0]["method"] == "GET"
    assert "the last of 500" in str(calls[-2])


def test_the_key_of_one_trial_opens_nothing_of_another(tmp_path):
    def ask_with(gateway: Gateway, key: str) -> str:
        with gateway.openai() as client:
            answer = client.with_options(api_key=key).chat.completions.create(model="m", messages=HELLO)
        return str(answer.choices[0].message.content)

    def claude_with(gateway: Gateway, key: str) -> None:
        with gateway.anthropic() as client:
            client.with_options(api_key=key).messages.create(model="m", max_tokens=9, messages=HELLO)

    async def scenario(folders: list[Path]) -> None:
        one, other = ScriptedModel(["of one"]), ScriptedModel(["of the other"])
        async with open_gateway(one, folders[0]) as first, open_gateway(other, folders[1]) as second:
            assert first.session.key != second.session.key
            for gateway, key in [
                (first, second.session.key),
                (second, first.session.key),
                (first, "sk-x"),
                (first, "x" * 99),
            ]:
                with pytest.raises(openai.AuthenticationError):
                    await asyncio.to_thread(ask_with, gateway, key)
                with pytest.raises(anthropic.AuthenticationError):
                    await asyncio.to_thread(claude_with, gateway, key)
            assert await asyncio.to_thread(ask_with, second, second.session.key) == "of the other"
        assert (one.remaining, first.calls, len(second.calls)) == (1, [], 1)

    folders = [tmp_path / "one", tmp_path / "other"]
    for folder in folders:
        folder.mkdir()
    asyncio.run(scenario(folders))


def test_keys_cannot_be_guessed():
    keys = {new_session().key for _ in range(100)}
    assert len(keys) == 100
    assert all(len(key) >= 32 for key in keys)


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
            await post(gateway, CHAT, orjson.dumps({**UPSTREAM_CALLS_HELLO, "tools": tools, **OTHERS, **KEPT}))
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


# The tally: calls that a model answered, those that we refused, and the last word the agent was told.


def test_answers_and_refusals_are_counted_apart(tmp_path):
    async def scenario() -> None:
        script = (Say("yes"), Fail(404, "no such model"))
        async with gateway_to(tmp_path, *script, speaks="anthropic", max_turns=4, translation="strict") as (gateway, _):
            assert gateway.session.tally == CallTally()
            assert (await post(gateway, CHAT_PATH, CHAT_BODY))[0] == 200
            assert gateway.session.tally == CallTally(requests=1, answered=1)
            assert (await post(gateway, CHAT_PATH, CHAT_BODY))[0] == 404  # the provider's word, not ours
            assert gateway.session.tally == CallTally(requests=2, answered=1)
            status, said = await post(gateway, CHAT_PATH, orjson.dumps({**orjson.loads(CHAT_BODY), "logprobs": True}))
            assert (status, gateway.session.tally.refused_by_us) == (400, 1)
            assert gateway.session.tally.last_refusal in orjson.loads(said)["error"]["message"]
            assert (await post(gateway, "/v1/audio/speech", CHAT_BODY))[0] == 404
            assert gateway.session.tally.refused_by_us == 2
            assert "/v1/audio/speech" in str(gateway.session.tally.last_refusal)

    asyncio.run(scenario())


def test_a_wrong_key_and_none_at_all_are_counted_and_explained(tmp_path):
    async def scenario() -> None:
        async with gateway_to(tmp_path) as (gateway, fake):
            told = []
            for key in ("Bearer sk-dummy", ""):
                status, said = await post(gateway, CHAT_PATH, CHAT_BODY, authorization=key)
                told.append((status, orjson.loads(said)["error"]["message"]))
            tally = gateway.session.tally
        assert [status for status, _ in told] == [401, 401]
        assert "is not the key of this trial; send the one that is in the variable OPENAI_API_KEY" in told[0][1]
        assert "is missing; send the one" in told[1][1]
        assert tally == CallTally(requests=2, refused_by_us=2, last_refusal=told[1][1])
        assert (len(fake.received), gateway.calls) == (0, [])

    asyncio.run(scenario())


def test_a_limit_of_the_run_is_no_refusal_of_ours(tmp_path):
    async def scenario() -> None:
        async with gateway_to(tmp_path, max_turns=1) as (gateway, _):
            assert [(await post(gateway, CHAT_PATH, CHAT_BODY))[0] for _ in range(2)] == [200, 429]
            assert gateway.session.tally == CallTally(requests=2, answered=1)

    asyncio.run(scenario())


def test_half_an_answer_is_none(tmp_path):
    async def scenario() -> None:
        async with gateway_to(tmp_path, Cut(after=2)) as (gateway, _):
            await post(gateway, CHAT_PATH, CHAT_BODY[:-1] + b',"stream":true}')
            assert gateway.session.tally == CallTally(requests=1)

    asyncio.run(scenario())
