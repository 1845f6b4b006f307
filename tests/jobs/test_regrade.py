"""Regrades of a job: gone on with by the same command, one revision per trial, and nothing lost on the way."""

import asyncio
import itertools
from pathlib import Path

import pytest

from seatrial.errors import JobError, SandboxError, UsageError
from seatrial.jobs import regrade as module
from seatrial.jobs.api import regrade_job
from seatrial.jobs.regrade import RegradeOutcome, run_regrade
from seatrial.jobs.regrade_plan import RegradeOptions, prepare_regrade
from seatrial.model.base import to_json
from seatrial.model.job import JobSpec
from seatrial.model.record import Provenance
from seatrial.store.job_store import JobStore
from seatrial.trial.events import Event, TrialPassedOver, TrialRetried
from seatrial.trial.regrade import RegradeSpec
from tests.jobs.regrading import FakeRegrades, finish_job
from tests.jobs.samples import DIGEST, record

pytestmark = pytest.mark.usefixtures("null_sandboxes")
IDS = ["add.noop.1", "merge.noop.1", "sort.noop.1"]


@pytest.fixture
def fake(monkeypatch) -> FakeRegrades:
    made = FakeRegrades()
    monkeypatch.setattr(module, "regrade_trial", made)
    return made


@pytest.fixture
def job(spec: JobSpec, tmp_path: Path) -> Path:
    """A finished job, all of whose trials passed."""
    return finish_job(spec, tmp_path / "job")


def regrade(job: Path, seen: list[Event] | None = None, **asked) -> RegradeOutcome:
    options = RegradeOptions(**{"concurrent": 1, **asked})
    return asyncio.run(run_regrade(prepare_regrade(job, options), (seen if seen is not None else []).append))


def rewards(job: Path) -> dict[str, tuple[float | None, int]]:
    return {entry.trial_id: (entry.reward, entry.revision) for entry in JobStore.open(job).entries()}


def test_every_trial_gets_a_revision(fake, job):
    assert regrade_job(job).regraded == 3
    assert sorted(fake.ids) == IDS
    assert set(rewards(job).values()) == {(0.5, 1)}
    assert not (job / "regrade.json").exists()
    assert regrade(job).regraded == 3
    assert set(rewards(job).values()) == {(0.5, 2)}
    assert {each.parent for each in fake.asked[3:]} == {f"{trial}.1" for trial in IDS}


def test_only_some_trials(fake, job):
    assert regrade(job, trials=["sort.noop.1"]).regraded == 1
    assert rewards(job)["sort.noop.1"] == (0.5, 1)
    with pytest.raises(JobError, match="no finished trial to judge again"):
        regrade(job, trials=["other"])


def test_the_same_command_goes_on_after_an_interruption(fake, job):
    interrupt(fake, job)
    assert sorted(value for _, value in rewards(job).values()) == [0, 0, 1]
    fake.act = lambda _: 0.25
    prepared = prepare_regrade(job, RegradeOptions(concurrent=1))
    assert [entry.revision for entry in prepared.earlier] == [1]
    assert asyncio.run(run_regrade(prepared)).regraded == 3
    assert sorted(rewards(job).values()) == [(0.25, 1), (0.25, 1), (0.5, 1)]
    assert len({each.id for each in fake.asked}) == 1
    assert list((job / ".drafts").iterdir()) == []


def interrupt(fake: FakeRegrades, job: Path) -> None:
    """A regrade that is told to stop while it judges its second trial."""

    async def play() -> None:
        task = asyncio.current_task()
        assert task is not None
        fake.stop = task.cancel
        await run_regrade(prepare_regrade(job, RegradeOptions(concurrent=1)))

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(play())
    fake.stop = None


@pytest.mark.parametrize("change", ["tests", "options", "trials"])
def test_another_regrade_does_not_go_on_with_an_interrupted_one(fake, job, tasks, change):
    interrupt(fake, job)
    others = RegradeOptions(changes={"trust": "as_left"}), RegradeOptions(trials=IDS[:2])
    asked = {"options": others[0], "trials": others[1]}.get(change, RegradeOptions())
    if change == "tests":
        (tasks / "add/tests/test.sh").write_text("exit 1\n")
    prepared = prepare_regrade(job, asked)
    assert (prepared.earlier, len(prepared.trials)) == ([], 2 if change == "trials" else 3)
    assert any("is not gone on with" in notice for notice in prepared.notices)


def test_a_machine_that_fails_makes_no_revision_and_is_tried_again(fake, job):
    calls = itertools.count()

    def act(_: RegradeSpec) -> float:
        if next(calls) == 0:
            raise SandboxError("no room")
        return 0.5

    seen: list[Event] = []
    fake.act = act
    assert regrade(job, seen, trials=IDS[:1]).passed_over == ()
    assert [type(event) for event in seen].count(TrialRetried) == 1
    stored = JobStore.open(job).record(IDS[0])
    assert (stored.revision, stored.tries) == (1, 1)
    assert list((job / "tries").iterdir()) == []


def test_one_that_the_machine_keeps_failing_keeps_its_verdict_and_is_tried_again_next_time(fake, job):
    def act(asked: RegradeSpec) -> float:
        if asked.spec.trial_id == IDS[0]:
            raise SandboxError("still no room")
        return 0.5

    fake.act = act
    store = JobStore.open(job)
    store.update(store.file.model_copy(update={"spec": _without_retries(store.file.spec)}))
    (left,) = regrade(job).passed_over
    assert (left.trial_id, left.reason, left.failed) == (IDS[0], "still no room", True)
    assert rewards(job)[IDS[0]] == (1.0, 0)
    asked_before = len(fake.asked)
    fake.act = lambda _: 0.25
    assert regrade(job).regraded == 3
    assert fake.ids[asked_before:] == [IDS[0]]
    assert not (job / "regrade.json").exists()


def _without_retries(spec: JobSpec) -> JobSpec:
    return spec.model_copy(update={"run": spec.run.model_copy(update={"retries": 0})})


def test_what_cannot_be_judged_is_passed_over_and_said_and_the_others_are_judged(fake, job):
    def act(asked: RegradeSpec) -> float:
        if asked.spec.trial_id == IDS[1]:
            raise UsageError(f"{IDS[1]}: no end state was kept")
        return 0.5

    seen: list[Event] = []
    fake.act = act
    outcome = regrade(job, seen)
    assert (outcome.regraded, [(each.reason, each.failed) for each in outcome.passed_over]) == (
        2,
        [("no end state was kept", False)],
    )
    assert TrialPassedOver(IDS[1], "no end state was kept") in seen
    assert not (job / "regrade.json").exists()


def test_only_trials_that_rest_on_other_tests(fake, job, tasks):
    assert prepare_regrade(job, RegradeOptions(only_changed=True)).trials == []
    (tasks / "add/tests/test.sh").write_text("exit 1\n")
    prepared = prepare_regrade(job, RegradeOptions(only_changed=True))
    assert [entry.trial_id for entry in prepared.trials] == ["add.noop.1"]
    assert prepared.notices == ["task add: its files have changed since the job began, among them its tests"]
    (tasks / "sort/instruction.md").write_text("Do something else.\n")
    assert prepare_regrade(job, RegradeOptions(only_changed=True)).notices[1:] == [
        "task sort: its files have changed since the job began, though not its tests"
    ]


def test_the_options_of_the_verification_may_be_others(fake, job):
    regrade(job, changes={"pass_threshold": 0.5})
    assert {each.spec.options.pass_threshold for each in fake.asked} == {0.5}
    assert fake.asked[0].options == {"pass_threshold": 0.5}


def test_somebody_elses_job_is_asked_about_first(fake, job):
    (job / "job.seal").unlink()
    with pytest.raises(JobError, match=r"(?s)was not made by you .*`seatrial regrade .* --trust-job`"):
        regrade(job)
    prepare_regrade(job, RegradeOptions(), trust_job=True)
    assert regrade(job).regraded == 3


def test_rollouts_of_an_environment_are_not_judged_by_their_verifiers_alone(fake, job):
    store = JobStore.open(job)
    store.update(store.file.model_copy(update={"driver": "environment"}))
    with pytest.raises(JobError, match="rollouts of an environment"):
        regrade(job)


def test_one_at_a_time(fake, job):
    with JobStore.open(job).lock(), pytest.raises(JobError, match="another run"):
        regrade(job)


def test_a_file_that_is_no_regrade_is_no_reason_to_stop(fake, job):
    (job / "regrade.json").write_text("{")
    assert regrade(job).regraded == 3


def test_a_trial_whose_own_record_is_gone_is_passed_over(fake, job):
    regrade(job)
    damaged = job / f"trials/{IDS[0]}/record.json"
    damaged.write_bytes(to_json(record(provenance=Provenance(tests_digest=DIGEST)))[:-20])
    (left,) = regrade(job).passed_over
    assert (left.trial_id, "does not count" in left.reason) == (IDS[0], True)
