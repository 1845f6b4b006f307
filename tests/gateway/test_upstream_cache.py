"""CachedUpstream: each thing is asked once, and only good answers are kept."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from seatrial.errors import ProviderError
from seatrial.gateway.api import ModelRequest
from seatrial.gateway.upstreams.cache import CachedUpstream
from seatrial.gateway.upstreams.scripted import ScriptedModel
from seatrial.model.trace import DialectName
from seatrial.testing.fake_provider import Cut, Fail, Raw, Say
from tests.gateway.upstream_calls import DIALECTS, Answered, ask, call, provider


def asked(folder: Path, script: list[Any], *requests: ModelRequest, scope: str = "") -> tuple[list[Answered], int]:
    """The answers, and how often the provider behind was asked."""

    async def run() -> tuple[list[Answered], int]:
        async with provider(*script, retries=0) as (upstream, fake):
            cached = CachedUpstream(upstream, folder, scope)
            return [await ask(cached, request) for request in requests], len(fake.received)

    return asyncio.run(run())


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("first_streams", [False, True])
def test_a_second_time_is_answered_from_the_folder_in_the_form_asked_for(
    tmp_path: Path, dialect: DialectName, first_streams: bool
):
    answers, count = asked(
        tmp_path, [Say("kept words")], call(dialect, stream=first_streams), call(dialect), call(dialect, stream=True)
    )
    assert count == 1
    assert all(b"kept" in answered.body for answered in answers)
    assert answers[1].headers["content-type"] == "application/json"
    assert answers[2].headers["content-type"].startswith("text/event-stream")


def test_it_outlives_the_process_and_leaves_nothing_else_behind(tmp_path: Path):
    asked(tmp_path, [Say("kept")], call())
    answers, count = asked(tmp_path, [Say("new")], call())
    assert (b"kept" in answers[0].body, count) == (True, 0)
    assert [path.suffix for path in tmp_path.rglob("*") if path.is_file()] == [".json"]


def test_other_requests_scopes_and_paths_are_asked(tmp_path: Path):
    get = ModelRequest("/v1/models", method="GET")
    _, count = asked(
        tmp_path, [], call(), call(temperature=1), call()._replace(path="/v1/chat/completions?beta=true"), get, get
    )
    assert count == 5
    assert asked(tmp_path, [], call(), scope="another")[1] == 1
    assert asked(tmp_path, [], call(user="someone"))[1] == 0


@pytest.mark.parametrize(
    "bad",
    [
        Fail(400),
        Raw(b"{not json"),
        Raw(b'data: {"error": {"message": "x"}}\n\n', headers={"content-type": "text/event-stream"}),
        Raw(b'data: {"id": "1", "choices": []}\n\n', headers={"content-type": "text/event-stream"}),
    ],
)
def test_bad_answers_are_passed_but_not_kept(tmp_path: Path, bad: Any):
    request = call(stream=isinstance(bad, Raw) and bad.body.startswith(b"data:"))
    answers, count = asked(tmp_path, [bad, Say("good")], request, request)
    assert count == 2
    assert b"good" in answers[1].body


def test_a_stream_that_breaks_or_is_left_is_not_kept(tmp_path: Path):
    with pytest.raises(ProviderError):
        asked(tmp_path, [Cut(after=2)], call(stream=True))

    async def leave():
        async with (
            provider(Say("words " * 100)) as (upstream, _),
            CachedUpstream(upstream, tmp_path).ask(call(stream=True)) as reply,
        ):
            await anext(reply.chunks)

    asyncio.run(leave())
    assert not list(tmp_path.rglob("*.json"))


def test_what_is_behind_starts_anew_for_every_trial(tmp_path: Path):
    async def run():
        async with CachedUpstream(ScriptedModel(["a"]), tmp_path) as cached:
            await ask(cached.fresh(), call())
            return await ask(cached.fresh(), call(temperature=1))

    assert asyncio.run(run()).status == 200


def test_many_at_once_write_the_same_place(tmp_path: Path):
    async def run():
        async with provider() as (upstream, _):
            cached = CachedUpstream(upstream, tmp_path)
            async with asyncio.TaskGroup() as group:
                calls = [group.create_task(ask(cached, call())) for _ in range(20)]
            return {task.result().status for task in calls}

    assert asyncio.run(run()) == {200}
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1
