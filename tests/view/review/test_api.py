"""What the page of a review asks for and says, over HTTP, by one reviewer and by several at once."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from aiohttp.streams import StreamReader
from aiohttp.test_utils import make_mocked_request

from seatrial.model.evaluation import Judgment
from seatrial.review.verdicts import GivenVerdict, review_of
from seatrial.store.job_store import JobStore
from seatrial.view.review.api import given_in
from tests.review.journals import said
from tests.view.review.marked import many_trials
from tests.view.review.reviewing import ENTRY, Reviewer
from tests.view.viewers import settings_for, viewer


def review(folder: Path, act: Callable[[Reviewer], Awaitable[Any]], **settings: Any) -> Any:
    """Let somebody review the job in a folder; returns what they bring back."""

    async def visit() -> Any:
        async with viewer(settings_for(folder, **settings)) as client:
            reviewer = Reviewer(client)
            await reviewer.begin()
            return await act(reviewer)

    return asyncio.run(visit())


def journal(store: JobStore) -> list[Any]:
    return [entry for entries in JobStore.open(store.path).reviews().values() for entry in entries]


def states(queue: Any) -> list[str]:
    return [item["state"] for item in queue["items"]]


def test_a_verdict_is_in_the_journal_with_how_it_came_about(tmp_path):
    store = many_trials(tmp_path, 4)

    async def act(reviewer: Reviewer) -> str:
        key = (await reviewer.keys())[0]
        words = {"notes": "in cm", "categories": ["Wrong unit"], "discipline": "beams"}
        answer = await reviewer.say(f"items/{key}/verdict", id=ENTRY, judgment="fail", seconds=4.5, **words)
        assert answer == (200, {"entry": ENTRY, "role": "first", "blind": True})
        queue = await reviewer.get("queue")
        assert states(queue) == ["done", "open", "open", "open"]
        assert (queue["seconds"], queue["calibration"]) == (4.5, None)
        assert await reviewer.get("categories") == {"categories": ["wrong_unit"]}
        mine = (await reviewer.get(f"items/{key}"))["mine"]
        assert (mine["entry"], mine["judgment"], mine["notes"]) == (ENTRY, "fail", "in cm")
        return key

    review(store.path, act)
    (entry,) = journal(store)
    assert entry.trial_id.startswith("beam.noop.")
    assert (entry.id, entry.role, entry.blind, entry.seconds) == (ENTRY, "first", True, 4.5)
    assert entry.context.task_digest == store.file.tasks[0].digest
    assert (entry.sampling.stratum, entry.sampling.probability) == ("random", 1.0)
    assert (entry.annotation.reviewer_id, entry.annotation.reviewer_discipline) == ("ada", "beams")


def test_the_same_request_again_adds_nothing(tmp_path):
    store = many_trials(tmp_path, 2)

    async def act(reviewer: Reviewer) -> None:
        one, other = await reviewer.keys()
        sent = [reviewer.say(f"items/{one}/verdict", id=ENTRY, judgment="pass") for _ in range(8)]
        answers = await asyncio.gather(*sent)
        assert answers == [(200, {"entry": ENTRY, "role": "first", "blind": True})] * 8
        status, answer = await reviewer.say(f"items/{other}/verdict", id=ENTRY, judgment="pass")
        assert (status, "another item has an entry of this id" in answer["error"]) == (400, True)

    review(store.path, act)
    assert [entry.id for entry in journal(store)] == [ENTRY]


def test_many_reviewers_at_once_lose_nothing(tmp_path):
    store = many_trials(tmp_path, 6)

    async def act(reviewer: Reviewer) -> None:
        keys = await reviewer.keys()
        sent = [
            reviewer.say(f"items/{key}/verdict", reviewer=name, judgment="pass") for key in keys for name in "abcde"
        ]
        assert {status for status, _ in await asyncio.gather(*sent)} == {200}

    review(store.path, act)
    assert len({(entry.trial_id, entry.reviewer_id) for entry in journal(store)}) == 30
    assert all(entry.blind for entry in journal(store))


def test_a_verdict_is_in_the_journal_of_the_copy_that_was_reviewed(tmp_path):
    store = many_trials(tmp_path, 2)
    shutil.copytree(store.path, tmp_path / "a-copy")

    async def act(reviewer: Reviewer) -> None:
        key = (await reviewer.keys())[0]
        await reviewer.say(f"items/{key}/verdict", judgment="pass")

    review(tmp_path, act)
    assert len(journal(store)) == 1
    assert journal(JobStore.open(tmp_path / "a-copy")) == []


def test_a_second_look_undo_and_what_is_known_since(tmp_path):
    store = many_trials(tmp_path, 1)

    async def act(reviewer: Reviewer) -> None:
        (key,) = await reviewer.keys()
        assert "mine" not in await reviewer.get(f"items/{key}")
        await reviewer.say(f"items/{key}/verdict", id=ENTRY, judgment="pass")
        _, second = await reviewer.say(f"items/{key}/verdict", judgment="fail")
        assert (second["role"], second["blind"]) == ("second_look", False)
        for entry, left in ((second["entry"], "pass"), (ENTRY, None)):
            status, _ = await reviewer.say(f"items/{key}/undo", entry=entry)
            shown = await reviewer.get(f"items/{key}")
            assert (status, "reveal" in shown) == (200, True)
            assert (shown["mine"] and shown["mine"]["judgment"]) == left
        assert states(await reviewer.get("queue")) == ["open"]
        status, answer = await reviewer.say(f"items/{key}/undo", entry=ENTRY)
        assert (status, "ada has no such verdict" in answer["error"]) == (400, True)
        assert (await reviewer.say(f"items/{key}/verdict", judgment="pass"))[1]["blind"] is False

    review(store.path, act)
    assert len(journal(store)) == 5


def test_a_disagreement_is_settled(tmp_path):
    store = many_trials(tmp_path, 3)

    async def act(reviewer: Reviewer) -> None:
        key = (await reviewer.keys())[0]
        await reviewer.say(f"items/{key}/verdict", judgment="pass", notes="looks fine")
        assert (await reviewer.get("adjudication"))["items"] == []
        await reviewer.say(f"items/{key}/verdict", reviewer="bob", judgment="fail", notes="wrong sign")
        assert [item["key"] for item in (await reviewer.get("adjudication"))["items"]] == [key]
        shown = await reviewer.get(f"items/{key}", mode="settle", reviewer="eve")
        assert "looks fine" in shown["verdicts"]
        assert "wrong sign" in shown["verdicts"]
        assert "reveal" not in shown
        status, answer = await reviewer.say(f"items/{key}/adjudication", reviewer="eve", judgment="fail")
        assert (status, "needs a reason" in answer["error"]) == (400, True)
        settled = {"reviewer": "eve", "judgment": "fail", "notes": "the sign is wrong"}
        assert (await reviewer.say(f"items/{key}/adjudication", **settled))[1]["role"] == "adjudication"
        assert (await reviewer.get("adjudication"))["items"] == []

    review(store.path, act)
    (reviewed,) = JobStore.open(store.path).reviews().items()
    assert review_of(*reviewed).state == "adjudicated"
    assert review_of(*reviewed).verdict is Judgment.FAIL


def test_a_reviewer_hears_how_often_they_were_right_about_known_items(tmp_path):
    store = many_trials(tmp_path, 4)
    store.add_reviews(*(said(f"beam.noop.{number}", "expert", "pass", role="gold") for number in (1, 2)))

    async def act(reviewer: Reviewer) -> None:
        keys = await reviewer.keys()
        assert len(keys) == 4
        for key in keys:
            await reviewer.say(f"items/{key}/verdict", judgment="pass")
        assert (await reviewer.get("queue"))["calibration"] == {"judged": 2, "right": 2}
        assert len((await reviewer.get("queue", reviewer="expert"))["items"]) == 2

    review(store.path, act)


def test_which_trials_are_asked_about_is_in_the_address_but_not_to_be_read(tmp_path):
    store = many_trials(tmp_path, 12)

    async def act(reviewer: Reviewer) -> None:
        await reviewer.begin("where=attempt<=10,agent=noop&random=4&seed=7")
        assert "noop" not in reviewer.seen.decode()
        keys = await reviewer.keys()
        assert len(keys) == 4
        await reviewer.say(f"items/{keys[0]}/verdict", judgment="pass")
        for query, told in {"where=agent": "no condition", "random=x": "whole number", "random=-1": "random"}.items():
            answer = await reviewer.client.get("/review/job/", params=query)
            assert (answer.status, told in await answer.text()) == (400, True)
        damaged = await reviewer.client.get(f"{reviewer.api}queue", params={"queue": "####"})
        assert (damaged.status, "damaged" in await damaged.text()) == (400, True)

    review(store.path, act)
    (entry,) = journal(store)
    assert (entry.sampling.stratum, entry.sampling.probability) == ("random", 0.4)


def test_without_a_golden_answer_the_difference_is_to_another_attempt_after_the_verdict(tmp_path):
    store = many_trials(tmp_path, 3, golden=None)

    async def act(reviewer: Reviewer) -> None:
        key = (await reviewer.keys())[0]
        refused = await reviewer.client.get(f"{reviewer.api}items/{key}/difference", params={"reviewer": "ada"})
        assert (refused.status, "after your verdict" in await refused.text()) == (400, True)
        await reviewer.say(f"items/{key}/verdict", judgment="pass")
        found = await reviewer.get(f"items/{key}/difference")
        assert found["against"] in ("beam.noop.3", "beam.noop.1")
        assert "deflection" in found["html"]

    review(store.path, act)


def test_a_task_that_has_changed_since_is_not_taken_for_what_was_asked(tmp_path):
    store = many_trials(tmp_path, 1)

    async def act(reviewer: Reviewer) -> None:
        key = (await reviewer.keys())[0]
        assert (await reviewer.get(f"items/{key}/difference"))["against"] == "golden/pass"
        (tmp_path / "tasks/beam/golden/pass/workspace/result.json").write_text("{}")
        changed = await reviewer.get(f"items/{key}")
        assert (changed["has_golden"], "cannot be shown" in changed["html"]) == (False, True)

    review(store.path, act)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("items/none/verdict", 404),
        ("items/../../verdict", 404),
        ("items/{key}/nothing", 404),
    ],
)
def test_what_is_not_there_is_not_found(tmp_path, path, status):
    store = many_trials(tmp_path, 1)

    async def act(reviewer: Reviewer) -> None:
        (key,) = await reviewer.keys()
        found, answer = await reviewer.say(path.format(key=key), judgment="pass")
        assert (found, "error" in answer) == (status, True)
        reviewer.api = "/api/desk/none/"
        assert (await reviewer.say(f"items/{key}/verdict", judgment="pass"))[0] == 404

    review(store.path, act)
    assert journal(store) == []


def test_what_makes_no_sense_is_refused_with_the_reason(tmp_path):
    store = many_trials(tmp_path, 1)

    async def act(reviewer: Reviewer) -> None:
        (key,) = await reviewer.keys()
        cases: dict[str, dict[str, Any]] = {
            "judgment": {"judgment": "maybe"},
            "reviewer": {"reviewer": " "},
            "reward": {"reward": 1},
        }
        for word, body in cases.items():
            status, answer = await reviewer.say(f"items/{key}/verdict", **{"judgment": "pass", **body})
            assert (status, answer["error"].startswith(f"{word}: ")) == (400, True)
        status, answer = await reviewer.say(f"items/{key}/verdict", judgment="pass", notes="x" * 300_000)
        assert (status, "too much" in answer["error"]) == (400, True)

    review(store.path, act)
    assert journal(store) == []


def test_a_viewer_that_only_reads_says_so(tmp_path):
    store = many_trials(tmp_path, 1)

    async def act(reviewer: Reviewer) -> None:
        assert b'data-access="read"' in reviewer.seen
        (key,) = await reviewer.keys()
        status, answer = await reviewer.say(f"items/{key}/verdict", judgment="pass")
        assert (status, "--read-only" in answer["error"]) == (403, True)

    review(store.path, act, access="read")
    assert journal(store) == []


def test_a_verdict_may_come_in_pieces_but_not_without_end(tmp_path):
    store = many_trials(tmp_path, 1)

    async def pieces(count: int) -> AsyncIterator[bytes]:
        yield f'{{"id": "{ENTRY}", "reviewer": "ada", '.encode()
        for _ in range(count):
            await asyncio.sleep(0.05)  # so that each is a packet of its own
            yield b" " * 2**15
        yield b'"judgment": "fail"}'

    async def act(reviewer: Reviewer) -> list[int]:
        client, path = reviewer.client, f"{reviewer.api}items/{(await reviewer.keys())[0]}/verdict"
        headers = {"Origin": f"http://{client.host}:{client.port}", "X-Seatrial": "1"}
        sent = [await client.post(path, data=pieces(count), headers=headers) for count in (9, 2)]
        assert "are too much for a review" in await sent[0].text()
        return [each.status for each in sent]

    assert review(store.path, act) == [400, 200]
    assert [entry.id for entry in journal(store)] == [ENTRY]


def test_times_beyond_all_numbers_are_still_numbers(tmp_path):
    store = many_trials(tmp_path, 2)

    async def act(reviewer: Reviewer) -> float:
        for key in await reviewer.keys():
            assert (await reviewer.say(f"items/{key}/verdict", judgment="pass", seconds=1e308))[0] == 200
        return float((await reviewer.get("queue"))["seconds"])

    assert review(store.path, act) == 1e9


def test_what_arrives_in_pieces_is_put_together():
    text = json.dumps({"id": ENTRY, "reviewer": "ada", "judgment": "pass", "notes": "x" * 100}).encode()

    async def receive() -> GivenVerdict:
        arriving = StreamReader(Mock(), 2**16, loop=asyncio.get_running_loop())
        request = make_mocked_request("POST", "/", payload=arriving)
        arriving.feed_data(text[:20])
        reading = asyncio.ensure_future(given_in(request, GivenVerdict))
        await asyncio.sleep(0)  # until it has read what there is
        arriving.feed_data(text[20:])
        arriving.feed_eof()
        return await reading

    assert asyncio.run(receive()).notes == "x" * 100
