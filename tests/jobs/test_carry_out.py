"""Carrying out a job: every trial is run once, stored once, and is no concern of the others."""

import asyncio
import errno
import logging
import os
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from seatrial.errors import HostExhaustedError, SandboxError, StoreError
from seatrial.jobs.carry_out import AgentWatch, Breaker, carry_out
from seatrial.jobs.plan import TrialPlan, plan_trials
from seatrial.jobs.prepare import PreparedJob
from seatrial.model.events import Notice
from seatrial.model.job import AgentOptions, RunOptions
from seatrial.model.record import Failure, TrialRecord, TrialWarning
from seatrial.store.job_store import JobStore
from seatrial.trial.events import PhaseStarted, TrialFinished, TrialRetried, TrialStarted
from tests.jobs.samples import NOOP, FakeEngine, FakeTrials, Watcher, broken_machine, carry_out_here, record_for
from tests.jobs.samples import record as samples_record
from tests.model.samples import evaluation, record

ALL = {"add.noop.1", "merge.noop.1", "sort.noop.1"}


def run(job: PreparedJob, trials: FakeTrials, observe=lambda _: None):
    async def go():
        async with asyncio.timeout(60):
            return await carry_out_here(job, trials, observe)

    return asyncio.run(go())


def outcomes(store: JobStore) -> dict[str, str]:
    return {entry.trial_id: entry.outcome for entry in store.entries()}


def test_every_trial_is_run_and_stored(make_job):
    job, trials = make_job(attempts=2), FakeTrials()
    outcome = run(job, trials)
    assert sorted(trials.ran) == sorted(plan.trial_id for plan in job.trials)
    assert job.store.finished() == set(trials.ran)
    assert (outcome.planned, outcome.finished, outcome.started, outcome.stopped) == (6, 6, 6, "complete")
    assert (job.store.trial_folder("add.noop.2") / "agent" / "stdout.txt").read_text() == "try 1\n"
    assert job.store.record("add.noop.2").job == "nightly"


def test_a_trial_knows_exactly_its_task_and_options(make_job):
    seen = []

    def act(spec, _):
        seen.append(spec)
        return record_for(spec)

    run(job := make_job(), FakeTrials(act))
    locked = {task.id: task.digest for task in job.store.file.tasks}
    assert {spec.task.id: spec.task_digest for spec in seen} == locked
    assert {(spec.agent.name, spec.attempt) for spec in seen} == {("noop", 1)}
    assert all(spec.options == job.store.file.spec.trial for spec in seen)


def test_a_finished_trial_is_not_run_again(make_job):
    job = make_job()
    run(job, FakeTrials())
    again = FakeTrials()
    outcome = run(job, again)
    assert again.ran == []
    assert (outcome.planned, outcome.finished, outcome.started) == (3, 3, 0)


def test_what_happens_is_told(make_job):
    watcher = Watcher()
    run(make_job(run=RunOptions(concurrent=1)), FakeTrials(), watcher)
    assert [type(event) for event in watcher.events] == [TrialStarted, PhaseStarted, TrialFinished] * 3
    assert watcher.events[0] == TrialStarted("add.noop.1", "add", "noop", 1)
    assert [event.record.trial_id for event in watcher.of(TrialFinished)] == sorted(ALL)


def test_an_observer_that_breaks_changes_nothing(make_job, caplog):
    def broken(_):
        raise ValueError("the display is gone")

    job = make_job()
    run(job, FakeTrials(), broken)
    assert outcomes(job.store) == dict.fromkeys(ALL, "pass")
    assert "the display is gone" in caplog.text


def test_a_bug_in_one_trial_is_its_failure_and_nobody_elses(make_job, caplog):
    def act(spec, _):
        if spec.task.id == "merge":
            raise KeyError("lost")
        return record_for(spec)

    job, trials = make_job(), FakeTrials(act)
    run(job, trials)
    assert outcomes(job.store) == {**dict.fromkeys(ALL, "pass"), "merge.noop.1": "infrastructure_error"}
    failure = job.store.record("merge.noop.1").failure
    assert failure is not None
    assert (failure.cause, failure.message, failure.retryable) == ("KeyError", "'lost'", False)
    assert trials.ran.count("merge.noop.1") == 1
    assert "Traceback" in caplog.text
    assert (job.store.trial_folder("merge.noop.1") / "agent" / "stdout.txt").exists()


@pytest.mark.parametrize(
    "error", [SystemExit(3), asyncio.CancelledError("a query"), ExceptionGroup("two", [OSError(5, "x")])]
)
def test_whatever_a_plug_in_does_ends_one_trial_only(make_job, caplog, error):
    def act(spec, _):
        if spec.task.id == "add":
            raise error
        return record_for(spec)

    job = make_job(attempts=3, run=RunOptions(concurrent=1))
    outcome = run(job, FakeTrials(act))
    assert (outcome.finished, outcome.stopped) == (9, "complete")
    assert {entry.failure.split(":")[0] for entry in job.store.entries() if entry.failure} == {type(error).__name__}


def test_what_the_machinery_failed_is_tried_again_and_every_try_kept(make_job):
    def act(spec, tries):
        return record_for(spec, failure=broken_machine()) if tries < 2 else record_for(spec)

    job, trials, watcher = make_job(), FakeTrials(act), Watcher()
    run(job, trials, watcher)
    assert [(entry.outcome, entry.tries) for entry in job.store.entries()] == [("pass", 2)] * 3
    kept = {path.name: path for path in (job.store.path / "tries").iterdir()}
    assert set(kept) == {f"{name}.1" for name in ALL}
    assert (kept["add.noop.1.1"] / "agent" / "stdout.txt").read_text() == "try 1\n"
    assert {(event.tries, event.failure.cause) for event in watcher.of(TrialRetried)} == {(1, "SandboxError")}
    assert {event.tries for event in watcher.of(TrialStarted)} == {1, 2}


@pytest.mark.parametrize(("retries", "tries"), [(0, 1), (1, 2)])
def test_at_last_the_failure_is_the_record(make_job, retries, tries):
    job = make_job(run=RunOptions(retries=retries))
    run(job, FakeTrials(lambda spec, _: record_for(spec, failure=broken_machine())))
    assert {(entry.outcome, entry.reward, entry.tries) for entry in job.store.entries()} == {
        ("infrastructure_error", None, tries)
    }


def test_an_error_of_the_sandbox_that_comes_out_is_tried_again_too(make_job, caplog):
    def act(spec, tries):
        if tries == 1:
            raise SandboxError("no more namespaces")
        return record_for(spec)

    job = make_job()
    run(job, FakeTrials(act))
    assert outcomes(job.store) == dict.fromkeys(ALL, "pass")


def test_tries_of_an_earlier_run_are_counted_on(make_job):
    job = make_job(run=RunOptions(retries=0))
    run(job, FakeTrials(lambda spec, _: record_for(spec, failure=broken_machine())))
    for name in ALL:
        job.store.set_aside(name)
    run(job, FakeTrials())
    assert {entry.tries for entry in job.store.entries()} == {2}


def test_a_budget_of_trials_ends_a_run_that_can_be_resumed(make_job):
    job, trials = make_job(run=RunOptions(max_trials=2)), FakeTrials()
    outcome = run(job, trials)
    assert (outcome.planned, outcome.finished, outcome.started, outcome.stopped) == (3, 2, 2, "trial budget")
    outcome = run(job, trials)
    assert (outcome.finished, outcome.started, outcome.stopped) == (3, 1, "complete")
    assert sorted(trials.ran) == sorted(ALL)


def test_a_budget_of_trials_that_is_enough_is_not_used_up(make_job):
    outcome = run(make_job(run=RunOptions(max_trials=3)), FakeTrials())
    assert (outcome.finished, outcome.stopped) == (3, "complete")


def test_an_error_that_happens_to_be_a_timeout_is_not_the_end_of_the_time(make_job):
    class Slow(FakeEngine):
        @asynccontextmanager
        async def open(self, job, observe):
            raise TimeoutError("the registry does not answer")
            yield

    job = make_job(run=RunOptions(max_wall_sec=60))
    with pytest.raises(TimeoutError, match="registry"):
        asyncio.run(carry_out(job, Slow(FakeTrials(), 1)))


@pytest.mark.parametrize("error", [None, StoreError("the disk is gone")], ids=["at the end", "after an error"])
def test_places_may_take_any_time_to_close(make_job, monkeypatch, error):
    limits: list[asyncio.Timeout] = []
    ends: list[float | None] = []
    make_limit = asyncio.timeout

    def limit(seconds):
        limits.append(make_limit(seconds))
        return limits[-1]

    class Watched(FakeEngine):
        @asynccontextmanager
        async def open(self, job, observe):
            async with super().open(job, observe) as places:
                ends.append(limits[0].when())
                try:
                    yield places
                finally:
                    ends.append(limits[0].when())

    def act(spec, _):
        if error:
            raise error
        return record_for(spec)

    monkeypatch.setattr(asyncio, "timeout", limit)
    job = make_job(run=RunOptions(max_wall_sec=3600))
    with pytest.raises(StoreError, match="gone") if error else nullcontext():
        asyncio.run(carry_out(job, Watched(FakeTrials(act), 4)))
    at_first, at_last = ends
    assert at_first is not None
    assert at_last is None


def test_when_the_time_is_over_what_runs_ends_without_a_record_and_can_be_resumed(make_job):
    torn_down: list[str] = []

    async def trial(spec, folder, observe):
        if spec.task.id == "merge":
            try:
                await asyncio.Event().wait()
            finally:
                torn_down.append(spec.trial_id)
        return record_for(spec)

    job = make_job(run=RunOptions(concurrent=1, max_wall_sec=0.2))
    outcome = asyncio.run(carry_out_here(job, trial))
    assert (outcome.finished, outcome.started, outcome.stopped) == (1, 2, "wall budget")
    assert "a trial that was running had to end, without a record" in (outcome.reason or "")
    assert torn_down == ["merge.noop.1"]
    assert list((job.store.path / ".drafts").iterdir()) == []
    assert run(job, FakeTrials()).finished == 3


def test_time_that_is_not_over_ends_nothing(make_job):
    outcome = run(make_job(run=RunOptions(max_wall_sec=3600)), FakeTrials())
    assert (outcome.finished, outcome.stopped, outcome.reason) == (3, "complete", None)


NEVER_CALLED = TrialWarning(code="no_model_call", message="it never called")


def test_a_job_whose_agent_never_really_runs_stops_and_says_how_to_go_on(make_job):
    job = make_job(attempts=4, run=RunOptions(concurrent=1))
    dead, watcher = FakeTrials(lambda spec, _: record_for(spec, warnings=(NEVER_CALLED,))), Watcher()
    outcome = run(job, dead, watcher)
    assert (outcome.stopped, outcome.started, len(job.store.finished())) == ("agent warnings", 3, 3)
    assert f"seatrial resume {job.store.path} --retry-warned" in (outcome.reason or "")
    (told,) = watcher.of(Notice)
    assert (told.urgent, "it never called" in told.text) == (True, True)


def test_a_job_that_is_to_keep_going_does(make_job):
    job = make_job(run=RunOptions(concurrent=1, keep_going=True))
    outcome = run(job, FakeTrials(lambda spec, _: record_for(spec, warnings=(NEVER_CALLED,))))
    assert (outcome.stopped, outcome.finished) == ("complete", 3)


def test_never_more_at_once_than_asked_for(make_job):
    running, most = set(), []

    async def trial(spec, folder, observe):
        running.add(spec.trial_id)
        most.append(len(running))
        await asyncio.sleep(0)
        running.remove(spec.trial_id)
        return record_for(spec)

    job = make_job(attempts=5, run=RunOptions(concurrent=3))
    asyncio.run(carry_out_here(job, trial))
    assert max(most) == 3
    assert len(job.store.finished()) == 15


@pytest.mark.parametrize(
    "toml",
    [
        "[environment]\nmemory_mb = 600\n",
        '[environment]\nmemory_mb = 300\n[verifier]\nenvironment_mode = "separate"\n',
        "[environment]\nmemory_mb = 100\n[verifier.environment]\nmemory_mb = 500\n",
    ],
    ids=["one sandbox", "two alike", "two"],
)
def test_tasks_that_together_need_too_much_memory_take_turns(make_job, make_task, monkeypatch, toml):
    monkeypatch.setattr("tests.jobs.samples.machine_memory_mb", lambda: 1000)
    for name in ("add", "merge", "sort"):
        make_task(f"tasks/{name}", toml=toml)
    running, most = set(), []

    async def trial(spec, folder, observe):
        running.add(spec.trial_id)
        most.append(len(running))
        await asyncio.sleep(0)
        running.remove(spec.trial_id)
        return record_for(spec)

    job = make_job(run=RunOptions(concurrent=3))
    asyncio.run(carry_out_here(job, trial))
    assert max(most) == 1


def test_no_more_tasks_of_asyncio_than_trials_that_may_run(make_job):
    most = []

    async def trial(spec, folder, observe):
        most.append(len(asyncio.all_tasks()))
        await asyncio.sleep(0)
        return record_for(spec)

    job = make_job(attempts=100, run=RunOptions(concurrent=4))
    asyncio.run(carry_out_here(job, trial))
    assert max(most) <= 4 + 3  # the run, the work, and who waits for its time to be over


def test_results_that_cannot_be_stored_end_the_run_with_the_reason(make_job):
    job = make_job(attempts=20, run=RunOptions(concurrent=2))
    torn_down: list[str] = []

    async def trial(spec, folder: Path, observe):
        if spec.trial_id == "merge.noop.2":
            (folder / "record.json").mkdir()  # the record cannot be written over it
            return record_for(spec)
        if spec.trial_id == "sort.noop.2":
            try:
                await asyncio.Event().wait()
            finally:
                torn_down.append(spec.trial_id)
        return record_for(spec)

    with pytest.raises(StoreError, match="File exists"):
        asyncio.run(carry_out_here(job, trial))
    assert torn_down in ([], ["sort.noop.2"])
    assert 0 < len(job.store.finished()) < 20
    assert list((job.store.path / ".drafts").iterdir()) == []
    run(job, FakeTrials())
    assert len(job.store.finished()) == 60


def test_a_full_disk_ends_the_run_instead_of_failing_every_trial(make_job):
    def act(spec, _):
        if spec.attempt == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return record_for(spec)

    job = make_job(attempts=9, run=RunOptions(concurrent=2))
    with pytest.raises(StoreError, match="No space left on device; free some space, then resume"):
        run(job, FakeTrials(act))
    assert set(outcomes(job.store).values()) == {"pass"}
    run(job, FakeTrials())
    assert len(job.store.finished()) == 27


def test_a_disk_that_refuses_is_named_wherever_it_is(make_job):
    def act(spec, _):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), "/elsewhere/images/layer")

    with pytest.raises(StoreError, match=r"^/elsewhere/images/layer: .*Read-only file system"):
        run(make_job(), FakeTrials(act))


def test_an_error_whose_text_cannot_be_stored_is_stored_readable(make_job, caplog):
    def act(spec, _):
        raise FileNotFoundError(errno.ENOENT, "gone", "bad-\udcff-name")

    job = make_job()
    run(job, FakeTrials(act))
    assert {entry.failure for entry in job.store.entries()} == {"FileNotFoundError: [Errno 2] gone: 'bad-\\udcff-name'"}


def test_cancelled_trials_leave_nothing_and_can_be_run_again(make_job, caplog):
    job = make_job(run=RunOptions(concurrent=3))
    waiting, torn_down = asyncio.Event(), []

    async def trial(spec, folder, observe):
        if spec.task.id == "add":
            return record_for(spec)
        (folder / "half.txt").write_text("half")
        try:
            if spec.task.id == "sort":
                waiting.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            torn_down.append(spec.task.id)

    async def main():
        work = asyncio.create_task(carry_out_here(job, trial))
        await waiting.wait()
        while not job.store.finished():  # noqa: ASYNC110 - the writer's thread is on its way
            await asyncio.sleep(0.001)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert sorted(torn_down) == ["merge", "sort"]
    assert job.store.finished() == {"add.noop.1"}
    assert list((job.store.path / ".drafts").iterdir()) == []
    assert caplog.text == ""
    again = FakeTrials()
    run(job, again)
    assert sorted(again.ran) == ["merge.noop.1", "sort.noop.1"]


def test_a_trial_that_this_machine_had_no_room_for_is_tried_again_and_at_last_alone(make_job):
    seen: dict[str, list[str]] = {}

    def act(spec, tries):
        seen.setdefault(spec.trial_id, []).append(spec.company)
        full = Failure(phase="score", cause="HostExhaustedError", message="full", retryable=True)
        return record_for(spec, failure=full) if tries == 1 else record_for(spec)

    job = make_job(run=RunOptions(retries=1))
    run(job, FakeTrials(act))
    assert all(company == ["others", "none"] for company in seen.values())
    assert set(outcomes(job.store).values()) == {"pass"}


def failed(cause="SandboxError", phase="setup"):
    return record(evaluation=None, failure=Failure(phase=phase, cause=cause, message="no spawner", retryable=True))


def test_a_machine_that_starts_nothing_any_more_ends_the_job():
    breaker = Breaker()
    for _ in range(15):
        breaker.note(failed(), slots=8)
    with pytest.raises(SandboxError, match=r"16 trials in a row, last: no spawner.*--retry-failed"):
        breaker.note(failed(), slots=8)


@pytest.mark.parametrize(
    "other",
    [record(evaluation=evaluation(1.0)), failed(cause="AgentSetupError"), failed(phase="verify")],
    ids=["judged", "the task's fault", "later"],
)
def test_anything_else_shows_that_the_machine_works(other):
    breaker = Breaker()
    for _ in range(5):
        for _ in range(9):
            breaker.note(failed(), slots=1)
        breaker.note(other, slots=1)


def test_a_machine_that_has_no_room_for_anything_ends_the_job():
    breaker = Breaker()
    for _ in range(9):
        breaker.note(failed(cause="HostExhaustedError", phase="verify"), slots=1)
    with pytest.raises(HostExhaustedError, match=r"10 trials in a row had no room.*--retry-failed"):
        breaker.note(failed(cause="HostExhaustedError", phase="agent"), slots=1)


SILENT = TrialWarning(code="no_model_call", message="it never called")
OTHER = AgentOptions(name="noop", label="other")


def plans(count: int, agent: AgentOptions = NOOP) -> list[TrialPlan]:
    return plan_trials([f"t{number}" for number in range(count)], [agent], 1)


def ended(plan: TrialPlan, **changes) -> TrialRecord:
    return samples_record(plan.task_id, agent=plan.agent.title, **changes)


def verdicts(
    trials: list[TrialPlan], *ends: dict[str, Any], order: list[int] | None = None, resumed: bool = False
) -> list[bool]:
    """After which trials the job should stop, finished in a certain order."""
    watch = AgentWatch(trials, Path("job"), lambda _: None, resumed=resumed)
    return [
        bool(watch.note(trials[number], ended(trials[number], **ends[number]))) for number in order or range(len(ends))
    ]


DEAD: dict[str, Any] = {"warnings": (SILENT,)}
WELL: dict[str, Any] = {}
BROKEN: dict[str, Any] = {"failure": broken_machine()}


def test_three_of_many():
    assert verdicts(plans(9), DEAD, DEAD, DEAD) == [False, False, True]


def test_all_where_there_are_fewer():
    assert verdicts(plans(2), DEAD, DEAD) == [False, True]
    assert verdicts(plans(1), DEAD) == [True]


def test_one_that_ran_clears_the_agent_whenever_it_ends():
    assert verdicts(plans(9), DEAD, DEAD, WELL, DEAD, DEAD, DEAD) == [False] * 6


def test_the_first_to_start_decide_not_the_first_to_end():
    assert verdicts(plans(9), WELL, DEAD, DEAD, DEAD, order=[1, 2, 3, 0]) == [False] * 4
    assert verdicts(plans(9), DEAD, DEAD, DEAD, order=[2, 1, 0]) == [False, False, True]


def test_what_a_broken_machine_ended_is_passed_over():
    assert verdicts(plans(9), DEAD, BROKEN, DEAD, DEAD) == [False, False, False, True]
    assert verdicts(plans(2), BROKEN, BROKEN) == [False, False]


def test_the_few_that_were_left_of_a_job_decide_nothing():
    assert verdicts(plans(2), DEAD, DEAD, resumed=True) == [False, False]
    assert verdicts(plans(3), DEAD, DEAD, DEAD, resumed=True) == [False, False, True]


def test_agents_are_judged_apart_and_each_kind_of_warning_is_told_once():
    trials, watcher = [*plans(3), *plans(3, OTHER)], Watcher()
    watch = AgentWatch(trials, Path("job"), watcher)
    assert [bool(watch.note(plan, ended(plan, **DEAD))) for plan in trials[3:]] == [False, False, True]
    assert [bool(watch.note(plan, ended(plan))) for plan in trials[:3]] == [False] * 3
    (told,) = watcher.of(Notice)
    assert "agent 'other', no_model_call in t0.other.1: it never called" in told.text


def test_other_warnings_are_told_and_stop_nothing():
    odd = {"warnings": (TrialWarning(code="odd", message="hm"),)}
    assert verdicts(plans(3), odd, odd, odd) == [False] * 3
