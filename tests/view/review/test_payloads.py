"""What is on the wire before a verdict: every byte of it."""

import asyncio
import re

import pytest

from seatrial.report.text import harmless
from seatrial.review.verdicts import review_of, unsettled
from seatrial.store.job_store import JobStore
from seatrial.view.review import payloads
from tests.review.journals import said
from tests.view.review.marked import HIDDEN, many_trials, marked_job
from tests.view.review.reviewing import Reviewer
from tests.view.review.test_api import journal, review
from tests.view.viewers import TOKEN, serving, settings_for, viewer


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


MARKUP = "<img src=x onerror=alert(1)>"


@pytest.fixture
def store(tmp_path) -> JobStore:
    """Three trials: of the first, two people say different things, and one of them in an attack's words."""
    store = many_trials(tmp_path, 3)
    one, other = sorted(entry.trial_id for entry in store.entries())[:2]
    store.add_reviews(
        said(one, "ada", "p", notes="looks fine", blind=True),
        said(one, "bob", "f", notes=MARKUP, categories=["wrong_unit"], reviewer_discipline="beams"),
        said(other, "ada", "p"),
        said(other, "bob", "p"),
    )
    return store


def test_both_verdicts_stand_side_by_side_without_reward_or_agent(store):
    async def act(reviewer: Reviewer) -> None:
        reviewer.name = "eve"
        payload = await reviewer.get("settlement")
        (item,) = payload["items"]
        assert (item["state"], payload["to_settle"], payload["settled"]) == ("needs", 1, 0)
        for word in ("ada", "bob", "beams", "looks fine", "wrong_unit", "to settle", harmless("img src=x")):
            assert word in item["html"]
        assert "<img" not in item["html"]
        assert not re.search(r"noop|reward|one of those who judged", item["html"])
        reviewer.name = "ada"
        assert "You are one of those who judged this." in (await reviewer.get("settlement"))["items"][0]["html"]

    review(store.path, act)


def test_a_decision_is_in_the_journal_as_such_and_can_be_taken_back(store):
    async def act(reviewer: Reviewer) -> None:
        reviewer.name = "eve"
        (item,) = (await reviewer.get("settlement"))["items"]
        status, answer = await reviewer.say(f"items/{item['key']}/adjudication", judgment="fail", notes=" ")
        assert (status, "needs a reason" in answer["error"]) == (400, True)
        decision = {"judgment": "fail", "notes": "the unit is wrong", "blind": False, "seconds": 3.0}
        _, answer = await reviewer.say(f"items/{item['key']}/adjudication", **decision)
        (settled,) = (await reviewer.get("settlement"))["items"]
        assert settled["state"] == "adjudicated"
        assert "eve decided: fail." in settled["html"]
        assert f'data-undo="{answer["entry"]}"' in settled["html"]
        reviewer.name = "ada"
        assert "data-undo" not in (await reviewer.get("settlement"))["items"][0]["html"]
        reviewer.name = "eve"
        await reviewer.say(f"items/{item['key']}/undo", entry=answer["entry"])
        assert (await reviewer.get("settlement"))["items"][0]["state"] == "needs"

    review(store.path, act)
    decided, gone = journal(store)[2:4]
    assert (decided.role, decided.annotation.reviewer_id, decided.annotation.notes) == (
        "adjudication",
        "eve",
        "the unit is wrong",
    )
    assert gone.retraction.entry == decided.id
    assert len(unsettled(JobStore.open(store.path).reviews())) == 1


def test_where_two_decide_otherwise_both_are_seen_and_each_can_take_their_own_back(store):
    async def act(reviewer: Reviewer) -> None:
        (item,) = (await reviewer.get("settlement"))["items"]
        entries = {}
        for reviewer.name, word in (("eve", "fail"), ("dan", "pass")):
            decision = {"judgment": word, "notes": f"{reviewer.name}'s reason"}
            _, answer = await reviewer.say(f"items/{item['key']}/adjudication", **decision)
            entries[reviewer.name] = answer["entry"]
        for reviewer.name, entry in entries.items():
            (found,) = (await reviewer.get("settlement"))["items"]
            assert found["state"] == "contested"
            assert "eve decided: fail." in found["html"]
            assert "dan decided: pass." in found["html"]
            assert re.findall(r'data-undo="(.*?)"', found["html"]) == [entry]

    review(store.path, act)


def test_counts_are_of_all_also_where_only_some_are_sent(store, monkeypatch):
    monkeypatch.setattr(payloads, "_MOST", 1)
    second = sorted(entry.trial_id for entry in store.entries())[1]
    store.add_reviews(said(second, "eve", "f"), said(second, "eve", "f", role="adjudication", notes="no"))

    async def act(reviewer: Reviewer) -> tuple[int, int, int]:
        payload = await reviewer.get("settlement")
        return len(payload["items"]), payload["to_settle"], payload["settled"]

    assert review(store.path, act) == (1, 1, 1)


def test_what_is_refused_is_said_also_where_the_form_is_hidden(store):
    async def act(reviewer: Reviewer) -> str:
        reviewer.name = "eve"
        (item,) = (await reviewer.get("settlement"))["items"]
        await reviewer.say(f"items/{item['key']}/adjudication", judgment="fail", notes="the unit is wrong")
        return str((await reviewer.get("settlement"))["items"][0]["html"])

    form, _, after = review(store.path, act).partition("</form>")
    assert '<form class="settle-form" hidden>' in form
    assert 'class="settle-said"' in after


def test_who_has_read_what_others_said_judges_no_more_blind(store):
    async def act(reviewer: Reviewer) -> bool:
        reviewer.name = "eve"
        (item,) = (await reviewer.get("settlement"))["items"]
        _, answer = await reviewer.say(f"items/{item['key']}/verdict", judgment="pass", blind=True)
        return bool(answer["blind"])

    assert review(store.path, act) is False


@pytest.mark.whole
def test_a_decision_in_a_browser(browser, store):
    with serving(store.path) as address:
        page = browser.new_context(viewport={"width": 360, "height": 800}).new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{address}/?token={TOKEN}")
        page.goto(f"{address}/jobs/job/")
        page.get_by_text("Settle 1 disagreement").click(timeout=30_000)
        page.fill("#who-name", "eve")
        page.keyboard.press("Enter")
        page.get_by_text("1 to settle, 0 settled.").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        page.fill("textarea", "the unit is wrong")
        page.get_by_role("button", name="It fails").click()
        page.get_by_text("0 to settle, 1 settled.").wait_for()
        page.get_by_text("eve decided: fail.").wait_for()
        assert errors == []
    (trial_id, entries) = next(iter(JobStore.open(store.path).reviews().items()))
    assert review_of(trial_id, entries).state == "adjudicated"
