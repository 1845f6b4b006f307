"""HttpProvider against a fake provider over real sockets: what is passed on, what waits, and what stays here."""

import asyncio
import socket
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.errors import UsageError
from seatrial.gateway.api import ModelRequest
from seatrial.gateway.upstreams.http import ProviderOptions, target_url
from seatrial.gateway.upstreams.provider import HttpProvider, Slots, Tried, WaitLimit, try_upstream
from seatrial.gateway.upstreams.scripted import ScriptedModel
from seatrial.model.trace import DialectName
from seatrial.testing.fake_provider import Big, Fail, FakeProvider, Raw, Say, Step
from tests.gateway.upstream_calls import DIALECTS, KEY, ask, call, provider


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_request_goes_out_unchanged_and_the_answer_comes_back_unchanged(dialect: DialectName):
    async def run():
        body = b'{"model": "m",  "unknown": [1.0, 1e3], "n": 12345678901234567890}'
        said = b'{"choices": [{}], "output": [], "content": [], "candidates": [{}],  "whatever": "the provider says"}'
        async with provider(Raw(said)) as (upstream, fake):
            answered = await ask(upstream, call(dialect)._replace(body=body))
            assert (answered.status, answered.body) == (200, said)
            assert (fake.received[0].method, fake.received[0].path) == ("POST", call(dialect).path)
            assert fake.received[0].body == body

    asyncio.run(run())


def test_a_changed_payload_is_sent_when_there_are_no_bytes():
    async def run():
        async with provider() as (upstream, fake):
            await ask(upstream, call(temperature=0.5)._replace(body=b""))
            assert fake.received[0].payload["temperature"] == 0.5
            assert fake.received[0].headers["content-type"] == "application/json"

    asyncio.run(run())


def test_requests_without_a_body_pass_too():
    async def run():
        async with provider() as (upstream, fake):
            answered = await ask(upstream, ModelRequest("/v1/models?limit=3", method="GET"))
            assert answered.json["data"][0]["id"] == "fake"
            assert (fake.received[0].method, fake.received[0].path) == ("GET", "/v1/models?limit=3")
            assert fake.received[0].body == b""

    asyncio.run(run())


def test_the_agents_credentials_are_replaced_and_its_meaningful_headers_kept():
    sent = {
        "Authorization": "Bearer trial-key",
        "X-Api-Key": "trial-key",
        "Cookie": "a=trial-key",
        "Connection": "close, x-secret",
        "X-Forwarded-For": "10.0.0.1",
        "OpenAI-Organization": "org-of-agent",
        "OpenAI-Beta": "assistants=v2",
        "Anthropic-Beta": "tools",
        "User-Agent": "agent/1",
        "X-Stainless-Retry-Count": "1",
    }

    async def run():
        async with provider() as (upstream, fake):
            await ask(upstream, call()._replace(headers=sent))
            await ask(upstream, call("anthropic")._replace(headers={**sent, "anthropic-version": "2024-01-01"}))
            return fake.received

    openai, anthropic = asyncio.run(run())
    assert openai.headers["authorization"] == f"Bearer {KEY}"
    assert "x-api-key" not in openai.headers
    assert anthropic.headers["x-api-key"] == KEY
    assert "authorization" not in anthropic.headers
    assert anthropic.headers["anthropic-version"] == "2024-01-01"
    for received in (openai, anthropic):
        assert "trial-key" not in repr(received.headers)
        assert not {"cookie", "x-forwarded-for", "openai-organization"} & received.headers.keys()
        assert received.headers["user-agent"] == "agent/1"
        assert received.headers["openai-beta"] == "assistants=v2"
        assert received.headers["anthropic-beta"] == "tools"
        assert received.headers["x-stainless-retry-count"] == "1"


def test_a_name_that_the_agent_does_not_give_is_not_made_up():
    async def run():
        async with provider() as (upstream, fake):
            await ask(upstream, call())
            await ask(upstream, ModelRequest("/v1/models", "DELETE"))
            return fake.received

    posted, deleted = asyncio.run(run())
    assert "user-agent" not in posted.headers | deleted.headers
    assert (posted.headers["content-type"], deleted.headers.get("content-type")) == ("application/json", None)


@pytest.mark.parametrize(
    ("dialects", "headers", "expected"),
    [
        ({"anthropic"}, {}, "x-api-key"),
        ({"openai_chat"}, {"anthropic-version": "1"}, "authorization"),
        ({"openai_chat", "anthropic"}, {"Anthropic-Version": "1"}, "x-api-key"),
        ({"openai_chat", "anthropic"}, {}, "authorization"),
    ],
)
def test_on_other_paths_the_key_is_shown_as_the_provider_expects(dialects, headers, expected):
    async def run():
        async with provider(dialects=frozenset(dialects)) as (upstream, fake):
            await ask(upstream, ModelRequest("/v1/models", method="GET", headers=headers))
            assert {"authorization", "x-api-key"} & fake.received[0].headers.keys() == {expected}

    asyncio.run(run())


def test_headers_of_the_answer_are_kept_but_for_those_of_the_connection_and_the_account():
    told = {"x-request-id": "r1", "x-ratelimit-remaining-tokens": "7", "openai-organization": "secret-org"}

    async def run():
        async with provider(Say("hi", headers={**told, "set-cookie": "a=b"})) as (upstream, _):
            return (await ask(upstream, call())).headers

    headers = asyncio.run(run())
    assert headers["x-request-id"] == "r1"
    assert headers["x-ratelimit-remaining-tokens"] == "7"
    assert headers["content-type"] == "application/json"
    assert not {"openai-organization", "set-cookie", "content-length", "transfer-encoding"} & headers.keys()


@pytest.mark.parametrize("status", [400, 403, 404, 413, 422])
def test_the_agents_own_mistakes_come_back_as_they_are(status: int):
    async def run():
        async with provider(Fail(status, "no such model", {"x-request-id": "r"})) as (upstream, fake):
            answered = await ask(upstream, call())
            assert answered.status == status
            assert answered.json["error"]["message"] == "no such model"
            assert answered.headers["x-request-id"] == "r"
            assert len(fake.received) == (2 if status == 403 else 1)  # with a plain question beside it

    asyncio.run(run())


def test_the_key_never_comes_back_even_if_the_provider_repeats_it():
    async def run():
        step = Raw(f'{{"error": "you sent {KEY}"}}'.encode(), 400, {"x-echo": f"Bearer {KEY}"})
        async with provider(step) as (upstream, _):
            answered = await ask(upstream, call())
            assert KEY not in repr(answered)
            assert b"you sent" in answered.body

    asyncio.run(run())


@pytest.mark.parametrize(
    "path", ["/v1/../admin", "/v1/%2e%2E/admin", "v1/models", "@evil.example/", "/v1/a b", "/a\r\nx: y"]
)
def test_a_path_that_could_lead_elsewhere_is_the_agents_mistake(path: str):
    async def run():
        async with provider() as (upstream, fake):
            assert (await ask(upstream, ModelRequest(path, method="GET"))).status == 400
            assert not fake.received

    asyncio.run(run())


@pytest.mark.parametrize(
    ("base", "path", "expected"),
    [
        ("https://h", "/v1/chat/completions", "https://h/v1/chat/completions"),
        ("https://h/v1", "/v1/chat/completions", "https://h/v1/chat/completions"),
        ("https://h/v1", "/chat/completions", "https://h/v1/chat/completions"),
        ("https://h", "/chat/completions", "https://h/v1/chat/completions"),
        ("https://h/api/v1", "/v1/models?a=%20b", "https://h/api/v1/models?a=%20b"),
        ("https://h/v1beta/openai", "/v1/chat/completions", "https://h/v1beta/openai/chat/completions"),
        ("https://h/anthropic", "/v1/messages", "https://h/anthropic/v1/messages"),
        ("https://h/v1", "/v1beta/x", "https://h/v1/v1beta/x"),
        ("https://h", "/v1beta/models/m:generateContent", "https://h/v1beta/models/m:generateContent"),
        ("https://h/v1alpha", "/v1beta/models/m:generateContent", "https://h/v1alpha/models/m:generateContent"),
        ("https://h", "//other.example/x", "https://h//other.example/x"),
    ],
)
def test_addresses(base: str, path: str, expected: str):
    assert str(target_url(base, path)) == expected


def test_malformed_json_is_passed_both_ways():
    async def run():
        async with provider(Raw(b'{"choices": [')) as (upstream, fake):
            answered = await ask(upstream, call()._replace(payload=None, body=b"{not json"))
            assert answered.body == b'{"choices": ['
            assert fake.received[0].body == b"{not json"

    asyncio.run(run())


def test_fifty_megabytes_pass_with_flat_memory():
    size = 50 * 2**20

    async def run():
        async with provider(Big(size)) as (upstream, _):
            tracemalloc.start()
            try:
                total = 0
                async with upstream.ask(call()) as reply:
                    async for chunk in reply.chunks:
                        total += len(chunk)
                return total, tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()

    total, peak = asyncio.run(run())
    assert total >= size
    assert peak < 4 * 2**20


@pytest.mark.whole
def test_a_request_of_fifty_megabytes_arrives_whole_even_the_second_time():
    body = b'{"padding":"' + b"x" * (50 * 2**20) + b'"}'

    async def run():
        async with provider(Fail(503)) as (upstream, fake):
            assert (await ask(upstream, call()._replace(body=body))).status == 200
            assert [received.body == body for received in fake.received] == [True, True]

    asyncio.run(run())


@pytest.mark.whole
def test_two_hundred_at_once_are_all_served_at_once():
    async def run():
        async with FakeProvider(otherwise=Say("hi", late=True)) as fake:
            options = ProviderOptions(base_url=fake.base_url, max_concurrent=200)
            async with HttpProvider(options) as upstream, asyncio.TaskGroup() as group:
                calls = [group.create_task(ask(upstream, call(stream=n % 2 == 0))) for n in range(200)]
                await fake.arrived(200)
                fake.release()
            assert fake.most_in_flight == 200
            return [task.result().status for task in calls]

    assert asyncio.run(run()) == [200] * 200


def test_no_more_than_the_limit_at_once():
    async def run():
        script = [Say(late=True)] * 30
        async with provider(*script, max_concurrent=3) as (upstream, fake), asyncio.TaskGroup() as group:
            for _ in range(30):
                group.create_task(ask(upstream, call()))
            await fake.arrived(3)
            fake.release()
        assert fake.most_in_flight == 3
        assert len(fake.received) == 30

    asyncio.run(run())


def test_one_connection_serves_many_requests():
    async def run():
        async with provider() as (upstream, fake):
            for number in range(6):
                await ask(upstream, call(stream=number % 2 == 0))
            return {received.port for received in fake.received}

    assert len(asyncio.run(run())) == 1


def test_the_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch):
    for name in ("no_proxy", "NO_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)

    async def run():
        async with FakeProvider() as fake:
            monkeypatch.setenv("http_proxy", fake.base_url)
            async with HttpProvider(ProviderOptions(base_url="http://provider.example/v1")) as upstream:
                assert (await ask(upstream, call())).status == 200
            assert fake.received[0].headers["host"] == "provider.example"

    asyncio.run(run())


def test_a_missing_key_is_named():
    options = ProviderOptions(base_url="https://h/v1", api_key_var="MY_KEY")
    for environ in ({}, {"MY_KEY": " "}):
        with pytest.raises(UsageError, match="MY_KEY"):
            HttpProvider(options, environ=environ)


@pytest.mark.parametrize("url", ["h/v1", "ftp://h", "https://", "https://user:pass@h/v1", "https://h/v1?key=1"])
def test_bad_addresses_are_refused(url: str):
    with pytest.raises(ValueError, match="provider"):
        ProviderOptions(base_url=url)


# Slots: none is lost or given twice, one trial does not take all, and a trial with few under way goes first.


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize(("count", "alone"), [(1, 1), (4, 4), (7, 7), (8, 7), (64, 56)])
def test_one_trial_leaves_some_to_others(count, alone):
    async def scenario() -> None:
        slots = Slots(count)
        for trial in (1, 2):
            await slots.acquire(trial)
            slots.release(trial)
        greedy = [asyncio.ensure_future(slots.acquire(1)) for _ in range(count + 5)]
        await settle()
        assert sum(task.done() for task in greedy) == alone
        other = asyncio.ensure_future(slots.acquire(2))
        await settle()
        assert other.done() == (alone < count)
        for task in (*greedy, other):
            task.cancel()

    asyncio.run(scenario())


def test_a_trial_that_is_alone_leaves_some_for_one_that_comes_later():
    async def scenario() -> None:
        slots = Slots(64)
        greedy = [asyncio.ensure_future(slots.acquire(1)) for _ in range(80)]
        await settle()
        assert sum(task.done() for task in greedy) == 56
        async with asyncio.timeout(1):
            await slots.acquire(2)
        for task in greedy:
            task.cancel()

    asyncio.run(scenario())


def test_who_has_fewest_under_way_goes_before_those_who_queued_first():
    async def scenario() -> None:
        slots = Slots(3)
        for _ in range(3):
            await slots.acquire(1)
        queue = [asyncio.ensure_future(slots.acquire(1)) for _ in range(50)]
        await settle()
        late = asyncio.ensure_future(slots.acquire(2))
        await settle()
        slots.release(1)
        await settle()
        assert late.done()
        assert not any(task.done() for task in queue)
        for task in queue:
            task.cancel()

    asyncio.run(scenario())


@given(chance=st.randoms(use_true_random=False), count=st.integers(1, 12), trials=st.integers(1, 4))
def test_no_slot_is_lost_or_given_twice(chance, count, trials):
    """Calls come, are cancelled and end in any order; at the end every slot is there, and nobody waits for ever."""

    async def scenario() -> None:
        slots, under_way = Slots(count), 0

        async def use(trial: int) -> None:
            nonlocal under_way
            await slots.acquire(trial)
            under_way += 1
            assert under_way <= count
            try:
                for _ in range(chance.randrange(4)):
                    await asyncio.sleep(0)
            finally:
                under_way -= 1
                slots.release(trial)

        tasks = [asyncio.ensure_future(use(chance.randrange(trials))) for _ in range(40)]
        for _ in range(20):
            await asyncio.sleep(0)
            tasks[chance.randrange(40)].cancel()
        async with asyncio.timeout(10):
            await asyncio.wait(tasks)
        assert [task.exception() for task in tasks if not task.cancelled()].count(None) >= 20
        for number in range(count):  # each is free again
            await asyncio.wait_for(slots.acquire(100 + number), 1)

    asyncio.run(scenario())


# Waits that take too long: broken off when their time is over, each by itself, and no others.


async def waited(limit: WaitLimit, until: asyncio.Event) -> str:
    try:
        with limit:
            await until.wait()
    except TimeoutError:
        return "timed out"
    return "came"


def timers() -> int:
    loop = asyncio.get_running_loop()
    return sum(not timer.cancelled() for timer in loop._scheduled)  # type: ignore[attr-defined]


def test_what_does_not_come_is_broken_off_and_what_comes_is_not():
    async def scenario() -> list[str]:
        limit, now, never = WaitLimit(0.01), asyncio.Event(), asyncio.Event()
        now.set()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(waited(limit, event)) for event in (never, now, never, now)]
        # All are over, and the timer with them; the next wait has one again.
        return [*(task.result() for task in tasks), await waited(limit, never)]

    assert asyncio.run(scenario()) == ["timed out", "came", "timed out", "came", "timed out"]


def test_a_wait_that_began_later_ends_later():
    async def scenario() -> None:
        limit, never, first_is_over = WaitLimit(0.05), asyncio.Event(), asyncio.Event()

        async def first() -> None:
            await waited(limit, never)
            first_is_over.set()

        async with asyncio.TaskGroup() as group:
            group.create_task(first())
            await asyncio.sleep(0.02)
            second = group.create_task(waited(limit, never))
            await first_is_over.wait()
            assert not second.done()
        assert second.result() == "timed out"

    asyncio.run(scenario())


def test_one_timer_serves_all_and_none_is_left():
    async def scenario() -> None:
        limit, come = WaitLimit(600), asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for _ in range(50):
                group.create_task(waited(limit, come))
            await asyncio.sleep(0)
            assert timers() == 1
            come.set()
        limit.close()
        assert timers() == 0

    asyncio.run(scenario())


def test_a_wait_that_is_cancelled_as_its_time_is_over_stays_cancelled():
    async def scenario() -> None:
        task = asyncio.create_task(waited(WaitLimit(0), asyncio.Event()))
        await asyncio.sleep(0)  # it begins to wait
        await asyncio.sleep(0)  # its time is over, and will be noticed before it runs again
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())


def test_a_cancelled_wait_stays_cancelled():
    async def scenario() -> None:
        task = asyncio.create_task(waited(WaitLimit(600), asyncio.Event()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())


# One tiny call before a job: what a provider says to it, and whether that stands in the way of the job.


def tried(step: Step, model: str | None = "m", **options) -> tuple[Tried | None, FakeProvider]:
    async def scenario() -> tuple[Tried | None, FakeProvider]:
        async with FakeProvider(otherwise=step) as provider:
            settings = ProviderOptions(base_url=provider.base_url, retries=0, **options)
            async with HttpProvider(settings) as upstream:
                found = await try_upstream(upstream, model)
            return found, provider

    return asyncio.run(scenario())


def test_an_answer_costs_one_token():
    found, provider = tried(Say("Hi"))
    assert found == Tried("answers")
    (received,) = provider.received
    assert (received.payload["model"], received.payload["max_tokens"]) == ("m", 1)


@pytest.mark.parametrize("dialect", ["anthropic", "openai_responses", "google"])
def test_in_every_dialect(dialect):
    found, provider = tried(Say("Hi"), dialects=frozenset({dialect}))
    assert found == Tried("answers")
    assert len(provider.received) == 1


@pytest.mark.parametrize(
    ("status", "message", "verdict"),
    [
        (401, "wrong key", "refuses"),
        (403, "not for you", "refuses"),
        (404, "no such model", "refuses"),
        (400, "The model `m` does not exist", "refuses"),
        (400, "Unsupported parameter: max_tokens", "unclear"),
        (429, "slow down", "unclear"),
        (503, "busy", "unclear"),
    ],
)
def test_what_a_refusal_means(status, message, verdict):
    found, _ = tried(Fail(status, message))
    assert found is not None
    assert found.verdict == verdict
    assert message in found.said


@pytest.mark.parametrize(("status", "verdict"), [(401, "refuses"), (404, "unclear")])
def test_without_a_model_the_list_of_models_is_asked_for(status, verdict):
    found, provider = tried(Fail(status), model=None)
    assert found is not None
    assert (found.verdict, provider.received[0].path) == (verdict, "/v1/models")


def test_a_wrong_key_at_google_is_no_mistake_of_the_request():
    body = b'{"error": {"code": 400, "message": "not valid", "details": [{"reason": "API_KEY_INVALID"}]}}'
    found, _ = tried(Raw(body, 400), dialects=frozenset({"google"}))
    assert found is not None
    assert (found.verdict, "not valid" in found.said) == ("refuses", True)


def test_nobody_there():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    async def scenario() -> Tried | None:
        async with HttpProvider(ProviderOptions(base_url=f"http://127.0.0.1:{port}/v1", retries=0)) as upstream:
            return await try_upstream(upstream, "m")

    found = asyncio.run(scenario())
    assert found is not None
    assert found.verdict == "refuses"
    assert "cannot be reached" in found.said


def test_a_script_is_not_asked():
    script = ScriptedModel(["one"])
    assert asyncio.run(try_upstream(script, "m")) is None
