"""What an agent is given to find its model, and what of this machine never gets into a record."""

import asyncio

import aiohttp
import pytest

from seatrial.gateway.access import ModelAccess
from seatrial.gateway.calls import CALLS_FILE, read_calls
from seatrial.gateway.prices import PriceTable
from seatrial.gateway.server import listening_socket
from seatrial.gateway.session import SessionOptions
from seatrial.gateway.upstreams.scripted import ScriptedModel
from tests.gateway.upstream_calls import PATHS, call

NO_PRICES = PriceTable(models={})


async def ask(url: str, key: str, text: str = "hello") -> int:
    body = call(messages=[{"role": "user", "content": text}]).body
    headers = {"authorization": f"Bearer {key}"}
    async with aiohttp.ClientSession() as client, client.post(url, data=body, headers=headers) as response:
        return response.status


def test_the_variables_lead_to_the_model(tmp_path):
    async def scenario() -> None:
        access = ModelAccess(ScriptedModel(["a", "b"]), SessionOptions(), NO_PRICES)
        async with access.open(listening_socket(), tmp_path, None) as opened:
            variables = opened.variables
            key = variables["OPENAI_API_KEY"]
            assert await ask(f"{variables['OPENAI_BASE_URL']}/chat/completions", key) == 200
            claude = f"{variables['ANTHROPIC_BASE_URL']}{PATHS['anthropic']}"
            assert await ask(claude, variables["ANTHROPIC_API_KEY"]) == 200
            assert variables["OPENAI_API_BASE"] == variables["LLM_BASE_URL"] == variables["OPENAI_BASE_URL"]
            assert variables["GOOGLE_GEMINI_BASE_URL"] == variables["ANTHROPIC_BASE_URL"]
            keys = ("ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "LLM_API_KEY")
            assert {variables[name] for name in keys} == {key}
        with pytest.raises(aiohttp.ClientConnectionError):
            await ask(f"{variables['OPENAI_BASE_URL']}/chat/completions", key)

    asyncio.run(scenario())


def test_the_model_of_an_agent_goes_before_what_it_asks_for(tmp_path):
    async def scenario() -> None:
        access = ModelAccess(ScriptedModel(["a"]), SessionOptions(max_turns=7), NO_PRICES)
        async with access.open(listening_socket(), tmp_path, "chosen") as opened:
            assert opened.session.options == SessionOptions(model="chosen", max_turns=7)
            await ask(f"{opened.variables['OPENAI_BASE_URL']}/chat/completions", opened.session.key)
        (kept,) = read_calls(tmp_path / CALLS_FILE)
        assert (kept.model, kept.upstream_model) == ("m", "chosen")

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ["MY_API_KEY", "Token", "db_password", "CLIENT_SECRET_2", "AWS_CREDENTIALS"])
def test_what_looks_like_a_secret_here_is_in_no_record(tmp_path, monkeypatch, name):
    monkeypatch.setenv(name, "hush-hush-0123")
    monkeypatch.setenv("PLAIN_NAME", "plain-value-0123")

    async def scenario() -> None:
        access = ModelAccess(ScriptedModel(["a hush-hush-0123"]), SessionOptions(), NO_PRICES)
        async with access.open(listening_socket(), tmp_path, None) as opened:
            url = f"{opened.variables['OPENAI_BASE_URL']}/chat/completions"
            await ask(url, opened.session.key, "hush-hush-0123 plain-value-0123")

    asyncio.run(scenario())
    text = (tmp_path / CALLS_FILE).read_text()
    assert "hush-hush" not in text
    assert "plain-value-0123" in text


@pytest.mark.parametrize(("keys", "status"), [("own", 401), ("any", 200)])
def test_a_made_up_key_opens_only_what_nobody_else_can_reach(tmp_path, keys, status):
    async def scenario() -> None:
        access = ModelAccess(ScriptedModel(["a"] * 3), SessionOptions(), NO_PRICES)
        async with access.open(listening_socket(), tmp_path, None, keys=keys) as opened:
            url = f"{opened.variables['OPENAI_BASE_URL']}/chat/completions"
            assert [await ask(url, key) for key in ("sk-dummy", "EMPTY")] == [status] * 2
            assert await ask(url, opened.session.key) == 200
            assert opened.session.tally.refused_by_us == (2 if status == 401 else 0)

    asyncio.run(scenario())


def test_two_agents_of_one_job_share_nothing(tmp_path):
    async def scenario() -> None:
        access = ModelAccess(ScriptedModel(["only line"]), SessionOptions(max_turns=1), NO_PRICES)
        folders = [tmp_path / "one", tmp_path / "two"]
        for folder in folders:
            folder.mkdir()
        async with (
            access.open(listening_socket(), folders[0], None) as one,
            access.open(listening_socket(), folders[1], None) as two,
        ):
            urls = [f"{each.variables['OPENAI_BASE_URL']}/chat/completions" for each in (one, two)]
            assert await ask(urls[0], two.session.key) == 401
            assert [await ask(urls[0], one.session.key), await ask(urls[1], two.session.key)] == [200, 200]
            assert await ask(urls[0], one.session.key) == 429
        assert [len(read_calls(folder / CALLS_FILE)) for folder in folders] == [2, 1]

    asyncio.run(scenario())
