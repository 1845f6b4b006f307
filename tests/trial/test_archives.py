"""What is packed for sandboxes is kept as long as it stays the same."""

import io
import tarfile

import pytest

from seatrial.errors import TaskFormatError
from seatrial.trial.rounds import Round
from seatrial.trial.setup import packed_for_agent, packed_tests
from tests.trial.support import trial_spec


def packed(spec, folder):
    archive = packed_for_agent(spec, Round(spec.task), {"/brought": folder})
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        file = tar.extractfile("brought/file")
        assert file is not None
        return file.read()


def test_a_tasks_own_files_are_packed_once_and_what_an_agent_brings_each_time(make_task, tmp_path):
    root = make_task("task", files={"solution/file": "old"})
    spec, outside = trial_spec(root), tmp_path / "tools"
    outside.mkdir()
    (outside / "file").write_bytes(b"old")
    assert packed(spec, root / "solution") == packed(spec, outside) == b"old"
    (outside / "file").write_bytes(b"new")
    assert packed(spec, outside) == b"new"
    (root / "solution/file").write_bytes(b"new")
    # What was packed while the task had its digest is still what the record says.
    assert packed(spec, root / "solution") == b"old"


def test_a_task_that_has_changed_since_its_job_began_is_judged_by_nothing_else(make_task):
    spec = trial_spec(make_task("task", files={"tests/test.sh": "exit 0"}))
    (spec.task.root / "tests/test.sh").write_text("echo 0 > /logs/verifier/reward.txt")
    with pytest.raises(TaskFormatError, match="has changed since the job began"):
        packed_tests(spec.task_digest, Round(spec.task))


def test_what_a_verifier_does_not_look_at_is_not_told_to_agents(make_task):
    spec = trial_spec(make_task("task", toml="[agent]\ntimeout_sec = 9.0\n\n[check]\naccept = ['V2/*']\n"))
    archive = packed_for_agent(spec, Round(spec.task), {})
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        file = tar.extractfile("task/task.toml")
        assert file is not None
        assert file.read() == b"[agent]\ntimeout_sec = 9.0\n\n"
