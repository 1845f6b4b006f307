"""`seatrial run` with an agent that cannot run: refused before it starts, or stopped after its first trials."""

import pytest

from seatrial.sandbox.api import ExecResult, ExecSpec
from seatrial.store.job_store import JobStore
from seatrial.testing.fake import FakeBackend, FakeSandbox, answer
from tests.backends.stand_ins import stand_in
from tests.cli.conftest import Seatrial
from tests.trial.support import write_task


class Machine:
    """Sandboxes in which the agent's program is there or not."""

    def __init__(self) -> None:
        self.installed = False

    def run(self, spec: ExecSpec, sandbox: FakeSandbox) -> ExecResult:
        if spec.phase == "verifier":
            sandbox.files["/logs/verifier/reward.txt"] = b"0"
            return answer()
        if "command -v" in spec.argv[2]:
            return answer("" if self.installed else "program")
        if spec.argv[2] == "my-agent" and not self.installed:
            return answer(stderr="/bin/sh: 1: my-agent: not found", exit_code=127)
        return answer()

    def backend(self) -> FakeBackend:
        return FakeBackend(self.run)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path) -> Machine:
    made = Machine()
    stand_in(monkeypatch, made.backend)
    for name in "abcde":
        write_task(tmp_path / "tasks" / name)
    return made


def test_a_program_that_is_not_there_is_told_before_anything_is_spent_and_leaves_nothing(
    seatrial: Seatrial, machine, tmp_path
):
    line = ("run", "-p", tmp_path / "tasks", "--image", "host", "--command", "my-agent", "-o", tmp_path / "job")
    refused = seatrial(*line)
    assert refused.code == 2
    assert "there is no program 'my-agent'" in refused.err
    assert "Nothing was run, and no job was made." in refused.err
    assert "resume" not in refused.err
    machine.installed = True
    assert seatrial(*line).code == 0


def test_a_job_that_was_stopped_by_its_agent_goes_on_as_its_message_says(seatrial: Seatrial, machine, tmp_path):
    job = tmp_path / "job"
    line = ("run", "-p", tmp_path / "tasks", "--image", "host", "--command", "my-agent", "-n", 1, "-o", job)
    stopped = seatrial(*line, "--no-preflight")
    assert stopped.code == 1
    assert "Warning: agent 'command', agent_not_started in a.command.1" in stopped.out
    assert f"seatrial resume {job} --retry-warned" in stopped.err
    assert [entry.warnings for entry in JobStore.open(job).entries()] == [("agent_not_started",)] * 3
    machine.installed = True
    again = seatrial("resume", job, "--retry-warned")
    assert (again.code, "running again: 3 trials in which the agent never really ran" in again.err) == (0, True)
    assert [entry.warnings for entry in JobStore.open(job).entries()] == [()] * 5
    assert len(list((job / "tries").iterdir())) == 3


def test_a_stopped_job_is_told_to_keep_going_when_it_is_resumed(seatrial: Seatrial, machine, tmp_path):
    job = tmp_path / "job"
    line = ("run", "-p", tmp_path / "tasks", "--image", "host", "--command", "my-agent", "-k", 2, "-n", 1, "-o", job)
    stopped = seatrial(*line, "--no-preflight")
    assert f"seatrial resume {job} --keep-going" in stopped.err
    assert seatrial("resume", job, "--no-preflight").code == 1
    again = seatrial("resume", job, "--no-preflight", "--keep-going")
    assert (again.code, len(JobStore.open(job).finished())) == (0, 10)


def test_a_job_that_is_told_to_keep_going_counts_them(seatrial: Seatrial, machine, tmp_path):
    line = ("run", "-p", tmp_path / "tasks", "--image", "host", "--command", "my-agent", "-o", tmp_path / "job")
    shown = seatrial(*line, "--no-preflight", "--keep-going")
    assert shown.code == 0
    assert len(JobStore.open(tmp_path / "job").finished()) == 5
