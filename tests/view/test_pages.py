"""Pages over HTTP: what they say of jobs, whatever is in those, and what is said where there is nothing to show."""

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from seatrial.model.evaluation import ErrorSource, ErrorTag
from seatrial.model.job import AgentOptions
from seatrial.store.job_store import JobStore
from seatrial.view.app import Viewer
from seatrial.view.library import Library
from seatrial.view.pages import job, jobs
from tests.jobs.samples import evaluation, job_file
from tests.report.sample_reports import HOSTILE
from tests.review.journals import said
from tests.view.viewers import finish_trial, settings_for, stored_job, viewer

REWARDS = {"add": [1.0, 1.0], "sort": [0.0, 1.0], "cut": [0.0, 0.0]}


def fetched(folder: Path, *paths: str) -> list[tuple[int, str]]:
    """What a viewer of a folder answers to each of these."""

    async def fetch() -> list[tuple[int, str]]:
        async with viewer(settings_for(folder)) as client:
            found = [await client.get(path) for path in paths]
            return [(each.status, await each.text()) for each in found]

    return asyncio.run(fetch())


def plain(text: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", text).split())


def test_a_filter_that_leaves_nothing_of_a_single_job_says_so(tmp_path):
    stored_job(tmp_path / "a", {"add": [1.0]}, name="nightly")
    ((_, page), (_, every)) = fetched(tmp_path, "/?state=running", "/")
    assert "0 of 1 job fit." in plain(page)
    assert "All jobs" in plain(page)
    assert 'role="search"' not in every


def test_the_list_names_jobs_with_their_progress_and_means(tmp_path):
    stored_job(tmp_path / "a", REWARDS, agents=("one", "two"), name="nightly")
    open_job = stored_job(tmp_path / "night" / "b", {"add": [1.0], "sort": []}, name="second")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/job.json").write_text('{"schema_version": 99}')
    with open_job.lock():
        ((status, page),) = fetched(tmp_path, "/")
    said = plain(page)
    assert status == 200
    assert "second running" in said
    assert "night~b · begun 2026-03-01 12:00 · 2 tasks · reviewed: none yet 1 of 2" in said
    assert "nightly finished" in said
    assert "6 passed, 6 failed" in said
    assert re.search(r"one 0\.500 0\.\d+ to 0\.\d+ 6 of 6", said)
    assert "This job cannot be read" in said
    assert "has version 99" in said
    assert 'data-events="/api/jobs/night~b/events"' in page


def test_a_job_says_how_good_its_agents_are_and_lists_its_trials(tmp_path):
    stored_job(tmp_path / "a", REWARDS, agents=("one", "two"))
    tag = ErrorTag(category="off_by_one", source=ErrorSource.MECHANICAL)
    judged = evaluation(0.0).model_copy(update={"error_taxonomy": [tag]})
    other = stored_job(tmp_path / "b", {"add": []}, name="tagged")
    finish_trial(other, "add", evaluation=judged)
    (_, page), (_, tagged), (_, narrowed), (_, wrong), (_, empty) = fetched(
        tmp_path,
        "/jobs/a/",
        "/jobs/b/",
        "/jobs/a/?agent=one&sort=-reward&page=7",
        "/jobs/a/?where=x%3C",
        "/jobs/a/?find=%00",
    )
    assert "one and two are level on 3 common tasks" in plain(page)
    assert "1 to 12 of 12 trials, the worst first" in plain(page)
    assert '<a href="/jobs/a/trials/add.one.1/">add.one.1</a>' in page
    assert 'href="/jobs/a/?agent=one&amp;task=add#trials"' in page
    assert 'href="/review/a/"' in page
    assert 'href="/compare?a=a"' in page
    assert "#trials?" not in page
    assert "off_by_one" in plain(tagged)
    assert 'href="/jobs/b/?agent=noop&amp;tag=off_by_one#trials"' in tagged
    assert "1 to 6 of 6 trials that fit, of 12" in plain(narrowed)
    assert 'aria-sort="descending"' in narrowed
    assert "is no condition" in plain(wrong) or "there is no key" in plain(wrong)
    assert "No trials that fit, of 12" in plain(empty)


def test_a_job_says_what_people_make_of_it(tmp_path):
    store = stored_job(tmp_path / "a", REWARDS)
    ((_, page),) = fetched(tmp_path, "/jobs/a/")
    assert "What do people say?" not in page
    for trial in ("add.noop.1", "sort.noop.1"):
        store.add_reviews(said(trial, "ann", "pass", notes="unfair"), said(trial, "bob", "pass"))
    ((_, page),) = fetched(tmp_path, "/jobs/a/?find=unfair")
    assert "What do people say?" in page
    assert "2 reviewers looked at 2 of 6 trials" in plain(page)
    assert "1 to 2 of 2 trials that fit, of 6" in plain(page)


def test_programs_get_the_same_trials(tmp_path):
    stored_job(tmp_path / "a", REWARDS)
    (_, text), (status, wrong), (none, nothing) = fetched(
        tmp_path, "/api/jobs/a/trials?sort=-reward&task=s", "/api/jobs/a/trials?where=x", "/api/jobs/b/trials"
    )
    found = json.loads(text)
    assert [(each["trial_id"], each["reward"]) for each in found["trials"]] == [
        ("sort.noop.2", 1.0),
        ("sort.noop.1", 0.0),
    ]
    assert (found["count"], found["of"], found["page"], found["pages"]) == (2, 6, 1, 1)
    assert (status, json.loads(wrong)["trials"]) == (400, [])
    assert (none, json.loads(nothing)) == (
        404,
        {"error": "there is no job 'b' here; the list of jobs has all there are"},
    )


def test_a_job_without_trials_has_a_page(tmp_path):
    JobStore.create(tmp_path / "new", job_file())
    ((status, page),) = fetched(tmp_path, "/jobs/new/")
    assert status == 200
    assert "No trial was judged, so there is no mean." in plain(page)
    assert "interrupted" in plain(page)


def test_hostile_names_are_shown_as_text(tmp_path):
    agents = tuple(AgentOptions(name=name) for name in HOSTILE[:3])
    store = JobStore.create(tmp_path / "odd", job_file(HOSTILE, agents=agents))
    for number, name in enumerate(HOSTILE):
        tag = ErrorTag(category=name, source=ErrorSource.HUMAN)
        judged = evaluation(0.0).model_copy(update={"error_taxonomy": [tag]})
        finish_trial(store, name, agent=HOSTILE[number % 3], evaluation=judged)
    asked = f"/jobs/odd/?find={quote(HOSTILE[0])}&agent={quote(HOSTILE[1])}&where={quote(HOSTILE[3])}"
    for status, page in fetched(tmp_path, "/", "/jobs/odd/", asked, "/compare?a=odd", "/jobs/%3Cscript%3E/"):
        assert status in (200, 404)
        found = Elements(page)
        assert found.scripts == ["/static/view.js"]
        assert found.names.isdisjoint({"img", "iframe", "object", "embed", "base", "style"})
        assert not [name for name in found.attributes if name.startswith("on") or name == "style"]
        assert not [target for target in found.targets if not target.startswith(("/", "#"))]


class Elements(HTMLParser):
    """What a browser makes of a page: its elements, their attributes, and where they lead."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.scripts: list[str] = []
        self.targets: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.names.add(tag)
        self.attributes.update(found)
        self.targets.update(found[name] or "" for name in ("href", "src", "action") if name in found)
        if tag == "script":
            self.scripts.append(found.get("src") or "inline")


def test_compared_jobs_come_with_flips_and_where_they_cannot_be_compared_with_the_reason(tmp_path):
    stored_job(tmp_path / "a", REWARDS, name="first")
    stored_job(tmp_path / "b", {**REWARDS, "cut": [1.0, 1.0]}, name="second")
    stored_job(
        tmp_path / "c", REWARDS, name="third", trial=job_file().spec.trial.model_copy(update={"pass_threshold": 0.5})
    )
    (_, form), (_, page), (_, refused), (_, forced), (_, alone), (status, none) = fetched(
        tmp_path,
        *("/compare", "/compare?a=a&b=b", "/compare?a=a&b=c", "/compare?a=a&b=c&force=yes", "/compare?a=a"),
        "/compare?a=a&b=none",
    )
    assert "choose a job" in plain(form)
    assert "inconclusive: 3 tasks cannot show a difference" in plain(page)
    assert "<title>Compare a and b · Seatrial</title>" in page
    assert plain(page).index("Can they be compared?") < plain(page).index("The answer")
    assert '<a href="/jobs/b/trials/cut.noop.1/">cut.noop.1</a>' in page
    assert "cannot be compared: a reward does not mean the same on both sides" in plain(refused)
    assert 'href="/compare?a=a&amp;b=c&amp;force=yes"' in refused
    assert "The answer" not in plain(refused)
    assert plain(forced).count("FORCED: a reward does not mean the same") == 2
    assert "has one agent" in plain(alone)
    assert "force" not in alone
    assert (status, "there is no job &#39;none&#39; here" in none) == (404, True)


def test_what_fails_unexpectedly_is_in_the_log_and_not_on_the_page(tmp_path, monkeypatch, caplog):
    def fail(*_: object) -> str:
        raise RuntimeError("secret words")

    monkeypatch.setattr(jobs, "jobs_page", fail)
    ((status, page),) = fetched(tmp_path, "/")
    assert status == 500
    assert "secret words" not in page
    assert "Traceback" not in page
    assert "secret words" in caplog.text


def test_a_list_does_not_wait_for_jobs_that_take_long(tmp_path, monkeypatch):
    stored_job(tmp_path / "a", {"add": [1.0]})
    waiting = Viewer(settings_for(tmp_path))
    assert "1 more job is being read" in plain(jobs.jobs_page(waiting, []))
    monkeypatch.setattr(jobs, "_PATIENCE_SEC", 0.0)
    may_go_on, readers = threading.Event(), list[str]()

    def cards(library: Library) -> Iterator[Any]:
        readers.append(threading.current_thread().name)
        may_go_on.wait(60)
        yield "a", library.card("a")

    monkeypatch.setattr(Library, "cards", cards)

    async def fetch() -> list[str | None]:
        async with viewer(settings_for(tmp_path)) as client:
            try:
                return [(await client.get("/")).headers.get("Refresh") for _ in range(20)]
            finally:
                may_go_on.set()

    assert asyncio.run(fetch()) == ["1"] * 20
    assert len(readers) == 2  # one ahead of all requests, and one for all of them


def test_the_page_of_a_job_that_takes_long_says_so_and_comes_by_itself(tmp_path, monkeypatch):
    stored_job(tmp_path / "a", {"add": [1.0]})
    monkeypatch.setattr(job, "_PATIENCE_SEC", 0.0)
    may_go_on, made = threading.Event(), list[str]()

    def overview(view: Viewer, key: str) -> Any:
        made.append(key)
        may_go_on.wait(60)

    monkeypatch.setattr(job, "_overview", overview)

    async def fetch() -> list[tuple[int, str | None, str]]:
        async with viewer(settings_for(tmp_path)) as client:
            try:
                answers = [await client.get("/jobs/a/") for _ in range(5)]
                waiting = asyncio.ensure_future(client.get("/jobs/a/", headers={"Prefer": "wait"}))
                done, _ = await asyncio.wait([waiting], timeout=0.1)
                assert not done
                waiting.cancel()
                return [(each.status, each.headers.get("Refresh"), await each.text()) for each in answers]
            finally:
                may_go_on.set()

    found = asyncio.run(fetch())
    assert [(status, refresh) for status, refresh, _ in found] == [(200, "1")] * 5
    assert "Its page comes by itself" in found[0][2]
    assert made == ["a"]  # one for all of them


@pytest.mark.parametrize("path", ["/jobs/none/", "/jobs/..%2f..%2fetc/", "/jobs/%00/", "/jobs/a~b/", "/jobs//"])
def test_a_job_that_is_not_there(tmp_path, path):
    stored_job(tmp_path / "a", {"add": [1.0]})
    ((status, page),) = fetched(tmp_path, path)
    assert (status, "<h1>Not found" in page) == (404, True)


def test_a_journal_that_is_damaged_later_is_no_concern_of_other_jobs(tmp_path):
    view = Viewer(settings_for(tmp_path))
    for name in ("sound", "spoilt"):
        stored_job(tmp_path / name, {"beam": [1.0]})
    jobs.jobs_page(view)
    (tmp_path / "spoilt/annotations.jsonl").mkdir()
    page = jobs.jobs_page(view)
    assert 'href="/jobs/sound/"' in page
    assert "spoilt/annotations.jsonl: cannot be stored or read" in page


def test_an_id_that_no_folder_can_have_is_not_found(tmp_path):
    stored_job(tmp_path / "job", {"beam": [1.0]})

    async def visit() -> int:
        async with viewer(settings_for(tmp_path)) as client:
            return (await client.get(f"/jobs/job/trials/{'long' * 100}/")).status

    assert asyncio.run(visit()) == 404


def test_the_list_of_jobs_can_be_searched(tmp_path):
    stored_job(tmp_path / "a", {"add": [1.0]}, agents=("one",), name="nightly")
    stored_job(tmp_path / "b", {"add": [1.0]}, agents=("two",), name="weekly")
    (_, every), (_, narrowed), (_, none) = fetched(tmp_path, "/", "/?find=two", "/?find=%3Cscript%3E&state=running")
    assert 'role="search"' in every
    assert "nightly finished" in plain(every)
    assert "1 of 2 jobs fit." in plain(narrowed)
    assert "weekly finished" in plain(narrowed)
    assert "nightly" not in plain(narrowed)
    assert "0 of 2 jobs fit." in plain(none)
    assert "<script>" not in none.split("<main")[1]
    assert "No job yet" not in none
