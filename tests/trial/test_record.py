"""What a record says about a trial: times, changes, what the verdict rests on, what was kept."""

import hashlib
import tarfile
from itertools import pairwise

import pytest
import zstandard

from seatrial.model.base import to_json
from seatrial.model.record import KeptState, TrialRecord
from seatrial.tasks.layout import digest_folder
from seatrial.tasks.load import load_dataset
from seatrial.trial.events import PhaseStarted
from tests.conftest import REPOSITORY, sampled
from tests.sandbox.embedded.support import needs_python, needs_root
from tests.trial.support import ANSWER, PYTHON_FILES, write_task

pytestmark = [needs_root, needs_python]

EXAMPLES = {task.id: task for task in load_dataset(REPOSITORY / "examples" / "tasks").tasks}
PHASES = ["setup", "setup", "agent", "collect", "verify", "score"]


def test_a_trial_has_times_and_events_of_every_phase(desk):
    ran = desk.attack(f"echo right > {ANSWER}")
    times = ran.record.times
    assert [time.phase for time in times] == PHASES
    assert [event.phase for event in ran.events if isinstance(event, PhaseStarted)] == PHASES
    assert all(earlier.finished_at <= later.started_at for earlier, later in pairwise(times))


def test_a_record_survives_being_written_and_read(desk):
    record = desk.attack(f"echo right > {ANSWER}").record
    assert TrialRecord.model_validate_json(to_json(record)) == record


def test_changes_are_those_of_the_agent_and_nobody_else(desk, tmp_path):
    files = {"environment/in.txt": "a", "environment/keep.txt": "a", "environment/gone.txt": "a", **PYTHON_FILES}
    command = (
        f"echo b >> in.txt; rm gone.txt; echo right > {ANSWER}; echo x >> /etc/hostname; echo x >> /task/task.toml"
    )
    ran = desk.run(write_task(tmp_path / "task", files=files), command)
    touched = {*ran.changes.added, *ran.changes.modified}
    assert touched == {ANSWER, "/app/in.txt", "/etc/hostname", "/task/task.toml"}
    assert {"/etc/hostname", "/app/in.txt"} <= {*ran.changes.modified}
    counts = ran.record.changes
    assert counts is not None
    assert counts.added + counts.modified == len(touched)


def test_a_record_names_what_its_reward_rests_on(desk, tmp_path):
    root = write_task(tmp_path / "task", files=PYTHON_FILES)
    ran = desk.run(root, f"echo right > {ANSWER}")
    said = (ran.folder / "verifier/files/reward.json").read_bytes()
    assert ran.provenance.tests_digest == digest_folder(root / "tests")
    assert ran.provenance.reward_file == "reward.json"
    assert ran.provenance.reward_sha256 == hashlib.sha256(said).hexdigest()
    assert ran.record.task.digest == digest_folder(root)
    assert (ran.record.sandbox.backend, ran.record.sandbox.image) == ("embedded", "host")
    assert not ran.record.sandbox.reproducible


def test_resources_are_counted(desk):
    used = desk.attack(
        "head -c 5000000 /dev/zero > /app/big; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"
    ).record.resources
    assert used is not None
    assert used.cpu_sec
    assert used.peak_memory_bytes
    assert (used.disk_bytes or 0) >= 5_000_000
    assert used.oom_kills == 0


def test_a_snapshot_is_kept_unless_nobody_wants_it(desk):
    ran = desk.attack(f"echo right > {ANSWER}")
    archive = ran.folder / "snapshot.tar.zst"
    with zstandard.open(archive, "rb") as packed, tarfile.open(fileobj=packed, mode="r|") as tar:
        names = {member.name.removeprefix("./") for member in tar}
    assert ANSWER.lstrip("/") in names
    assert not [name for name in names if "test.sh" in name or "reward" in name]
    assert ran.record.end_state == KeptState(kept=True, size=archive.stat().st_size)
    without = desk.attack(f"echo right > {ANSWER}", keep="record")
    assert not (without.folder / "snapshot.tar.zst").exists()
    assert without.record.end_state == KeptState(kept=False, reason="the run said --keep record")


@pytest.mark.parametrize("task", sampled(EXAMPLES.values()), ids=EXAMPLES)
def test_examples_give_everything_to_the_oracle_and_name_its_output(desk, task):
    ran = desk.run(task.root, "oracle")
    assert (ran.reward, ran.record.outcome, ran.agent.exit_code) == (1.0, "pass", 0)
    assert task.output.path in ran.changes.added
    assert ran.tags <= {"processes_left_running"}


@pytest.mark.parametrize("task", sampled(EXAMPLES.values()), ids=EXAMPLES)
def test_examples_give_nothing_to_whoever_does_nothing(desk, task):
    ran = desk.run(task.root, None)
    assert (ran.reward, ran.record.outcome) == (0.0, "no_output")
    assert (ran.changes.added, ran.changes.modified, ran.changes.removed) == ((), (), ())
