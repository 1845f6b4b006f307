"""A run as pages are told of it: what is finished, what is under way, when it ends; one look for all of them."""

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from seatrial.analysis.loaded import load_job
from seatrial.store.job_store import JobStore
from seatrial.view import live
from seatrial.view.app import VIEW, make_app
from seatrial.view.library import Library
from seatrial.view.live import JobWatch, Live, LiveState
from tests.cli.conftest import PLAIN_ENVIRONMENT, SEATRIAL
from tests.cli.test_view_command import address_of, running
from tests.conftest import MakeTask
from tests.jobs.samples import job_file, record
from tests.view.viewers import Client, finish_trial, settings_for, stored_job, viewer


@pytest.fixture
def store(tmp_path) -> JobStore:
    """A job of four trials, one of which is finished."""
    return stored_job(tmp_path / "jobs" / "a", {"add": [1.0], "sort": []}, attempts=2)


def watch_of(store: JobStore) -> JobWatch:
    return JobWatch(load_job(store.path), (store.path / "index.jsonl").stat().st_size)


def test_a_run_is_seen_from_its_start_to_its_end(store):
    watch = watch_of(store)
    assert (watch.look().state, watch.look().finished, watch.look().planned) == ("interrupted", 1, 4)
    with store.lock():
        with store.draft("sort.noop.2"), store.draft("sort.noop.1") as draft:
            seen = watch.look()
            assert (seen.state, seen.underway) == ("running", ("sort.noop.1", "sort.noop.2"))
            draft.commit(record("sort", 1, job="nightly"))
        seen = watch.look()
        assert (seen.finished, [each.trial_id for each in seen.recent]) == (2, ["sort.noop.1"])
        assert seen.underway == ()
        finish_trial(store, "add", 2, reward=0.0)
        finish_trial(store, "sort", 2)
    seen = watch.look()
    assert (seen.state, seen.finished, seen.outcomes) == ("finished", 4, {"pass": 3, "fail": 1})
    assert [each.trial_id for each in seen.recent] == ["sort.noop.2", "add.noop.2", "sort.noop.1"]


def test_what_a_crash_left_is_not_under_way(store):
    (store.path / ".drafts" / "sort.noop.1.0123abcd").mkdir()
    assert watch_of(store).look().underway == ()


def test_a_line_that_is_not_whole_yet_waits(store):
    watch = watch_of(store)
    index = store.path / "index.jsonl"
    finish_trial(store, "sort", 1)
    whole = index.read_bytes()
    index.write_bytes(whole[:-5])
    assert watch.look().finished == 1
    index.write_bytes(whole)
    assert watch.look().finished == 2
    index.write_bytes(b"junk\n[1]\n" + whole)
    assert watch.look().finished == 2


def test_an_index_that_was_written_anew_is_read_from_its_beginning(store):
    watch = watch_of(store)
    index = store.path / "index.jsonl"
    before = index.read_bytes()
    finish_trial(store, "sort", 1)
    added = index.read_bytes().removeprefix(before)
    index.write_bytes(b"")
    assert watch.look().finished == 1
    index.write_bytes(added)
    assert watch.look().finished == 2


def test_a_job_that_became_another_is_read_again(store):
    watch = watch_of(store)
    assert not watch.is_outdated
    spec = store.file.spec.model_copy(update={"attempts": 3})
    store.update(store.file.model_copy(update={"spec": spec}))
    assert watch.is_outdated


def test_all_pages_share_one_look_a_second_and_the_last_one_ends_it(store, monkeypatch):
    now, looks = [0.0], list[float]()
    look = JobWatch.look

    def looked(watch: JobWatch) -> LiveState:
        looks.append(now[0])
        return look(watch)

    monkeypatch.setattr(JobWatch, "look", looked)
    watched = Live(Library([store.path.parent]), lambda: now[0])

    async def watch() -> None:
        with ExitStack() as pages:
            for _ in range(3):
                pages.enter_context(watched.watching("a"))
            for now[0] in (0.0, 0.5, 1.0, 1.2, 2.5):
                await asyncio.gather(*(watched.state("a") for _ in range(3)))
            assert watched.watched == {"a": 3}
        assert watched.watched == {}

    asyncio.run(watch())
    assert looks == [0.0, 1.0, 2.5]


class Page:
    """A page that listens."""

    def __init__(self, response: Any) -> None:
        self._response = response

    async def news(self) -> dict[str, Any]:
        """What it is told next."""
        while line := await self._response.content.readline():
            if line.startswith(b"data: "):
                return dict(json.loads(line.removeprefix(b"data: "))["jobs"])
        return {}


async def listening(client: Client, path: str = "/api/jobs/a/events") -> Page:
    response = await client.get(path)
    assert (response.status, response.headers["Content-Type"]) == (200, "text/event-stream")
    return Page(response)


def test_two_pages_are_told_the_same_until_the_run_ends(store, monkeypatch):
    monkeypatch.setattr(live, "LOOK_SEC", 0.01)

    async def run() -> None:
        async with viewer(settings_for(store.path.parent)) as client:
            with store.lock():
                pages = [await listening(client), await listening(client, "/api/events?job=a")]
                first = [(await page.news())["a"] for page in pages]
                assert [(each["state"], each["finished"], each["planned"]) for each in first] == [("running", 1, 4)] * 2
                finish_trial(store, "sort", reward=0.5)
                for page in pages:
                    told = (await page.news())["a"]
                    while told["finished"] < 2:
                        told = (await page.news())["a"]
                    assert told["outcomes"] == "1 passed, 1 partial, 2 not run yet"
                    assert told["recent"][0]["link"] == "/jobs/a/trials/sort.noop.1/"
                    assert told["recent"][0]["cells"] == ["noop", "partial", "0.5", "2.5 s"]
            for page in pages:
                told = (await page.news())["a"]
                while told["state"] == "running":
                    told = (await page.news())["a"]
                assert told["state"] == "interrupted"
            assert client.app[VIEW].live.watched == {"a": 2}

    asyncio.run(run())


def test_who_asks_only_for_the_head_is_told_nothing_and_let_go(store):
    async def run() -> None:
        async with viewer(settings_for(store.path.parent)) as client:
            response = await client.head("/api/jobs/a/events")
            assert (response.status, response.headers["Content-Type"]) == (200, "text/event-stream")
            assert client.app[VIEW].live.watched == {}

    asyncio.run(run())


def test_a_page_that_goes_away_is_forgotten(store, monkeypatch):
    monkeypatch.setattr(live, "LOOK_SEC", 0.01)
    monkeypatch.setattr(live, "_SIGN_OF_LIFE", 1)

    async def run() -> None:
        async with viewer(settings_for(store.path.parent)) as client:
            response = await client.get("/api/jobs/a/events")
            assert client.app[VIEW].live.watched == {"a": 1}
            response.close()
            while client.app[VIEW].live.watched:  # noqa: ASYNC110 - nothing tells of it but that it is gone
                await asyncio.sleep(0)

    asyncio.run(run())


def test_a_viewer_that_ends_lets_go_of_pages(store):
    async def run() -> None:
        async with viewer(settings_for(store.path.parent)) as client:
            page = await listening(client)
            await page.news()
            await client.app.shutdown()
            assert await page.news() == {}

    asyncio.run(run())


@pytest.mark.parametrize(("path", "status"), [("/api/jobs/none/events", 404), ("/api/events", 400)])
def test_nothing_to_listen_to(store, path, status):
    async def run() -> int:
        async with viewer(settings_for(store.path.parent)) as client:
            return (await client.get(path)).status

    assert asyncio.run(run()) == status


def test_a_job_that_cannot_be_read_just_now_is_no_end(store, monkeypatch):
    assert make_app(settings_for(store.path.parent))
    other = JobStore.create(store.path.parent / "b", job_file())
    monkeypatch.setattr(live, "LOOK_SEC", 0.01)

    async def run() -> dict[str, Any]:
        async with viewer(settings_for(store.path.parent)) as client:
            (other.path / "job.json").rename(other.path / "away")
            (other.path / "job.json").write_text("{")
            page = await listening(client, "/api/events?job=b&job=a")
            told = await page.news()
            (other.path / "away").rename(other.path / "job.json")
            return {**told, **await page.news()}

    assert set(asyncio.run(run())) == {"a", "b"}


TIMEOUT_SEC = 60
PLAIN = ("-e", "local", "--allow-partial-limits")
VERIFIER = '#!/bin/sh\necho 1 > "$SANDBOX_ROOT/logs/verifier/reward.txt"\n'


@contextmanager
def run_at_work(task: Path, job: Path, gate: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A run of three trials, one after the other. Each waits until somebody writes a line into the gate."""
    os.mkfifo(gate)
    agent = f'read line < "{gate}"; echo "$line" > /dev/null'
    command = (*SEATRIAL, "run", "-p", task, "--command", agent, "-k", 3, "-n", 1, *PLAIN, "-o", job)
    output = subprocess.DEVNULL
    with subprocess.Popen([*map(str, command)], env=PLAIN_ENVIRONMENT, stdout=output, stderr=output) as process:
        try:
            yield process
        finally:
            process.kill()


def release(gate: Path, run: "subprocess.Popen[bytes]") -> None:
    """Let the trial that waits go on, as soon as there is one."""
    while run.poll() is None:
        with suppress(OSError):  # nobody reads yet
            gate_end = os.open(gate, os.O_WRONLY | os.O_NONBLOCK)
            os.write(gate_end, b"go\n")
            os.close(gate_end)
            return
    pytest.fail(f"the run ended by itself, with exit code {run.returncode}")


@pytest.mark.whole
def test_a_run_is_watched_to_its_end(browser: Any, tmp_path: Path, make_task: MakeTask) -> None:
    job, gate = tmp_path / "jobs" / "night", tmp_path / "gate"
    with run_at_work(make_task("wait", files={"tests/test.sh": VERIFIER}), job, gate) as run:
        release(gate, run)  # an agent reads from it, so the job is there
        with running(tmp_path / "jobs", "--no-open", "--port", 0) as viewer:
            watch(browser, address_of(viewer), gate, run)


def watch(browser: Any, address: str, gate: Path, run: "subprocess.Popen[bytes]") -> None:
    context = browser.new_context(viewport={"width": 360, "height": 700})
    troubles: list[str] = []
    page, jobs = context.new_page(), context.new_page()
    for each in (page, jobs):
        each.on("console", lambda message: troubles.append(message.text))
        each.on("pageerror", lambda error: troubles.append(str(error)))
        each.goto(address)
        each.set_default_timeout(1000 * TIMEOUT_SEC)
    page.click("text=night")
    page.locator(".state.running").wait_for()
    page.evaluate("window.mark = 'never loaded again'")
    page.get_by_text("1 of 3", exact=True).wait_for()
    page.locator("#underway").get_by_text("wait.command.2").wait_for()
    release(gate, run)
    page.get_by_text("2 of 3", exact=True).wait_for()
    page.locator("#recent").get_by_role("link", name="wait.command.2").wait_for()
    page.locator("#underway").get_by_text("wait.command.3").wait_for()
    release(gate, run)
    run.wait(TIMEOUT_SEC)
    page.locator("h1 + .state.finished").wait_for()
    page.locator("#list").get_by_role("link", name="wait.command.3").wait_for()
    assert "3 passed" in page.inner_text("#summary")
    page.locator("#live").wait_for(state="hidden")
    assert page.evaluate("window.mark") == "never loaded again"
    jobs.bring_to_front()
    jobs.locator(".state.finished").wait_for()
    assert "token" not in page.url + jobs.url
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "find"
    assert troubles == []
    context.close()
