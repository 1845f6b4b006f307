"""When the machinery fails, the record says where and why, and there is no reward. On a fake that fails on demand."""

import asyncio

import pytest

from seatrial.errors import HostUnsupportedError, SandboxError
from seatrial.sandbox.api import ExecResult, ExecSpec
from seatrial.testing.fake import FakeBackend, FakeSandbox, answer
from seatrial.trial.events import PhaseStarted
from seatrial.trial.run import run_trial
from seatrial.trial.spec import Machinery
from tests.trial.support import ANSWER, trial_spec, write_task


def honest(spec: ExecSpec, sandbox: FakeSandbox) -> ExecResult:
    """An agent that answers, and a verifier that is content."""
    path, content = ("/logs/verifier/reward.txt", b"1") if spec.phase == "verifier" else (ANSWER, b"right")
    sandbox.files[path] = content
    return answer()


@pytest.mark.parametrize(
    ("method", "error", "phase", "retryable"),
    [
        ("probe", HostUnsupportedError("no namespaces here"), "setup", False),
        ("create", HostUnsupportedError("no such limit"), "setup", False),
        ("create", SandboxError("it did not come up"), "setup", True),
        ("put", SandboxError("the disk is full"), "setup", True),
        ("exec", SandboxError("it died"), "agent", True),
        ("processes", SandboxError("it died"), "collect", True),
        ("changes", SandboxError("it died"), "collect", True),
        ("get", SandboxError("it died"), "collect", True),
        ("renew_verifier", SandboxError("it died"), "verify", True),
    ],
)
def test_a_failure_is_recorded_with_phase_and_cause_and_never_as_a_reward(tmp_path, method, error, phase, retryable):
    backend = FakeBackend(honest, fail_on={method: error})
    spec = trial_spec(write_task(tmp_path / "task"), "work")
    record = asyncio.run(run_trial(spec, Machinery(backend), tmp_path))
    assert record.failure is not None
    assert (record.failure.phase, record.failure.cause) == (phase, type(error).__name__)
    assert record.failure.message == str(error)
    assert record.failure.retryable == retryable
    assert (record.evaluation, record.outcome) == (None, "infrastructure_error")
    assert all(sandbox.destroyed for sandbox in backend.sandboxes)
    assert [time.phase for time in record.times][-1] == phase


@pytest.mark.parametrize("method", ["usage", "snapshot", "destroy"])
def test_what_fails_after_the_verdict_changes_no_result(tmp_path, method):
    backend = FakeBackend(honest, fail_on={method: SandboxError("too late to matter")})
    spec = trial_spec(write_task(tmp_path / "task"), "work", keep="snapshot")
    record = asyncio.run(run_trial(spec, Machinery(backend), tmp_path))
    assert (record.failure, record.outcome) == (None, "pass")


@pytest.mark.parametrize("phase", ["setup", "agent", "collect", "verify", "score"])
def test_a_cancelled_trial_leaves_no_sandbox_and_no_record(tmp_path, phase):
    backend = FakeBackend(honest)
    spec = trial_spec(write_task(tmp_path / "task"), "work")

    async def cancel() -> None:
        task = asyncio.current_task()
        assert task is not None
        seen = []

        def watch(event: object) -> None:
            if isinstance(event, PhaseStarted):
                seen.append(event.phase)
                if event.phase == phase and (phase != "setup" or len(seen) == 2):
                    task.cancel()

        await run_trial(spec, Machinery(backend), tmp_path, watch)
        await asyncio.sleep(0)  # where a cancellation in the last phase arrives

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancel())
    assert [sandbox.journal[-1] for sandbox in backend.sandboxes] == ["destroy"]


@pytest.mark.parametrize("waiting", ["agent", "verifier"])
def test_a_trial_that_is_cancelled_while_it_waits_leaves_no_sandbox(tmp_path, waiting):
    started: list[asyncio.Event] = []

    async def hang(spec: ExecSpec, sandbox: FakeSandbox) -> ExecResult:
        if spec.phase == waiting:
            started[0].set()
            await asyncio.Event().wait()
        return honest(spec, sandbox)

    backend = FakeBackend(hang)
    spec = trial_spec(write_task(tmp_path / "task"), "work")

    async def cancel() -> None:
        started.append(asyncio.Event())
        trial = asyncio.ensure_future(run_trial(spec, Machinery(backend), tmp_path))
        await started[0].wait()
        trial.cancel()
        await trial

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancel())
    assert backend.sandboxes[0].journal[-1] == "destroy"


def test_a_separate_sandbox_goes_with_the_first_one(tmp_path):
    backend = FakeBackend(honest)
    spec = trial_spec(write_task(tmp_path / "task"), "work", isolation="separate")
    record = asyncio.run(run_trial(spec, Machinery(backend), tmp_path))
    assert (record.outcome, record.verifier_run and record.verifier_run.isolation) == ("pass", "separate")
    assert [sandbox.journal[-1] for sandbox in backend.sandboxes] == ["destroy", "destroy"]


def test_a_backend_that_cannot_keep_them_apart_says_so(tmp_path):
    record = asyncio.run(
        run_trial(trial_spec(write_task(tmp_path / "task"), "work"), Machinery(FakeBackend(honest)), tmp_path)
    )
    assert record.verifier_run is not None
    assert record.verifier_run.isolation == "exposed"


def test_a_bug_of_ours_is_not_taken_for_anybodys_failure(tmp_path):
    backend = FakeBackend(honest, fail_on={"changes": ZeroDivisionError()})
    with pytest.raises(ZeroDivisionError):
        asyncio.run(run_trial(trial_spec(write_task(tmp_path / "task"), "work"), Machinery(backend), tmp_path))
    assert backend.sandboxes[0].destroyed
