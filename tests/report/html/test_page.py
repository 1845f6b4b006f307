"""The page as bytes; what a browser makes of it is in test_browser.py."""

import json
import random
import re
import shlex
import subprocess
import sys
from html.parser import HTMLParser
from itertools import accumulate
from pathlib import Path

import pytest

from seatrial.analysis.arms import arms_of
from seatrial.model.job import TrialOptions
from seatrial.report.document import ReportOptions, make_document
from seatrial.report.html.page import folder_link, render_html, reproduce_section, trial_data
from tests.analysis.memory_jobs import memory_job, trial
from tests.cli_words import taken_apart
from tests.report.sample_reports import HOSTILE, hostile_job, sample_job


class Reader(HTMLParser):
    """Collects what a page has: its elements with their attributes, its ids and links, and its words."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(page.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def values(self, name: str) -> list[str]:
        return [value for _, attributes in self.elements if (value := attributes.get(name)) is not None]


@pytest.fixture(scope="module")
def page() -> bytes:
    return render_html(make_document([sample_job()]), Path("/reports"))


def test_the_same_jobs_give_the_same_bytes(page):
    assert render_html(make_document([sample_job()]), Path("/reports")) == page


def test_other_processes_give_the_same_bytes(page):
    program = (
        "import sys; from pathlib import Path\n"
        "from seatrial.report.document import make_document\n"
        "from seatrial.report.html.page import render_html\n"
        "from tests.report.sample_reports import sample_job\n"
        "sys.stdout.buffer.write(render_html(make_document([sample_job()]), Path('/reports')))"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, check=True)
    assert done.stdout == page


def test_nothing_is_fetched_and_only_our_own_script_may_run(page):
    read = Reader(page)
    assert not [tag for tag, _ in read.elements if tag in ("img", "link", "iframe", "object", "base", "image", "use")]
    assert read.values("src") == []
    assert not [link for link in read.values("href") if not link.startswith("#")]
    policy = next(value for value in read.values("content") if "default-src" in value)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert not re.search(rb"https?://(?!www\.w3\.org/2000/svg)", page)


def test_ids_are_there_once_and_links_within_the_page_lead_somewhere(page):
    read = Reader(page)
    ids = read.values("id")
    assert len(ids) == len(set(ids))
    places = [link.removeprefix("#") for link in read.values("href") if not link.startswith("#trials?")]
    assert set(places) <= set(ids)


def test_every_section_says_something(page):
    text = " ".join(Reader(page).words)
    for words in (
        *("careful leads quick", "The same as a table", "Failures by category", "First failing step", "unit_mismatch"),
        *("Not judged, and no fault of an agent", "The same trials, counted otherwise", "The unit of analysis is the"),
        *("seatrial report /jobs/bridge-checks", "started 2026-05-01 12:00:00 to 2026-05-24 12:00:00", "p after Holm"),
    ):
        assert words in text, words
    assert page.count(b"<svg") == 6


def test_hostile_names_are_words_in_every_place():
    read = Reader(render_html(make_document([hostile_job()]), Path("/reports")))
    plain = Reader(render_html(make_document([memory_job([trial("t", "a", 1.0), trial("t", "b", 0.0)])])))
    assert {tag for tag, _ in read.elements} <= {tag for tag, _ in plain.elements} | {"circle", "polygon", "span"}
    assert not [key for _, attributes in read.elements for key in attributes if key.startswith("on")]
    assert not [link for link in read.values("href") if not link.startswith("#")]
    text = "".join(word for word in read.words if not word.startswith('{"arms"'))
    assert sum(tag == "script" for tag, _ in read.elements) == 2
    assert HOSTILE[0] in text
    assert HOSTILE[5] in text
    assert "\u202e" not in text
    assert "\x1b" not in text


@pytest.mark.parametrize(
    "trials",
    [
        [],
        [trial("t", "a", None)],
        [trial("t", "a", 1.0)],
        [trial("t", "a", 1.0), trial("u", "b", 0.0)],
        [trial("t", "a", None), trial("t", "b", None)],
    ],
    ids=["no trial", "nothing judged", "one trial", "nothing in common", "two agents, nothing judged"],
)
def test_jobs_with_little_in_them_have_a_page_too(trials):
    page = render_html(make_document([memory_job(trials)]))
    assert b"</html>" in page
    assert b"None" not in page.partition(b'id="data"')[0]
    assert b"nan" not in page.partition(b'id="data"')[0].partition(b"</style>")[2].replace(b"nance", b"")


def test_rewards_of_another_meaning_are_not_compared_unless_that_is_forced():
    lower = TrialOptions(pass_threshold=0.5)
    jobs = [memory_job([trial("t", "a", 1.0)]), memory_job([trial("t", "b", 0.5)], name="other", trial=lower)]
    refused = Reader(render_html(make_document(jobs)))
    assert "b is not compared with a" in " ".join(refused.words)
    assert "Where do agents differ?" not in " ".join(refused.words)
    forced = render_html(make_document(jobs, ReportOptions(comparability="forced")))
    sections = forced.split(b"<section")[2:-1]
    assert all(b"do not all mean the same" in section for section in sections)


def test_only_comparisons_that_were_made_are_adjusted_for():
    alike = [trial(task, agent, 1.0) for task in "tu" for agent in "abc"]
    page = Reader(render_html(make_document([memory_job([*alike, trial("t", "d", None)])])))
    assert "p-values after Holm, and intervals, allow for 3 comparisons: every two agents." in page.words


def test_the_command_has_every_option_as_the_program_takes_it():
    options = ReportOptions(
        title="-x 'y'",
        baseline="a",
        level=0.999_999_9,
        seed=123_456_789,
        clusters="family",
        comparability="forced",
        filters=("task=t",),
    )
    words = shlex.split(reproduce_section(make_document([memory_job([trial("t", "a", 1.0)])], options)).commands[0])
    taken = taken_apart("report", words[2:])
    assert [taken[name] for name in ("title", "baseline", "level", "seed")] == ["-x 'y'", "a", 0.999_999_9, 123_456_789]
    assert taken["family"]
    assert taken["force"]
    assert str(taken["where"]) == "task=t"


def test_a_folder_is_one_word_in_commands_for_readers_without_a_script():
    job = memory_job([trial("t", "a", 1.0)])
    job.store.path = Path("/my jobs")
    assert b"seatrial show --all &#39;/my jobs&#39;" in render_html(make_document([job]))


def unfolded(data):
    """What the page makes of the columns: a row for each trial."""
    arms = [arm for arm, count in zip(data["arms"], data["runs"], strict=True) for _ in range(count)]
    tasks = [data["tasks"][place] for place in accumulate(data["task"])]
    for index, (arm, task) in enumerate(zip(arms, tasks, strict=True)):
        own = data["ids"].get(str(index), f"{task}.{arm['agent']}.{data['attempt'][index]}")
        outcome = data["outcomes"][data["outcome"][index]]
        reward = data["reward"][index] if data["reward"] else None
        yield own, arm["label"], task, outcome, reward


def expected(jobs):
    for arm in arms_of(jobs):
        for each in sorted(arm.trials, key=lambda trial: (trial.task_id, trial.attempt, trial.trial_id)):
            yield each.trial_id, arm.label, each.task_id, each.outcome, each.reward


def test_every_trial_is_in_the_columns():
    jobs = [sample_job(), sample_job(tasks=3, name="second")]
    assert [*unfolded(json.loads(trial_data(arms_of(jobs), None)))] == [*expected(jobs)]


def test_hostile_names_cannot_end_the_element():
    jobs = [hostile_job()]
    text = trial_data(arms_of(jobs), Path("/reports"))
    assert not set(text) & set("<>&\u2028\u2029")
    assert [*unfolded(json.loads(text))] == [*expected(jobs)]


def test_a_reward_that_does_not_count_is_not_shown():
    broken = trial("t", "a", 1.0)._replace(outcome="verifier_error")
    data = json.loads(trial_data(arms_of([memory_job([broken])]), None))
    assert data["reward"] == []
    assert data["time"] == [2]


def test_tags_are_kept_however_many_trials_could_not_be_run(monkeypatch):
    monkeypatch.setattr("seatrial.report.html.page._MOST_NOTES", 3)
    broken = [trial("a", "x", None, number, failure=f"SandboxError: box {number} is gone") for number in range(1, 9)]
    data = json.loads(trial_data(arms_of([memory_job([*broken, trial("z", "x", 0.0, tags=("human:wrong",))])]), None))
    assert data["notes"][data["note"][-1]] == ["human:wrong"]
    assert data["notes"][data["note"][7]] == []


def test_folders_are_linked_from_where_the_page_lies_and_never_by_a_scheme():
    assert folder_link(Path("/jobs/one/trials"), Path("/jobs")) == "./one/trials/"
    assert folder_link(Path("/jobs/one/trials"), Path("/reports/may")) == "./../../jobs/one/trials/"
    assert folder_link(Path("/jobs/javascript:x?#/trials"), Path("/jobs")) == "./javascript%3Ax%3F%23/trials/"


def test_many_trials_take_few_bytes():
    chance = random.Random(1)
    trials = [
        trial(f"task-{task:04d}", f"agent-{agent}", round(chance.random(), 3), duration_sec=chance.lognormvariate(3, 1))
        for task in range(200)
        for agent in range(5)
    ]
    assert len(trial_data(arms_of([memory_job(trials)]), None)) < 30 * len(trials)
