"""The job's folder: made once, opened or refused with the reason, one run at a time, records found again."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from seatrial.errors import JobError, StoreError
from seatrial.model.job import AgentOptions
from seatrial.model.record import TrialWarning
from seatrial.store.job_store import JobStore
from tests.jobs.samples import broken_machine, job_file, record


def keep(store: JobStore, *records, counts=True):
    for each in records:
        with store.draft(each.trial_id) as draft:
            draft.commit(each, counts=counts)


def test_what_is_created_can_be_opened(tmp_path):
    made = JobStore.create(tmp_path / "deep" / "job", job_file())
    assert JobStore.open(made.path).file == job_file()
    assert made.finished() == set()
    assert made.entries() == []


def test_a_second_job_in_the_same_folder_is_refused(store):
    with pytest.raises(JobError, match=f"seatrial resume {store.path}"):
        JobStore.create(store.path, job_file())


def test_a_folder_with_something_else_in_it_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(JobError, match=r"notes\.txt"):
        JobStore.create(tmp_path, job_file())
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_file_is_no_folder_for_a_job(tmp_path):
    (tmp_path / "job").write_text("")
    with pytest.raises(JobError, match="is a file"):
        JobStore.create(tmp_path / "job", job_file())


def test_what_a_crash_leaves_of_a_job_being_made_is_taken_over(tmp_path):
    for name in ("trials", "tries", ".drafts"):
        (tmp_path / name).mkdir()
    (tmp_path / ".job.json.new").write_text("{")
    JobStore.create(tmp_path, job_file())
    assert JobStore.open(tmp_path).file == job_file()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, r"no job\.json in it"),
        ("", "is not JSON"),
        ("[]", "the file"),
        ("[" * 100_000, "is not JSON"),
        ('{"schema_version": 2}', "has version 2, .* newer Seatrial"),
        ('{"schema_version": 1}', "seatrial_version: Field required"),
    ],
)
def test_a_job_that_cannot_be_read_says_why(tmp_path, content, reason):
    if content is not None:
        (tmp_path / "job.json").write_text(content)
    with pytest.raises(JobError, match=reason) as caught:
        JobStore.open(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_no_folder_at_all(tmp_path):
    with pytest.raises(JobError, match="no such folder"):
        JobStore.open(tmp_path / "nowhere")


def test_a_job_file_is_replaced_whole(store):
    store.update(job_file(("add", "sort", "merge")))
    assert [task.id for task in JobStore.open(store.path).file.tasks] == ["add", "sort", "merge"]
    assert not list(store.path.glob("*.new"))


def test_only_one_run_at_a_time(store):
    with store.lock():
        code = (
            "import sys; from pathlib import Path; from seatrial.store.job_store import JobStore\n"
            "with JobStore.open(Path(sys.argv[1])).lock(): pass"
        )
        other = subprocess.run(
            [sys.executable, "-c", code, str(store.path)], capture_output=True, text=True, check=False
        )
        assert f"another run (pid {os.getpid()})" in other.stderr
        with pytest.raises(JobError, match="another run"), JobStore.open(store.path).lock():
            pass
    with JobStore.open(store.path).lock():
        pass


def test_taking_the_lock_clears_what_a_crash_left(store):
    left = store.path / ".drafts" / "add.noop.1.abc" / "agent" / "closed"
    left.mkdir(parents=True)
    (left / "file").write_text("x")
    left.chmod(0)
    with store.lock():
        assert list((store.path / ".drafts").iterdir()) == []


def test_a_committed_trial_has_its_record_and_files(store):
    with store.draft("add.noop.1") as draft:
        (draft.path / "agent").mkdir()
        (draft.path / "agent" / "stdout.txt").write_text("hello")
        (draft.path / "agent" / "dangling").symlink_to("/nowhere")
        os.mkfifo(draft.path / "agent" / "pipe")
        draft.commit(record())
    assert store.finished() == {"add.noop.1"}
    assert store.record("add.noop.1") == record()
    assert (store.trial_folder("add.noop.1") / "agent" / "stdout.txt").read_text() == "hello"
    assert list((store.path / ".drafts").iterdir()) == []


def test_a_draft_that_is_not_committed_is_gone(store):
    with store.draft("add.noop.1") as draft:
        (draft.path / "half").write_text("x")
    assert store.finished() == set()
    assert not draft.path.exists()


def test_the_first_commit_wins(store):
    with store.draft("add.noop.1") as first, store.draft("add.noop.1") as second:
        first.commit(record())
        with pytest.raises(StoreError, match="has a record already"):
            second.commit(record(failure=broken_machine()))
    assert store.record("add.noop.1").outcome == "pass"
    assert list((store.path / ".drafts").iterdir()) == []


def test_a_record_of_another_trial_is_refused(store):
    with store.draft("add.noop.1") as draft, pytest.raises(StoreError, match=r"sort\.noop\.1"):
        draft.commit(record("sort"))
    assert store.finished() == set()


def test_a_try_that_does_not_count_is_kept_apart(store):
    for _ in range(2):
        keep(store, record(failure=broken_machine()), counts=False)
    assert store.finished() == set()
    assert store.entries() == []
    assert sorted(path.name for path in (store.path / "tries").iterdir()) == ["add.noop.1.1", "add.noop.1.2"]
    assert store.tries() == {"add.noop.1": 2}


def test_an_unknown_trial_is_answered_with_similar_ones(store):
    with pytest.raises(JobError, match="no finished trial yet"):
        store.record("add.noop.1")
    keep(store, record(), record("sort"))
    with pytest.raises(JobError, match=r"similar: sort\.noop\.1"):
        store.record("srot.noop.1")
    with pytest.raises(JobError, match=r"similar: add\.noop\.1"):
        store.record("add")


@pytest.mark.parametrize("name", ["", ".", "..", "../trials/add.noop.1", "add.noop.1/", "a\0b", "a" * 300])
def test_no_name_leads_out_of_the_folder(store, name):
    keep(store, record())
    with pytest.raises(JobError, match="there is no finished trial"):
        store.trial_folder(name)


def test_entries_are_those_of_the_records(store):
    keep(store, record("sort", failure=broken_machine(), tries=3), record())
    passed, failed = store.entries()
    assert (passed.trial_id, passed.task_id, passed.agent, passed.attempt) == ("add.noop.1", "add", "noop", 1)
    assert (passed.outcome, passed.reward, passed.duration_sec, passed.failure) == ("pass", 1.0, 2.5, None)
    assert passed.started_at == "2026-03-01T12:00:00+00:00"
    assert (failed.outcome, failed.reward, failed.tries) == ("infrastructure_error", None, 3)
    assert failed.failure == "SandboxError: no space left"


def test_entries_call_agents_as_the_job_does(tmp_path):
    agents = tuple(AgentOptions(name="noop", label=label) for label in ("one", "two"))
    store = JobStore.create(tmp_path / "job", job_file(agents=agents))
    keep(store, record(agent="one"), record(agent="two"))
    assert [entry.agent for entry in store.entries()] == ["one", "two"]


@pytest.mark.parametrize("damage", ["gone", "torn", "garbage", "unreadable"])
def test_entries_do_not_depend_on_the_index(store, damage):
    keep(store, record(), record("sort"))
    before = store.entries()
    index = store.path / "index.jsonl"
    lines = index.read_bytes()
    if damage == "unreadable":
        index.unlink()
        index.mkdir()
    else:
        index.write_bytes({"gone": b"", "torn": lines[:-9], "garbage": b"\xff\0[1]\n{}\n"}[damage])
    assert store.entries() == before
    with store.lock():
        keep(store, record(attempt=2))
    assert [entry.trial_id for entry in store.entries()] == ["add.noop.1", "add.noop.2", "sort.noop.1"]


def test_a_failed_trial_can_be_set_aside_and_run_again(store):
    keep(store, record(failure=broken_machine(), tries=2))
    store.set_aside("add.noop.1")
    assert store.finished() == set()
    assert store.entries() == []
    assert [path.name for path in (store.path / "tries").iterdir()] == ["add.noop.1.2"]
    keep(store, record(tries=3))
    assert [entry.outcome for entry in store.entries()] == ["pass"]


def test_a_stale_line_never_speaks_for_a_trial_that_was_run_again(store):
    keep(store, record(failure=broken_machine()))
    store.set_aside("add.noop.1")
    lines = (store.path / "index.jsonl").read_bytes()
    keep(store, record(tries=2))
    (store.path / "index.jsonl").write_bytes(lines)  # killed just before the new line was written
    assert [entry.outcome for entry in store.entries()] == ["pass"]


def test_a_result_is_never_set_aside(store):
    keep(store, record())
    with pytest.raises(JobError, match="ended as pass, which counts"):
        store.set_aside("add.noop.1")
    assert store.finished() == {"add.noop.1"}


def test_a_trial_whose_agent_never_really_ran_can_be_run_again_whatever_its_reward(store):
    keep(store, record(warnings=(TrialWarning(code="no_model_call", message="it never called"),)))
    (entry,) = store.entries()
    assert (entry.outcome, entry.warnings) == ("pass", ("no_model_call",))
    store.set_aside("add.noop.1")
    assert store.finished() == set()


def test_a_job_without_trials_can_be_taken_back(tmp_path):
    store = JobStore.create(tmp_path / "new", job_file())
    with store.lock():
        store.discard()
    assert not (tmp_path / "new").exists()


def test_a_job_with_a_trial_stays(store):
    keep(store, record())
    store.discard()
    assert JobStore.open(store.path).finished() == {"add.noop.1"}


def test_a_folder_that_cannot_be_made_is_named_with_the_reason():
    with pytest.raises(JobError, match="/proc/here: the job's folder cannot be made in /proc: it takes no new folders"):
        JobStore.create(Path("/proc/here"), job_file())


def test_files_of_the_desktop_are_not_trials(store):
    (store.path / "trials" / ".DS_Store").write_text("")
    assert store.finished() == set()
    assert store.entries() == []


def test_a_folder_that_lost_its_trials_says_so(store):
    (store.path / "trials").rmdir()
    with pytest.raises(StoreError, match="trials: cannot be stored or read: No such file"):
        store.finished()


def test_opening_takes_relative_paths(store, monkeypatch):
    monkeypatch.chdir(store.path.parent)
    assert JobStore.open(Path("job")).file == store.file


@pytest.mark.parametrize("name", [".drafts", "trials", "tries"])
def test_a_link_in_place_of_a_folder_is_refused_and_nothing_behind_it_is_touched(store, tmp_path, name):
    (tmp_path / "precious/data").mkdir(parents=True)
    shutil.rmtree(store.path / name)
    (store.path / name).symlink_to(tmp_path / "precious")
    with pytest.raises(JobError, match=f"{name}: is a link to"), store.lock():
        pass
    assert (tmp_path / "precious/data").is_dir()


def test_a_lock_that_is_a_link_overwrites_nothing(store, tmp_path):
    (tmp_path / "precious").write_text("data")
    (store.path / ".lock").unlink()
    (store.path / ".lock").symlink_to(tmp_path / "precious")
    with pytest.raises(StoreError, match="symbolic links"), store.lock():
        pass
    assert (tmp_path / "precious").read_text() == "data"


def test_what_was_added_to_the_index_is_read_alone(store):
    begun = (store.path / "index.jsonl").stat().st_size if (store.path / "index.jsonl").exists() else 0
    assert store.added_since(begun) == ([], begun)
    with store.draft("add.noop.1") as draft:
        draft.commit(record())
    first, read = store.added_since(begun)
    assert [entry.trial_id for entry in first] == ["add.noop.1"]
    with store.draft("sort.noop.1") as draft:
        draft.commit(record("sort"))
    with (store.path / "index.jsonl").open("ab") as index:
        index.write(b"half a li")
    second, read = store.added_since(read)
    assert [entry.trial_id for entry in second] == ["sort.noop.1"]
    assert store.added_since(read) == ([], read)
    assert store.added_since(0, limit=10) == ([], 0)
    (store.path / "trials/sort.noop.1/record.json").write_text("{}")
    assert [entry.trial_id for entry in store.added_since(0)[0]] == ["add.noop.1"]  # the other speaks for another file


def test_a_job_of_more_trials_than_can_be_listed_is_refused(tmp_path):
    file = job_file(["a"])
    endless = file.model_copy(update={"spec": file.spec.model_copy(update={"attempts": 10**9})})
    with pytest.raises(JobError, match="asks for 1,000,000,000 trials, expected 1,000,000 at most"):
        JobStore.create(tmp_path / "new", endless)
    store = JobStore.create(tmp_path / "job", file)
    with pytest.raises(JobError, match="asks for"):
        store.update(endless)
    (store.path / "job.json").write_text(endless.model_dump_json())
    with pytest.raises(JobError, match="make several jobs of it"):
        JobStore.open(store.path)
