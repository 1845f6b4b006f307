"""Silent verifiers: an agent that silenced one gets a 0 that counts, a broken one has no verdict for anybody."""

import asyncio
import errno
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from seatrial.errors import SandboxError
from seatrial.model.events import Notice
from seatrial.model.outcome import Outcome
from seatrial.sandbox.api import ExecResult, ExecSpec
from seatrial.testing.fake import ALL_POWERFUL, FakeBackend, FakeSandbox, answer
from seatrial.trial.events import Event, notices_once
from seatrial.trial.run import run_trial
from seatrial.trial.spec import Machinery
from tests.conftest import sampled
from tests.sandbox.embedded.support import needs_root
from tests.sandbox.host.fakes import FakeGauge, on_watch, shortage
from tests.trial.support import ANSWER, PYTHON_FILES, Desk, trial_spec, write_task

RIGHT = f"echo right > {ANSWER}"
REWARD = "/logs/verifier/reward.txt"
SOLUTION = {"solution/solve.sh": f"#!/bin/sh\n{RIGHT}\n"}
BROKEN = {"tests/test.sh": f"#!/bin/sh\ngrep -qx right {ANSWER}\n", **SOLUTION}
DECLARED = f'[output]\npath = "{ANSWER}"\n'
IMPATIENT = "[verifier]\ntimeout_sec = 1.0\n"
# It reads all of what the agent left before it says anything, as verifiers do.
READS_FIRST = {"tests/test.sh": f"#!/bin/sh\ntest -e {ANSWER} && cat {ANSWER} > /dev/null\necho 0 > {REWARD}\n"}
CRASHES_ON_JUNK = {"tests/test.sh": f"#!/bin/sh\nset -e\ntest ! -e /app/junk\necho 0 > {REWARD}\n"}


def notices(events: Sequence[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice)]


@needs_root
@pytest.mark.parametrize("toml", ["", DECLARED], ids=["inferred", "declared"])
def test_a_broken_verifier_has_no_verdict_for_anybody_and_is_named(desk: Desk, toml):
    root = write_task(desk.new_folder() / "task", toml=toml, files=BROKEN)
    for agent in ("oracle", RIGHT, None, "true"):
        ran = desk.run(root, agent)
        assert (ran.record.outcome, ran.reward, ran.run.baseline) == ("verifier_error", 0.0, "silent")
        assert "verifier_broken" in ran.tags
        (told,) = notices(ran.events)
        assert told.startswith("task: the verifier gives no verdict even where no agent has been; ")
        assert "--verdict exit_status" in told
    assert desk.run(root, "oracle", verdict="exit_status").record.outcome == "pass"


@needs_root
@pytest.mark.parametrize(
    ("files", "toml", "agent"),
    [
        (CRASHES_ON_JUNK, "", "touch /app/junk"),
        (READS_FIRST, IMPATIENT, f"mkfifo {ANSWER}"),
    ],
    ids=["crash", "time-out"],
)
def test_an_agent_that_silences_the_verifier_gets_a_zero_that_counts(desk: Desk, files, toml, agent):
    ran = desk.attack(agent, files=files, toml=toml)
    assert (ran.record.outcome in ("fail", "no_output", "invalid_output"), ran.reward) == (True, 0.0)
    assert ran.run.baseline == "judged"
    assert not ran.evaluation.validity.verifier_completed
    if ran.run.timed_out:
        assert "verifier_silenced" not in ran.tags
        (said,) = (line for line in ran.evaluation.validity.errors if line.startswith("verifier_timeout: "))
        assert re.search(
            r"it had 1\.\d s with 0\.\d s of processor time.* judges the untouched environment in 0\.", said
        )
        assert [warning.code for warning in ran.record.warnings] == ["verifier_timeout"]
    else:
        assert "verifier_silenced" in ran.tags
        assert any("judges the untouched environment" in line for line in ran.evaluation.validity.errors)
    assert notices(ran.events) == []
    assert ran.text("baseline/verifier/files/reward.txt") == "0\n"


@needs_root
@pytest.mark.parametrize("agent", sampled(["rm -rf /usr/bin/* /bin/*", "rm -f /usr/bin/python3* /usr/bin/grep"]))
@pytest.mark.parametrize("isolation", sampled(["guarded", "kill"]))
def test_an_agent_that_deletes_the_verifier_s_tools_does_not_leave_the_mean(desk: Desk, agent, isolation):
    ran = desk.attack(agent, files=PYTHON_FILES, isolation=isolation)
    assert (ran.record.outcome, ran.reward) == ("no_output", 0.0)
    assert ran.run.baseline is None or "verifier_silenced" in ran.tags


@needs_root
@pytest.mark.parametrize("said", sampled(["nan", "93", "-1", "word"]))
def test_an_agent_does_not_leave_the_mean_by_a_reward_that_is_none(desk: Desk, said):
    """Where nothing was done, the verifier judges; so what it says otherwise is the agent's doing."""
    test = f"#!/bin/sh\nif [ -e {ANSWER} ]; then cat {ANSWER}; else echo 0; fi > {REWARD}\n"
    ran = desk.attack(f"echo {said} > {ANSWER}", files={"tests/test.sh": test})
    assert (ran.record.outcome, ran.reward, ran.run.baseline) == ("fail", 0.0, "judged")
    assert "verifier_silenced" in ran.tags


@needs_root
def test_a_later_step_is_asked_where_no_step_was_worked_on(desk: Desk):
    toml = '[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n'
    files = {
        "steps/one/instruction.md": "One.\n",
        "steps/two/instruction.md": "Two.\n",
        "steps/one/tests/test.sh": f"#!/bin/sh\necho 1 > {REWARD}\n",
        "steps/two/workdir/given.txt": "given\n",
        "steps/two/tests/test.sh": f"#!/bin/sh\nset -e\ncat /app/given.txt\necho 0 > {REWARD}\n",
    }
    spoil = 'case "$(cat /task/instruction.md)" in Two*) rm /app/given.txt;; esac'
    root = write_task(desk.new_folder() / "task", toml=toml, files=files, instruction=None)
    ran = desk.run(root, spoil)
    assert [step.verifier_run and step.verifier_run.baseline for step in ran.record.steps] == [None, "judged"]
    assert (ran.record.outcome, ran.reward) == ("fail", 0.5)
    assert "verifier_silenced" in ran.tags


@needs_root
def test_a_later_step_that_cannot_begin_without_the_earlier_ones_has_no_verdict(desk: Desk):
    toml = '[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n'
    files = {
        "steps/one/instruction.md": "One.\n",
        "steps/two/instruction.md": "Two.\n",
        "steps/one/tests/test.sh": f"#!/bin/sh\necho 1 > {REWARD}\n",
        "steps/two/workdir/setup.sh": "#!/bin/sh\ntest -e /app/made\n",
        "steps/two/tests/test.sh": "#!/bin/sh\n",
    }
    root = write_task(desk.new_folder() / "task", toml=toml, files=files, instruction=None)
    ran = desk.run(root, "touch /app/made")
    assert (ran.record.outcome, ran.run.baseline) == ("verifier_error", "silent")
    (told,) = notices(ran.events)
    assert told.startswith("task, step two: ")


class SilentAfterWork:
    """An agent that writes its answer, and a verifier that says nothing where there is one; it counts its runs."""

    def __init__(self) -> None:
        self.judged = 0

    async def __call__(self, spec: ExecSpec, sandbox: FakeSandbox) -> ExecResult:
        await asyncio.sleep(0)
        if spec.phase != "verifier":
            sandbox.files[ANSWER] = b"x"
        elif ANSWER not in sandbox.files:
            self.judged += 1
            sandbox.files[REWARD] = b"0"
        return answer()


def test_trials_that_run_side_by_side_share_one_baseline(tmp_path):
    verifier = SilentAfterWork()
    backend = FakeBackend(verifier)
    spec = trial_spec(write_task(tmp_path / "task"), "work")

    async def run() -> list[Outcome]:
        async with asyncio.TaskGroup() as group:
            folders = [tmp_path / str(number) for number in range(5)]
            for folder in folders:
                folder.mkdir()
            trials = [group.create_task(run_trial(spec, Machinery(backend), folder)) for folder in folders]
        later = await run_trial(spec, Machinery(backend), tmp_path / "0")
        return [trial.result().outcome for trial in trials] + [later.outcome]

    assert asyncio.run(run()) == ["fail"] * 6
    assert (verifier.judged, len(backend.sandboxes)) == (1, 7)
    assert all(sandbox.destroyed for sandbox in backend.sandboxes)


def test_other_tests_or_options_are_another_question(tmp_path):
    verifier = SilentAfterWork()
    backend = FakeBackend(verifier)
    root = write_task(tmp_path / "task")

    async def run() -> None:
        await run_trial(trial_spec(root, "work"), Machinery(backend), tmp_path)
        await run_trial(trial_spec(root, "work", verifier_timeout_multiplier=2.0), Machinery(backend), tmp_path)
        (root / "tests/test.sh").write_text("#!/bin/sh\n")
        await run_trial(trial_spec(root, "work"), Machinery(backend), tmp_path)

    asyncio.run(run())
    assert verifier.judged == 3


def test_a_baseline_that_the_machinery_fails_is_a_failure_and_no_score(tmp_path):
    verifier = SilentAfterWork()
    backend = FakeBackend(verifier)
    create, made = backend.create, []

    async def fail_the_second(spec):
        made.append(spec)
        if len(made) == 2:
            raise SandboxError("no room")
        return await create(spec)

    backend.create = fail_the_second  # type: ignore[method-assign]
    spec = trial_spec(write_task(tmp_path / "task"), "work")

    async def run() -> list[Outcome]:
        return [(await run_trial(spec, Machinery(backend), tmp_path)).outcome for _ in range(2)]

    assert asyncio.run(run()) == ["infrastructure_error", "fail"]


def test_a_notice_is_told_once():
    told: list[Event] = []
    observe = notices_once(told.append)
    for text in ("a", "b", "a"):
        observe(Notice(text))
    assert told == [Notice("a"), Notice("b")]


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
