"""What is on the wire before a verdict: every byte of it."""

import asyncio

import pytest

from seatrial.store.job_store import JobStore
from tests.view.review.marked import HIDDEN, marked_job
from tests.view.review.reviewing import Reviewer
from tests.view.viewers import settings_for, viewer


async def look_at_everything(reviewer: Reviewer) -> str:
    """Open the review and look at all that can be seen without a verdict; returns the key of the item."""
    (key,) = await reviewer.keys()
    item = await reviewer.get(f"items/{key}")
    for number in range(item["html"].count("data-src")):
        await reviewer.get(f"items/{key}/files/{number}")
        await reviewer.get(f"items/{key}/raw/{number}")
    await reviewer.get(f"items/{key}/difference")
    await reviewer.get("categories")
    return key


def test_nothing_that_is_hidden_is_sent_before_a_verdict_and_all_of_it_after(tmp_path):
    store = marked_job(tmp_path)

    async def review() -> tuple[str, str]:
        async with viewer(settings_for(store.path)) as client:
            reviewer = Reviewer(client)
            started = await client.get("/review/hiddenjob/", allow_redirects=False)
            await reviewer.follow(started.headers["Location"])
            key = await look_at_everything(reviewer)
            before = reviewer.seen.decode()
            assert (await reviewer.say(f"items/{key}/verdict", judgment="fail"))[0] == 200
            reviewer.seen = b""
            await reviewer.get(f"items/{key}")
            return before, reviewer.seen.decode()

    before, after = asyncio.run(review())
    assert [word for word in HIDDEN if word in before.lower()] == []
    for shown in ("deflection", "12.7", "12.<del>5</del>", "plot.txt", "published for everybody", "mechanics"):
        assert shown in before
    revealed = ("hiddenagent", "hiddenmodel", "0.876543", "hiddenevidence", "hiddentag", "hiddenstdout", "hiddennote")
    assert [word for word in revealed if word not in after] == []


def test_what_cannot_be_read_is_said_without_names(tmp_path, caplog):
    store = marked_job(tmp_path)
    record = next((store.path / "trials").iterdir()) / "record.json"

    async def review() -> None:
        async with viewer(settings_for(store.path)) as client:
            reviewer = Reviewer(client)
            started = await client.get("/review/hiddenjob/", allow_redirects=False)
            await reviewer.follow(started.headers["Location"])
            (key,) = await reviewer.keys()
            record.write_bytes(record.read_bytes()[:-9])
            told = [await reviewer.say(f"items/{key}/verdict", judgment="pass")]
            for path in (f"items/{key}", f"items/{key}/files/0", f"items/{key}/raw/0"):
                answer = await client.get(reviewer.api + path, params={"reviewer": "ada"})
                told.append((answer.status, await answer.json()))
            assert {status for status, _ in told} == {500}
            assert all("in the terminal" in said["error"] for _, said in told)
            assert "hidden" not in str(told)

    asyncio.run(review())
    assert "beam.hiddenagent.1" in caplog.text


@pytest.mark.parametrize("mode", ["open", "settle"])
def test_who_asks_to_see_more_is_not_blind_whatever_the_page_says(tmp_path, mode):
    store = marked_job(tmp_path)

    async def review() -> None:
        async with viewer(settings_for(store.path)) as client:
            reviewer = Reviewer(client)
            started = await client.get("/review/hiddenjob/", allow_redirects=False)
            await reviewer.follow(started.headers["Location"])
            (key,) = await reviewer.keys()
            assert "hiddennote" in str(await reviewer.get(f"items/{key}", mode=mode))
            status, answer = await reviewer.say(f"items/{key}/verdict", judgment="pass", blind=True)
            assert (status, answer["blind"]) == (200, False)
            other = Reviewer(client, "bob")
            other.api, other.query = reviewer.api, ""
            assert "hiddennote" not in str(await other.get(f"items/{key}"))

    asyncio.run(review())
    assert [each.blind for each in JobStore.open(store.path).reviews()["beam.hiddenagent.1"]] == [False] * 3
