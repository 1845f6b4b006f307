"""A trial on a machine that is out of something is void, unless its reward is full or it took the thing itself."""

import asyncio
import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from seatrial.errors import SandboxError
from seatrial.sandbox.api import ExecResult, ExecSpec
from seatrial.testing.fake import ALL_POWERFUL, FakeBackend, FakeSandbox, answer
from seatrial.trial.machinery import Machinery
from seatrial.trial.run import run_trial
from tests.sandbox.host.fakes import FakeGauge, on_watch, shortage
from tests.trial.support import ANSWER, trial_spec, write_task

REWARD = "/logs/verifier/reward.txt"


def run(tmp_path, reward, *, during="agent", wrote=0, fail_on=None):
    """The record of a trial during whose phase the disk is short; it wrote so much of the 1000 bytes there are."""
    gauge = FakeGauge()

    async def act(spec: ExecSpec, sandbox: FakeSandbox) -> ExecResult:
        if spec.phase == during:
            gauge.found = shortage()
        if spec.phase == "agent":
            sandbox.files[ANSWER] = b"x" * wrote
        elif reward is not None:
            sandbox.files[REWARD] = reward
        return answer()

    capabilities = replace(ALL_POWERFUL, state_folders=(tmp_path,))
    backend = FakeBackend(act, fail_on=fail_on, capabilities=capabilities)

    async def scene():
        watch = on_watch(gauge)
        record = await run_trial(trial_spec(write_task(tmp_path / "task"), "work"), Machinery(backend), tmp_path)
        assert not watch._inside
        return record

    record = asyncio.run(asyncio.wait_for(scene(), 20))
    assert all(sandbox.destroyed for sandbox in backend.sandboxes)
    return record


@pytest.mark.parametrize("during", ["agent", "verifier"])
@pytest.mark.parametrize("reward", [b"0", b"0.5", None], ids=["a zero", "a half", "silence"])
def test_less_than_a_full_reward_is_void(tmp_path, during, reward):
    record = run(tmp_path, reward, during=during)
    assert (record.outcome, record.evaluation) == ("infrastructure_error", None)
    assert record.failure.cause == "HostExhaustedError"
    assert record.failure.retryable
    assert record.failure.message.startswith("the disk at /full is short; the trials that run have ")


def test_a_full_reward_stands(tmp_path):
    assert run(tmp_path, b"1").outcome == "pass"


@pytest.mark.parametrize("reward", [b"0", b"0.5"])
def test_whoever_took_it_is_judged_and_tagged(tmp_path, reward):
    record = run(tmp_path, reward, wrote=900)
    assert record.evaluation.reward == float(reward)
    assert "host_exhausted_by_agent" in {tag.category for tag in record.evaluation.error_taxonomy}


def test_whoever_took_it_cannot_silence_its_verifier_by_that(tmp_path):
    record = run(tmp_path, None, wrote=900)
    assert (record.outcome, record.evaluation.reward) == ("fail", 0.0)
    assert record.verifier_run.baseline == "judged"


@pytest.mark.parametrize("method", ["changes", "renew_verifier"])
def test_nor_by_leaving_no_room_to_judge(tmp_path, method):
    record = run(tmp_path, b"1", wrote=900, fail_on={method: SandboxError("no room")})
    assert (record.outcome, record.evaluation.reward) == ("fail", 0.0)
    assert "no room to judge its work" in record.evaluation.validity.errors[0]


def test_what_fails_for_want_of_it_says_so_too(tmp_path):
    record = run(tmp_path, b"1", fail_on={"changes": SandboxError("cannot fork")})
    assert (record.failure.cause, record.failure.phase) == ("HostExhaustedError", "collect")
    assert record.failure.message.endswith("what failed for it: cannot fork")


def test_a_file_of_ours_that_finds_no_room_is_no_bug_of_ours(tmp_path, monkeypatch):
    real = Path.write_bytes

    def full(path: Path, content: bytes) -> int:
        if path.name == "changes.json":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(path, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    record = run(tmp_path, b"1", during="nobody")
    assert (record.failure.cause, record.failure.phase) == ("HostExhaustedError", "collect")
    assert "No space left" in record.failure.message


def test_a_silent_verifier_is_not_taken_for_broken_by_a_full_machine(tmp_path):
    """The answer would hold for all later trials of the task."""
    gauge = FakeGauge()

    async def act(spec: ExecSpec, sandbox: FakeSandbox) -> ExecResult:
        if spec.phase == "verifier" and not gauge.found and len(backend.sandboxes) == 2:
            gauge.found = shortage()  # while the untouched environment is asked
        return answer()

    backend = FakeBackend(act)

    async def scene():
        on_watch(gauge)
        spec = trial_spec(write_task(tmp_path / "task"), "work")
        first = await run_trial(spec, Machinery(backend), tmp_path / "first")
        gauge.found = None
        second = await run_trial(spec, Machinery(backend), tmp_path / "second")
        return first, second, len(backend.sandboxes)

    first, second, made = asyncio.run(asyncio.wait_for(scene(), 20))
    assert first.failure.cause == "HostExhaustedError"
    assert (second.outcome, made) == ("verifier_error", 4)
