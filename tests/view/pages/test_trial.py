"""The page of a trial, for every way in which a trial can end, and for one in which every word is an attack."""

import asyncio
import datetime as dt
import html
from pathlib import Path
from typing import Any

import pytest

from seatrial.model.evaluation import Annotation, ErrorSource, ErrorTag, EvaluationResult, Judgment, ValidityCheck
from seatrial.model.job import AgentOptions
from seatrial.model.record import (
    AgentRef,
    AgentResult,
    Failure,
    ModelUsage,
    PhaseTime,
    SandboxRef,
    StepRecord,
    TaskRef,
    TrialRecord,
    TrialWarning,
    VerifierRun,
)
from seatrial.model.review import Retraction, ReviewEntry
from seatrial.view.pages.trial import conversation_page, trial_page
from tests.cli.conftest import start
from tests.cli.test_gc_command import why_no_sandbox
from tests.conftest import REPOSITORY
from tests.jobs.samples import DIGEST, NOON, broken_machine, evaluation, record
from tests.report.sample_reports import HOSTILE
from tests.view.trial.trials import TRIAL, Page, changes, keep_trial, page_of, told_calls, view_of
from tests.view.viewers import BEARER, serving, settings_for, viewer

ATTACK = f"{' '.join(HOSTILE[:9])} ]]> --> \x1b]0;title\x07 \u202etxt.\u202c"


def test_a_trial_that_passed_says_so_and_leads_on(tmp_path, make_task):
    task = make_task("task", instruction="# Bend it\n\nUntil it *breaks*.\n")
    files = {"verifier/stdout.txt": "3 passed", "verifier/files/reward.json": '{"reward": 1.0}', "agent/stdout.txt": ""}
    page = page_of(keep_trial(tmp_path / "job", record("add"), files, root=task))
    for words in ("Passed reward 1", "Bend it", "3 passed", "No call of a model was recorded", "trial 1 of 1"):
        assert words in page.words
    links = page.values("href")
    assert "/jobs/job/trials/add.noop.1/files/verifier/files/reward.json" in links
    assert "/jobs/job/trials/add.noop.1/raw/record.json" in links
    sections = {link for link in links if link.startswith("#") and link not in ("#main", "#first-failure")}
    assert {f"#{each}" for each in page.values("id")} >= sections


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ({"evaluation": evaluation(0.0)}, ("Failed reward 0",)),
        ({"evaluation": evaluation(0.5), "disputed_reward": 1.0}, ("Passed in part reward 0.5", "disputed: 1 on the")),
        (
            {"failure": broken_machine()},
            ("Not judged: the machinery failed", "no space left (SandboxError, while the sandbox", "never judged"),
        ),
        (
            {"failure": Failure(kind="cancelled", phase="agent", cause="Cancelled", message="stopped by a signal")},
            ("Not judged: it was cancelled", "stopped by a signal", "Nobody looked"),
        ),
        (
            {"warnings": (TrialWarning(code="no_model_call", message="it never called its model"),)},
            ("it never called its model",),
        ),
        (
            {"model_usage": ModelUsage(calls=3, input_tokens=10, output_tokens=2)},
            ("3 calls, 10 tokens in, 2 out, cost not known, but the file with its calls is missing",),
        ),
        ({"times": ()}, ("No phase of it was timed",)),
    ],
)
def test_every_end_of_a_trial_has_a_page(tmp_path, made, told):
    page = page_of(keep_trial(tmp_path / "job", record("add", **made)))
    assert [words for words in told if words not in page.words] == []
    assert "The task is no longer at /tasks/gone." in page.words


def test_a_damaged_record_has_a_page_with_its_files(tmp_path):
    store = keep_trial(tmp_path / "job", record("add"), {"agent/stdout.txt": "it said this"})
    (store.path / "trials" / TRIAL / "record.json").write_text("{")
    page = page_of(store)
    assert "Not counted" in page.words
    assert "add.noop.1 does not count: its record.json is no whole JSON" in page.words
    assert "it said this" in page.words
    assert "evaluation" not in page.values("id")


def test_steps_each_have_their_files_and_conversation(tmp_path):
    steps = (StepRecord(name="load", evaluation=evaluation(1.0)), StepRecord(name="solve"))
    store = keep_trial(tmp_path / "job", record("add", steps=steps), {"steps/solve/verifier/stdout.txt": "of solve"})
    for step, failing in (("load", 0), ("solve", 30), ("lost", None)):
        folder = store.path / "trials" / TRIAL / "steps" / step
        folder.mkdir(parents=True, exist_ok=True)
        told_calls(folder, 31 if step == "solve" else 2, failing=failing)
    page = page_of(store)
    for words in ("Step load", "Step solve", "Step lost", "of solve", "First failing step: bash (make): exit status 2"):
        assert words in page.words
    assert "#first-failure-load" in page.values("href")
    ids = page.values("id")
    assert sorted({each for each in ids if ids.count(each) > 1}) == []
    second = Page(conversation_page(view_of(store.path), "job", TRIAL, "solve", 2))
    assert "/jobs/job/trials/add.noop.1/conversation?page=1&step=solve" in second.values("href")
    assert "call 30" in second.words


def test_each_turn_is_marked_with_its_behaviour_in_a_word(tmp_path):
    store = keep_trial(tmp_path / "job", record("add"))
    told_calls(store.path / "trials" / TRIAL, 2)
    page = page_of(store)
    assert "exploration" in page.values("data-behaviour")
    assert "exploration" in page.words
    assert "runs ls" in page.values("title")


def test_a_job_that_a_program_drives_has_no_command_that_runs_it(tmp_path):
    store = keep_trial(tmp_path / "job", record("add"))
    assert "seatrial run" in page_of(store).words
    store.update(store.file.model_copy(update={"driver": "environment"}))
    assert "seatrial run" not in page_of(store).words


def test_what_people_say_with_what_they_took_back(tmp_path):
    store = keep_trial(tmp_path / "job", record("add"))
    entries = [_opinion("ada", Judgment.PASS, 1), _opinion("bob", Judgment.FAIL, 2), _opinion("bob", Judgment.PASS, 3)]
    back = Retraction(entry=entries[1].key, reviewer_id="bob", timestamp=NOON)
    store.add_reviews(*entries, ReviewEntry(id="f" * 16, trial_id=TRIAL, retraction=back))
    page = page_of(store)
    assert "All reviewers agree: pass" in page.words
    assert page.words.count("taken back") == 1
    assert page.words.count("first, blind") == 3


def _opinion(reviewer: str, judgment: Judgment, number: int, **more: Any) -> ReviewEntry:
    said = Annotation(reviewer_id=reviewer, timestamp=NOON + dt.timedelta(hours=number), judgment=judgment, **more)
    return ReviewEntry(id=f"{number:016x}", trial_id=more.pop("trial_id", TRIAL), annotation=said, blind=True)


def hostile_record() -> TrialRecord:
    """A record in which every text is an attack."""
    run = VerifierRun(
        exit_code=1,
        duration_sec=1.0,
        isolation="guarded",
        survivors=(ATTACK,),
        restored=(ATTACK,),
        restored_count=1,
        hidden=(ATTACK,),
        hidden_count=1,
    )
    judged = EvaluationResult(
        reward=0.5,
        validity=ValidityCheck(output_parseable=True, schema_valid=True, verifier_completed=True, errors=[ATTACK]),
        breakdown={ATTACK: {"score": 0.5, "max_score": 1.0, "evidence": ATTACK}, "x": ATTACK},
        error_taxonomy=[ErrorTag(category=ATTACK, description=ATTACK, source=ErrorSource.JUDGE)],
    )
    return record(
        ATTACK,
        agent=ATTACK,
        task=TaskRef(id=ATTACK, name=ATTACK, digest=DIGEST),
        agent_result=AgentResult(status="exited", exit_code=1, duration_sec=1.0),
        sandbox=SandboxRef(backend=ATTACK, image=ATTACK, network=ATTACK),
        times=(PhaseTime(phase="agent", step=ATTACK, started_at=NOON, finished_at=NOON),),
        evaluation=judged,
        verifier_run=run,
        steps=(StepRecord(name=ATTACK, verifier_run=run, evaluation=judged), StepRecord(name="/etc")),
        warnings=(TrialWarning(code="odd", message=ATTACK),),
        model_usage=ModelUsage(calls=2, omitted=(ATTACK,), prices=ATTACK),
    ).model_copy(update={"agent": AgentRef(name=ATTACK, version=ATTACK, model=ATTACK, command=ATTACK)})


def test_hostile_words_in_every_field_stay_words(tmp_path):
    made = hostile_record()
    files = {
        "changes.json": changes(added=[ATTACK], removed=[ATTACK]),
        "verifier/stdout.txt": ATTACK,
        "verifier/files/<img src=x onerror=alert(1)>.html": ATTACK,
        "agent/stderr.txt": ATTACK,
    }
    agent = AgentOptions(name=ATTACK, command=ATTACK)
    store = keep_trial(tmp_path / "job", made, files, agents=(agent,))
    folder = store.path / "trials" / made.trial_id
    told_calls(folder, 3, failing=1, text=ATTACK)
    annotation = Annotation(
        reviewer_id=ATTACK, timestamp=NOON, judgment=Judgment.FAIL, categories=[ATTACK], notes=ATTACK
    )
    store.annotate(made.trial_id, annotation)
    view = view_of(store.path)
    for source in (trial_page(view, "job", made.trial_id), conversation_page(view, "job", made.trial_id)):
        page = Page(source)
        assert "<script>window.attacked = 1</script>" in page.words
        assert all(
            attributes.get("src", "").startswith("/static/") for tag, attributes in page.elements if tag == "script"
        )
        assert not {tag for tag, _ in page.elements} & {"img", "object", "embed", "base"}
        names = {name for _, attributes in page.elements for name in attributes}
        assert not [name for name in names if name.startswith("on") or name == "style"]
        assert [each for each in page.values("href") if not each.startswith(("/", "#"))] == []
        assert [letter for letter in source if not letter.isprintable() and letter != "\n"] == []


ADDRESSES = (
    ("/jobs/job/trials/add.noop.1/", 200, "Passed"),
    ("/jobs/job/trials/add.noop.1/conversation", 200, "call 0"),
    ("/jobs/job/trials/add.noop.1/conversation?page=2", 200, "call 25"),
    ("/api/jobs/job/trials/add.noop.1/turns?page=2", 200, "call 25"),
    ("/jobs/job/trials/add.noop.1/change?path=/a", 200, "What is in it was not kept."),
    ("/jobs/job/trials/add.noop.1/change?path=/etc/passwd", 404, "changed no file"),
    ("/jobs/job/trials/add.noop.1/conversation?page=3", 404, "has 2 pages, and this is page 3"),
    ("/jobs/job/trials/add.noop.1/conversation?page=0", 404, "this is page 0"),
    ("/jobs/job/trials/add.noop.1/conversation?page=-1", 400, "expected the number of a page"),
    ("/jobs/job/trials/add.noop.1/conversation?page=%D9%A1", 400, "expected the number of a page"),
    ("/jobs/job/trials/add.noop.1/conversation?step=../x", 404, "it has no step"),
    ("/jobs/job/trials/add.noop.2/", 404, "similar: add.noop.1"),
    ("/jobs/job/trials/..%2F..%2Fjob/", 404, "there is no finished trial"),
    ("/jobs/other/trials/add.noop.1/", 404, "there is no job"),
)


def test_addresses_and_what_is_said_of_those_that_lead_nowhere(tmp_path):
    store = keep_trial(tmp_path / "job", record("add"), {"changes.json": changes(added=["/a"])})
    told_calls(store.path / "trials" / TRIAL, 26)

    async def visit() -> None:
        async with viewer(settings_for(tmp_path / "job")) as client:
            for path, status, words in ADDRESSES:
                answer = await client.get(path)
                assert (answer.status, path) == (status, path)
                assert words in html.unescape(await answer.text())

    asyncio.run(visit())


NOOP, ORACLE = "voltage-drop.noop.1", "voltage-drop.oracle.1"


@pytest.fixture(scope="module")
def job(tmp_path_factory) -> Path:
    """A job that really ran; one of its agents is given a conversation of three pages."""
    if reason := why_no_sandbox():
        pytest.skip(f"embedded sandbox: {reason}")
    folder: Path = tmp_path_factory.mktemp("jobs") / "job"
    run = ("run", "-p", REPOSITORY / "examples/tasks/voltage-drop", "--allow-partial-limits", "--image", "host")
    done = start(*run, "-a", "oracle", "-a", "noop", "-o", folder)
    assert done.code == 0, done.err
    told_calls(folder / "trials" / NOOP, 60, failing=30, text=" ".join(HOSTILE[:8]))
    return folder


class Visit:
    """A page that is open, with everything that it complained about."""

    def __init__(self, browser: Any, address: str, **context: Any) -> None:
        self.page = browser.new_context(extra_http_headers=BEARER, **context).new_page()
        self.page.set_default_timeout(20_000)
        self.troubles: list[str] = []
        self.page.on("console", lambda message: self.troubles.append(message.text))
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.goto(address)


@pytest.mark.whole
def test_real_trials_by_keys(job, browser):
    with serving(job) as address:
        visit = Visit(browser, f"{address}/jobs/job/trials/{NOOP}/")
        page = visit.page
        assert page.inner_text(".amounts-to strong") == "Failed: it left no output"
        assert page.locator(".turn").count() == 25
        page.locator("a.more-turns").click()
        page.locator("#call-30").wait_for()
        assert page.locator(".turn").count() == 50
        page.keyboard.press("f")
        assert page.evaluate("document.activeElement.id") == "first-failure"
        assert "exit status 2" in page.inner_text("#first-failure")
        page.keyboard.press("?")
        assert page.locator("#keys").is_visible()
        page.keyboard.press("Escape")
        page.keyboard.press("n")
        page.wait_for_url(f"**/{ORACLE}/")
        assert page.inner_text(".amounts-to strong") == "Passed"
        assert "the declared output" in page.inner_text("#changes")
        assert page.locator("#time svg rect.phase").count() >= 3
        page.keyboard.press("p")
        page.wait_for_url(f"**/{NOOP}/")
        page.keyboard.press("f")
        page.wait_for_url("**/conversation?page=2#first-failure")
        assert page.evaluate("window.attacked") is None
        assert visit.troubles == []


@pytest.mark.whole
def test_narrow_and_without_a_script(job, browser):
    with serving(job) as address:
        narrow = Visit(browser, f"{address}/jobs/job/trials/{NOOP}/", viewport={"width": 360, "height": 700})
        assert narrow.page.evaluate("document.documentElement.scrollWidth") == 360
        bare = Visit(browser, f"{address}/jobs/job/trials/{NOOP}/", java_script_enabled=False)
        assert not bare.page.locator("button.copy").first.is_visible()
        folded = bare.page.locator("details.said.system").first
        folded.locator("summary").click()
        assert folded.locator("pre").is_visible()
        bare.page.locator("a.more-turns").click()
        bare.page.wait_for_url("**/conversation?page=2")
        assert bare.page.locator("#call-30").is_visible()
        assert narrow.troubles + bare.troubles == []
