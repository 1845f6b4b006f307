"""The evidence of a stored trial: what is there is read, and what is not there says why."""

import json
from pathlib import Path

import pytest

from seatrial.jobs.judge_evidence import gather, judged_task
from seatrial.judge.evidence import View
from seatrial.judge.rubric import EvidenceKind, parse_rubric
from seatrial.model.base import to_json
from seatrial.model.record import ArtifactRecord, FileChanges
from seatrial.store.job_store import JobStore
from tests.conftest import MakeTask
from tests.jobs.judged_jobs import REPORT, judged_job, leave

TRIAL = "add.noop.1"
ALL: tuple[EvidenceKind, ...] = ("output", "reference", "instruction", "conversation", "changes", "verifier")


@pytest.fixture
def job(make_task: MakeTask, tmp_path: Path) -> JobStore:
    return judged_job(make_task, tmp_path, ("add",))


def shown(job: JobStore, keys: str = "", **options: bool) -> View:
    text = f'evidence = {json.dumps(ALL)}\n{keys}\n[[question]]\ntext = "W"'
    task = judged_task(job.file.tasks[0], is_own=options.get("is_own", True))
    evidence = gather(job, job.revisions(TRIAL), task, parse_rubric(text.encode(), "r"), ())
    return evidence.view(ALL)


def test_the_output_and_the_instruction_are_there(job):
    view = shown(job)
    assert view.holds("The report of add: 4.2 V")
    assert view.holds("Write the answer to")
    assert view.holds('"reward": 1.0')


def test_an_output_that_the_agent_did_not_leave_is_named(job):
    leave(job, TRIAL, {"/workspace/other.md": "x"})
    assert shown(job).holds("(the agent left no such file)")
    (job.trial_folder(TRIAL) / "snapshot.tar.zst").unlink()
    assert shown(job).holds("(the end state was not kept)")
    (job.trial_folder(TRIAL) / "snapshot.tar.zst").write_bytes(b"nonsense")
    assert shown(job).holds("(the end state cannot be read:")


def test_files_are_chosen_by_patterns(job):
    leave(job, TRIAL, {REPORT: "a secret", "/workspace/src/a.py": "source", "/workspace/notes.txt": "notes"})
    view = shown(job, 'files = ["/workspace/src", "/workspace/*.txt"]')
    assert view.holds("source")
    assert view.holds("notes")
    assert not view.holds("a secret")


def test_of_very_many_files_some_are_shown_and_that_is_said(job):
    leave(job, TRIAL, {f"/workspace/many/{at}": "x" for at in range(150)})
    assert shown(job, 'files = ["/workspace/many"]').holds("there are more files than 100")


def test_without_an_expected_output_all_that_changed_is_shown(job, make_task, tmp_path):
    make_task("tasks/add", instruction="Do something.\n")
    changes = FileChanges(added=("/workspace/new.py",), removed=("/workspace/old.py",))
    (job.trial_folder(TRIAL) / "changes.json").write_bytes(to_json(changes))
    leave(job, TRIAL, {"/workspace/new.py": "print(1)", "/task/secret": "x"})
    view = shown(job)
    assert view.holds("print(1)")
    assert view.holds("removed /workspace/old.py")
    assert not view.holds("secret")


def test_what_an_agent_published_is_shown(job):
    folder = job.trial_folder(TRIAL)
    (folder / "artifacts").mkdir()
    (folder / "artifacts/plot.txt").write_text("a plot")
    (folder / "artifacts/link.txt").symlink_to("/etc/passwd")
    record = job.revisions(TRIAL)[0].record
    kept = tuple(ArtifactRecord(path=f"artifacts/{name}", sha256="0" * 64, size=1) for name in ("plot.txt", "link.txt"))
    (folder / "record.json").write_bytes(to_json(record.model_copy(update={"artifacts": kept})))
    view = shown(JobStore.open(job.path))
    assert view.holds("a plot")
    assert view.holds("links are not followed")
    assert not view.holds("root:")


CALLED = {"id": "1", "type": "function", "function": {"name": "sh", "arguments": '{"c": 1}'}}
CALL = {
    "index": 0,
    "path": "/v1/chat/completions",
    "dialect": "openai_chat",
    "started_at": "2026-01-01T00:00:00Z",
    "duration_sec": 1.0,
    "stream": False,
    "messages": [{"role": "system", "content": "be good"}, {"role": "user", "content": "please add"}],
    "request": {"model": "m", "tools": [{"type": "function", "function": {"name": "sh"}}]},
    "status": 200,
    "response": {"choices": [{"message": {"role": "assistant", "content": "I run it", "tool_calls": [CALLED]}}]},
}


def test_the_conversation_is_told(job):
    (job.trial_folder(TRIAL) / "calls.jsonl").write_text(json.dumps(CALL) + "\n")
    view = shown(job)
    for said in ("user: please add", "assistant: I run it", 'tool call sh: {"c": 1}'):
        assert view.holds(said), said


def test_a_trial_without_calls_says_so(job):
    assert shown(job).holds("(it is not known:")


def test_a_task_that_has_changed_counts_only_in_ones_own_job(job, make_task):
    make_task("tasks/add", instruction="Another instruction.\n")
    own, strange = shown(job), shown(job, is_own=False)
    assert own.holds("Another instruction.")
    assert "have changed since the trial ran" in own.text
    assert not strange.holds("Another instruction.")
    assert strange.holds("has changed since the job began")
