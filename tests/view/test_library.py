"""Jobs are read once for all who ask, again when they changed, and let go of when there are too many."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest

from seatrial.analysis.loaded import LoadedJob, load_job
from seatrial.errors import JobError
from seatrial.model.evaluation import Annotation, Judgment
from seatrial.view import library as module
from seatrial.view.job_folders import job_folders
from seatrial.view.library import Library
from tests.jobs.samples import NOON
from tests.review.journals import said, taken_back
from tests.view.viewers import finish_trial, stored_job


@pytest.fixture
def loads(monkeypatch) -> list[str]:
    """The names of the jobs that were read, each time they were."""
    found: list[str] = []

    def load(folder) -> LoadedJob:
        found.append(folder.name)
        return load_job(folder)

    monkeypatch.setattr(module, "load_job", load)
    return found


def verdict(reviewer: str = "ann") -> Annotation:
    return Annotation(reviewer_id=reviewer, timestamp=NOON, judgment=Judgment.PASS)


def test_a_job_is_read_again_only_when_its_trials_changed(tmp_path, loads):
    store = stored_job(tmp_path / "a", {"add": [1.0], "sort": []})
    library = Library([tmp_path])
    assert library.job("a") is library.job("a")
    assert library.card("a").finished == 1
    assert library.made("a", "count", lambda job: len(job.trials)) == 1
    assert loads == ["a"]
    finish_trial(store, "sort")
    assert library.made("a", "count", lambda job: len(job.trials)) == 2
    assert library.card("a").finished == 2
    assert loads == ["a", "a"]


def test_a_card_is_of_the_job_as_it_was_read_last(tmp_path):
    store = stored_job(tmp_path / "a", {"add": [1.0], "sort": []})
    library = Library([tmp_path])
    assert library.card("a").finished == 1
    finish_trial(store, "sort")
    assert (len(library.job("a").trials), library.card("a").finished) == (2, 2)


def test_what_reviewers_say_went_wrong_is_among_the_tags_at_once(tmp_path, loads):
    store = stored_job(tmp_path / "a", {"add": [1.0]})
    library = Library([tmp_path])
    assert library.made("a", "tags", lambda job: job.trials[0].tags) == ()
    store.annotate("add.noop.1", verdict("ann").model_copy(update={"categories": ["unit"]}))
    assert library.made("a", "tags", lambda job: job.trials[0].tags) == ("human:unit",)
    assert loads == ["a"]


def test_reviews_are_seen_and_cost_no_reading_of_trials(tmp_path, loads):
    store = stored_job(tmp_path / "a", {"add": [1.0]})
    library = Library([tmp_path])
    assert (library.reviewed("a"), library.job("a").annotations) == ((0, 0), {})
    store.annotate("add.noop.1", verdict("ann"))
    store.annotate("add.noop.1", verdict("bob"))
    assert library.reviewed("a") == (1, 2)
    assert len(library.job("a").annotations["add.noop.1"]) == 2
    assert loads == ["a"]


def test_a_verdict_that_was_taken_back_does_not_count_as_a_review(tmp_path):
    store = stored_job(tmp_path / "a", {"add": [1.0], "sort": [1.0]})
    ann, bob = said("add.noop.1", "ann", "pass"), said("sort.noop.1", "bob", "fail")
    store.add_reviews(ann, bob, taken_back(bob))
    assert Library([tmp_path]).reviewed("a") == (1, 1)


def test_a_list_looks_for_jobs_once_however_many_there_are(tmp_path, monkeypatch):
    for name in "abc":
        stored_job(tmp_path / name, {"add": [1.0]})
    looks: list[Sequence[Path]] = []

    def look(roots: Sequence[Path]) -> dict[str, Path]:
        looks.append(roots)
        return job_folders(roots)

    monkeypatch.setattr(module, "job_folders", look)
    library = Library([tmp_path])
    assert [(key, library.reviewed(key)) for key, _ in library.cards()] == [(name, (0, 0)) for name in "abc"]
    assert len(looks) == 1


def test_jobs_that_come_and_go_are_seen(tmp_path):
    library = Library([tmp_path])
    with pytest.raises(JobError):
        library.job("a")
    stored_job(tmp_path / "a", {"add": [1.0]})
    assert library.job("a").name
    (tmp_path / "a").rename(tmp_path / "b")
    assert library.job("b").name
    with pytest.raises(JobError, match="there is no job 'a' here"):
        library.job("a")


def test_many_who_ask_at_once_wait_for_one_reading(tmp_path, loads, monkeypatch):
    stored_job(tmp_path / "a", {"add": [1.0]})
    library, everybody = Library([tmp_path]), threading.Barrier(8)

    def ask(_: int) -> LoadedJob:
        everybody.wait()
        return library.job("a")

    with ThreadPoolExecutor(8) as threads:
        found = [*threads.map(ask, range(8))]
    assert loads == ["a"]
    assert len({id(job) for job in found}) == 1


def test_what_was_asked_for_longest_ago_makes_room_but_keeps_its_card(tmp_path, loads):
    for name in "abc":
        stored_job(tmp_path / name, {"add": [1.0, 0.0]})
    library = Library([tmp_path], most_trials=4)
    for name in "abc":
        library.job(name)
        library.card(name)
    assert [library.card(name).finished for name in "abc"] == [2, 2, 2]
    assert loads == [*"abc"]
    library.job("b")
    assert loads == [*"abc"]
    library.job("a")
    assert loads == [*"abca"]


def test_a_job_that_has_to_make_room_just_then_is_given_all_the_same(tmp_path, monkeypatch):
    store = stored_job(tmp_path / "a", {"add": [1.0], "sort": []})
    stored_job(tmp_path / "b", {"add": [1.0]})
    library = Library([tmp_path], most_trials=1, clock=count().__next__)
    before = library.job("a")
    finish_trial(store, "sort")

    def holder(_: Path) -> int:
        library.job("b")  # somebody else asks for another one
        return 1

    monkeypatch.setattr(module, "holder_of", holder)
    assert library.job("a") is before


def test_while_a_job_runs_it_is_read_for_a_twentieth_of_the_time(tmp_path, loads, monkeypatch):
    now = [100.0]
    store = stored_job(tmp_path / "a", {"add": [1.0], "sort": [], "cut": []})

    def slow(folder) -> LoadedJob:
        now[0] += 1.0
        loads.append(folder.name)
        return load_job(folder)

    monkeypatch.setattr(module, "load_job", slow)
    library = Library([tmp_path], clock=lambda: now[0])
    with store.lock():
        library.job("a")
        finish_trial(store, "sort")
        now[0] += 18.0
        assert len(library.job("a").trials) == 1
        now[0] += 2.0
        assert len(library.job("a").trials) == 2
        finish_trial(store, "cut")
        assert len(library.job("a").trials) == 2
    assert len(library.job("a").trials) == 3  # its run has ended


def test_a_damaged_job_is_no_concern_of_the_others(tmp_path):
    stored_job(tmp_path / "good", {"add": [1.0]})
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "job.json").write_text("{")
    found = dict(Library([tmp_path]).cards())
    assert isinstance(found["bad"], JobError)
    assert "is not JSON" in str(found["bad"])
    assert not isinstance(found["good"], JobError)
    with pytest.raises(JobError, match="there is no job 'worse' here"):
        Library([tmp_path]).job("worse")
