"""Calls in Google's dialect through a gateway: its paths, its keys, its two forms of a stream, and what is kept."""

import asyncio

import aiohttp
import orjson
import pytest

from seatrial.gateway.base import Limits, checked
from seatrial.gateway.calls import CALLS_FILE, CallLog, read_calls
from seatrial.gateway.server import listening_socket, serve
from seatrial.gateway.session import Session, SessionOptions
from seatrial.gateway.upstreams.replay import ReplayModel
from seatrial.gateway.upstreams.replies import Reply, ReplyCall
from seatrial.gateway.upstreams.scripted import ScriptedModel
from seatrial.model.trace import ModelCall
from seatrial.testing.fake_provider import Cut, Raw, Say
from tests.gateway.gateways import PRICES, Gateway, gateway_to, open_gateway, post
from tests.gateway.upstream_calls import KEY, Naps, call, provider

WHOLE, STREAM = "/v1beta/models/m:generateContent", "/v1beta/models/m:streamGenerateContent"
HELLO = {"role": "user", "parts": [{"text": "hello"}]}
BODY = orjson.dumps({"contents": [HELLO], "systemInstruction": {"parts": [{"text": "Be kind."}]}})


def test_a_call_is_kept_as_in_every_other_dialect(tmp_path):
    async def scenario() -> None:
        async with gateway_to(tmp_path, Say("hi there")) as (gateway, fake):
            status, said = await post(gateway, f"{STREAM}?alt=sse", BODY)
        assert (status, said[:6], fake.received[0].path) == (200, b"data: ", f"{STREAM}?alt=sse")
        (kept,) = gateway.calls
        assert (kept.dialect, kept.model, kept.stream, kept.finish_reason) == ("google", "m", True, "STOP")
        assert (kept.messages, kept.cost_usd is not None) == ([HELLO], True)
        assert kept.request is not None
        assert kept.request["systemInstruction"] == {"parts": [{"text": "Be kind."}]}
        assert kept.response is not None
        assert kept.response["candidates"][0]["content"]["parts"] == [{"text": "hi there"}]

    asyncio.run(scenario())


def test_the_runs_values_go_before_the_agents(tmp_path):
    config = {"temperature": 0.25, "top_p": 0.5, "max_output_tokens": 9, "topK": 3}
    body = orjson.dumps({"contents": [HELLO], "generation_config": config})
    sampling = {"temperature": 1.0, "max_tokens": 77, "seed": 5, "stop": "END"}

    async def scenario() -> None:
        async with gateway_to(tmp_path, model="run", sampling=sampling) as (gateway, fake):
            await post(gateway, WHOLE.replace("v1beta", "v1"), body)
        (sent,) = fake.received
        assert sent.path == "/v1/models/run:generateContent"
        assert sent.payload == {
            "contents": [HELLO],
            "generationConfig": {
                "temperature": 1.0,
                "maxOutputTokens": 77,
                "seed": 5,
                "stopSequences": ["END"],
                "top_p": 0.5,
                "topK": 3,
            },
        }
        (kept,) = gateway.calls
        assert (kept.model, kept.upstream_model) == ("m", "run")

    asyncio.run(scenario())


@pytest.mark.parametrize("where", ["header", "query", "bearer"])
def test_a_key_opens_wherever_googles_clients_put_it_and_is_kept_nowhere(tmp_path, where):
    async def scenario() -> None:
        async with gateway_to(tmp_path) as (gateway, fake):
            key = gateway.session.key
            headers = {"header": {"x-goog-api-key": key}, "bearer": gateway.auth}.get(where, {})
            query = f"?key={key}" if where == "query" else ""
            async with aiohttp.ClientSession(gateway.url, headers=headers) as client:
                for path in (WHOLE, "/v1beta/files"):
                    async with client.post(f"{path}{query}", data=BODY) as answer:
                        assert answer.status == (200 if path == WHOLE else 404)
                async with client.post(f"{WHOLE}?key=AIza-another", data=BODY) as answer:
                    assert answer.status == (401 if where == "query" else 200)
        assert all(sent.headers["x-goog-api-key"] == KEY and key not in str(sent) for sent in fake.received)
        written = (tmp_path / CALLS_FILE).read_text()
        assert key not in written
        assert "key=" not in written

    asyncio.run(scenario())


def test_a_stream_without_events_is_one_array(tmp_path):
    async def scenario() -> None:
        steps = (Say("hello, this comes in several pieces"), Cut(after=1))
        async with gateway_to(tmp_path, *steps) as (gateway, fake):
            whole = await post(gateway, STREAM, BODY)
            cut = await post(gateway, STREAM, BODY)
            refused = await post(gateway, STREAM, b"{}")
        assert [sent.path for sent in fake.received] == [f"{STREAM}?alt=sse"] * 2
        pieces = [each["candidates"][0]["content"]["parts"] for each in orjson.loads(whole[1])]
        assert "".join(part["text"] for parts in pieces for part in parts) == "hello, this comes in several pieces"
        assert "cut off" in orjson.loads(cut[1])[-1]["error"]["message"] or "broke" in str(cut[1])
        assert (refused[0], orjson.loads(refused[1])["error"]["status"]) == (400, "INVALID_ARGUMENT")

    asyncio.run(scenario())


def test_tokens_are_counted_by_google_or_estimated(tmp_path):
    async def scenario() -> None:
        count = "/v1beta/models/m:countTokens"
        async with gateway_to(tmp_path, speaks="google", model="run") as (gateway, fake):
            assert orjson.loads((await post(gateway, count, BODY))[1]) == {"totalTokens": 42}
            assert fake.received[0].path == "/v1beta/models/run:countTokens"
        async with gateway_to(tmp_path, speaks="openai_chat") as (gateway, fake):
            assert orjson.loads((await post(gateway, count, BODY))[1])["totalTokens"] == -(-len(BODY) // 4)
            assert not fake.received
        async with open_gateway(ScriptedModel([]), tmp_path) as gateway:
            assert orjson.loads((await post(gateway, count, BODY))[1])["totalTokens"] > 9
            assert not gateway.calls

    asyncio.run(scenario())


@pytest.mark.parametrize("extra", [{"model": "another"}, {"stream": True}])
def test_a_body_that_says_something_else_than_its_path_is_refused(tmp_path, extra):
    async def scenario() -> None:
        async with gateway_to(tmp_path) as (gateway, fake):
            status, said = await post(gateway, WHOLE, orjson.dumps({"contents": [HELLO], **extra}))
        assert (status, next(iter(extra)) in str(said), len(fake.received)) == (400, True, 0)

    asyncio.run(scenario())


def test_a_model_that_cannot_stand_in_a_path_goes_nowhere(tmp_path):
    async def scenario() -> None:
        async with gateway_to(tmp_path, speaks="google") as (gateway, fake):
            for name in ("x?key=y", "../files", "a b"):
                request = call(model=name, max_tokens=9)
                status, said = await post(gateway, request.path, request.body)
                assert (status, b"`model`" in said) == (400, True)
        assert not fake.received

    asyncio.run(scenario())


def test_a_budget_that_is_used_up_says_so_in_googles_way(tmp_path):
    async def scenario() -> None:
        async with gateway_to(tmp_path, max_turns=0) as (gateway, _):
            status, said = await post(gateway, WHOLE, BODY)
        error = orjson.loads(said)["error"]
        assert (status, error["status"], len(error["details"])) == (429, "RESOURCE_EXHAUSTED", 1)

    asyncio.run(scenario())


def test_calls_beside_each_other_know_how_much_googles_can_take(tmp_path):
    """Two calls that fit together run together; one of them without a limit of its own would wait."""
    limits = Limits(spool=tmp_path, small_bytes=1000)
    limited = orjson.dumps({"contents": [HELLO], "generationConfig": {"maxOutputTokens": 9}})

    async def scenario() -> None:
        async with asyncio.timeout(30), gateway_to(tmp_path, max_tokens=1000, limits=limits) as (gateway, fake):
            fake.otherwise = Say(late=True)
            async with asyncio.TaskGroup() as group:
                for _ in range(2):
                    group.create_task(post(gateway, WHOLE, limited))
                await fake.arrived(2)
                fake.release()

    asyncio.run(scenario())


def test_a_large_request_is_kept_with_its_model(tmp_path):
    large = orjson.dumps({"contents": [HELLO, {"role": "user", "parts": [{"text": "x" * 4000}]}]})

    async def scenario() -> None:
        limits = Limits(spool=tmp_path, small_bytes=1000)
        async with gateway_to(tmp_path, limits=limits, model="run") as (gateway, fake):
            assert (await post(gateway, WHOLE, large))[0] == 200
        assert fake.received[0].payload == orjson.loads(large)
        (kept,) = gateway.calls
        assert (kept.model, kept.upstream_model, len(kept.messages)) == ("m", "run", 2)

    asyncio.run(scenario())


@pytest.mark.parametrize("again", [WHOLE, f"{STREAM}?alt=sse", STREAM])
def test_a_recording_answers_in_any_form(tmp_path, again):
    async def scenario() -> None:
        async with open_gateway(ScriptedModel(["as before"]), tmp_path, model="run") as gateway:
            await post(gateway, f"{STREAM}?alt=sse", BODY)
        recorded = ReplayModel(read_calls(tmp_path / CALLS_FILE))
        folder = tmp_path / "again"
        folder.mkdir()
        async with open_gateway(recorded, folder, model="run") as gateway:
            status, said = await post(gateway, again, BODY)
        assert (status, b"as before" in said) == (200, True)

    asyncio.run(scenario())


@pytest.mark.parametrize("speaks", ["openai_chat", "openai_responses", "anthropic"])
@pytest.mark.parametrize("path", [WHOLE, f"{STREAM}?alt=sse"])
def test_an_agent_of_googles_on_every_other_provider(tmp_path, speaks, path):
    turn = {"role": "model", "parts": [{"functionCall": {"name": "ls", "args": {"path": "."}}}]}
    back = {"role": "user", "parts": [{"functionResponse": {"name": "ls", "response": {"output": "a.txt"}}}]}
    body = orjson.dumps({"contents": [HELLO, turn, back]})
    called = Reply("I look.", (ReplyCall("cat", '{"file": "a.txt"}'),))

    async def scenario() -> None:
        async with gateway_to(tmp_path, Say(called), speaks=speaks) as (gateway, fake):
            status, said = await post(gateway, path, body)
        assert status == 200
        assert b"call_0" in fake.received[0].body  # the call and its result got an id
        answers = [orjson.loads(line.removeprefix(b"data: ")) for line in said.split(b"\n\n") if line]
        parts = [part for each in answers for part in each["candidates"][0]["content"]["parts"]]
        assert "".join(part.get("text", "") for part in parts) == "I look."
        (found,) = [part["functionCall"] for part in parts if "functionCall" in part]
        assert (found["name"], found["args"], bool(found["id"])) == ("cat", {"file": "a.txt"}, True)
        assert answers[-1]["candidates"][0]["finishReason"] == "STOP"
        assert answers[-1]["usageMetadata"]["promptTokenCount"] > 0

    asyncio.run(scenario())


def test_a_provider_that_asks_for_patience_in_googles_way_gets_it(tmp_path):
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7.5s"}]
    busy = orjson.dumps(
        {"error": {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED", "details": details}}
    )

    async def scenario() -> None:
        naps = Naps()
        async with gateway_to(tmp_path, Raw(busy, 429), Say("now"), upstream={"retries": 1, "naps": naps}) as (
            gateway,
            _,
        ):
            assert (await post(gateway, WHOLE, BODY))[0] == 200
        assert list(naps) == [7.5]

    asyncio.run(scenario())


def test_what_was_left_out_is_noted_with_the_call(tmp_path):
    body = orjson.dumps({"contents": [HELLO], "generationConfig": {"topK": 64}, "tools": [{"googleSearch": {}}]})
    told: list[ModelCall] = []

    class Told(CallLog):
        def write(self, call):
            super().write(call)
            told.append(checked(call))

    async def scenario() -> None:
        async with provider(dialects=frozenset({"openai_chat"})) as (upstream, _):
            with Told(tmp_path) as log:
                options = SessionOptions(translation="lenient")
                session = Session(upstream, log, options, PRICES, Limits(spool=tmp_path))
                async with serve(session, listening_socket()) as port:
                    gateway = Gateway(session, f"http://127.0.0.1:{port}", tmp_path)
                    assert (await post(gateway, WHOLE, body))[0] == 200
        assert set(told[0].omitted) == {"generationConfig.topK", "tools[0].googleSearch"}

    asyncio.run(scenario())
