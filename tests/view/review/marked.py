"""Jobs to review: small tasks with trials on a disk, and one whose every hidden place has a word of its own."""

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import zstandard

from seatrial.model.base import to_json
from seatrial.model.evaluation import ConfidenceMetadata, ErrorSource, ErrorTag, EvaluationResult, ValidityCheck
from seatrial.model.job import AgentOptions, JobFile, JobSpec, LockedTask, TaskLabels
from seatrial.model.record import (
    AgentRef,
    AgentResult,
    ArtifactRecord,
    FileChanges,
    ModelUsage,
    Provenance,
    TaskRef,
    TrialRecord,
    TrialWarning,
    VerifierRun,
)
from seatrial.store.job_store import JobStore
from seatrial.tasks.layout import digest_folder
from seatrial.trial.snapshot import ARCHIVE
from tests.jobs.samples import NOON, evaluation, record
from tests.review.journals import said

OUTPUT = "/workspace/result.json"
INSTRUCTION = f"# Deflection\n\nWrite the deflection to `{OUTPUT}`.\n"
GOLDEN = '{"deflection": 12.5}\n'

HIDDEN = (
    *("hiddenjob", "hiddenagent", "hiddenmodel", "hiddenversion", "hiddencommand", "hiddenlabel", "hiddennode"),
    *("hiddendimension", "hiddenevidence", "hiddenerror", "hiddentag", "hiddentold", "hiddenwarning", "hiddenmetric"),
    *("hiddenstdout", "hiddenstderr", "hiddenlog", "hiddendot", "hiddenprices", "hiddensurvivor", "hiddensystem"),
    *("hiddenreviewer", "hiddenfield", "hiddennote", "hiddenexpert", "hiddenreason"),
    *("0.876543", "0.765432", "65.4321", "7654321", "partial", "near_threshold", "stratum", "probability", "sampling"),
)
"""What nobody may read before a verdict: words, numbers, and what the queue calls its parts."""


def write_task(folder: Path, name: str, golden: str | None = GOLDEN) -> Path:
    """A task that asks for a file, and may know a golden answer."""
    files = {
        "task.toml": '[environment]\nworkdir = "/workspace"\n',
        "instruction.md": INSTRUCTION,
        "tests/test.sh": "echo 1 > /logs/verifier/reward.txt\n",
        **({"golden/pass/workspace/result.json": golden} if golden else {}),
    }
    for path, text in files.items():
        (folder / name / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / name / path).write_text(text)
    return folder / name


def make_job(folder: Path, *tasks: Path, agents: tuple[AgentOptions, ...] = (AgentOptions(name="noop"),)) -> JobStore:
    """A job of tasks, without a trial so far."""
    labels = TaskLabels(category="mechanics")
    locked = [
        LockedTask(id=each.name, name=each.name, root=str(each), digest=digest_folder(each), labels=labels)
        for each in tasks
    ]
    spec = JobSpec(name=folder.name, tasks=tuple(map(str, tasks)), agents=agents, attempts=50)
    file = JobFile(seatrial_version="0.1", created_at=NOON, spec=spec, tasks=tuple(locked), id="f" * 16)
    return JobStore.create(folder, file)


def add_trial(store: JobStore, made: TrialRecord, left: Mapping[str, bytes] | None = None, **files: bytes) -> str:
    """Add a trial whose end state has these files, and whose folder has others; returns its id."""
    left = left or {}
    locked = next(task for task in store.file.tasks if task.id == made.task.id)
    made = made.model_copy(update={"task": TaskRef(id=locked.id, name=locked.name, digest=locked.digest)})
    with store.draft(made.trial_id) as draft:
        (draft.path / ARCHIVE).write_bytes(_packed(left))
        (draft.path / "changes.json").write_bytes(to_json(FileChanges(added=tuple(left))))
        for name, content in files.items():
            path = draft.path / name.replace("__", "/").replace("_txt", ".txt").replace("_json", ".json")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        draft.commit(made)
    return made.trial_id


def many_trials(folder: Path, count: int, golden: str | None = GOLDEN) -> JobStore:
    """A job with so many attempts at one task, every third of which passed."""
    store = make_job(folder / "job", write_task(folder / "tasks", "beam", golden))
    for attempt in range(1, count + 1):
        answer = f'{{"deflection": {attempt}}}\n'.encode()
        add_trial(store, record("beam", attempt, evaluation=evaluation(float(attempt % 3 == 0))), {OUTPUT: answer})
    return store


def marked_job(folder: Path) -> JobStore:
    """A job with a word of HIDDEN wherever a record, a file or a reviewer may say something."""
    options = AgentOptions(name="command", label="hiddenagent", model="hiddenmodel", command="hiddencommand")
    store = make_job(folder / "hiddenjob", write_task(folder / "tasks", "beam"), agents=(options,))
    files = {
        "verifier__stdout_txt": b"hiddenstdout 0.876543",
        "verifier__stderr_txt": b"hiddenstderr",
        "agent__stdout_txt": b"hiddenlog",
        "artifacts__plot_txt": b"published for everybody",
    }
    left = {OUTPUT: b'{"deflection": 12.7}\n', "/workspace/.hiddendot/log": b"hiddenmodel", "/etc/hiddensystem": b"x"}
    trial_id = add_trial(store, _marked_record(), left, **files)
    store.add_reviews(
        said(trial_id, "hiddenreviewer", "fail", notes="hiddennote"),
        said(trial_id, "hiddenexpert", "pass", role="gold", notes="hiddenreason"),
    )
    return store


def _marked_record() -> TrialRecord:
    run = VerifierRun(
        exit_code=0,
        duration_sec=65.4321,
        isolation="guarded",
        survivors=("hiddensurvivor",),
        repeats=(0.876543, 0.765432),
        repeated_in="fresh",
        stdout_path="verifier/stdout.txt",
        stderr_path="verifier/stderr.txt",
    )
    judged = EvaluationResult(
        reward=0.876543,
        validity=ValidityCheck(
            output_parseable=True, schema_valid=True, verifier_completed=True, errors=["note: hiddenerror"]
        ),
        breakdown={"hiddendimension": {"score": 0.876543, "max_score": 1.0, "evidence": "hiddenevidence"}},
        error_taxonomy=[ErrorTag(category="hiddentag", description="hiddentold", source=ErrorSource.MECHANICAL)],
        confidence=ConfidenceMetadata(agreement_metric="hiddenmetric", annotator_count=7654321),
    )
    agent = AgentRef(name="hiddenagent", version="hiddenversion", command="hiddencommand", model="hiddenmodel")
    more: dict[str, Any] = {
        "job": "hiddenjob",
        "node": "hiddennode",
        "agent_result": AgentResult(status="exited", exit_code=0, duration_sec=65.4321, stdout_path="agent/stdout.txt"),
        "model_usage": ModelUsage(calls=7654321, input_tokens=7654321, cost_usd=65.4321, prices="hiddenprices"),
        "verifier_run": run,
        "provenance": Provenance(tests_digest="e" * 64, reward_file="reward.json"),
        "artifacts": (ArtifactRecord(path="artifacts/plot.txt", sha256="e" * 64, size=23),),
        "evaluation": judged,
        "disputed_reward": 0.876543,
        "warnings": (TrialWarning(code="no_model_call", message="hiddenwarning"),),
    }
    return record("beam", 1, agent="hiddenagent", **more).model_copy(update={"agent": agent})


def _packed(left: Mapping[str, bytes]) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for path, content in left.items():
            member = tarfile.TarInfo(path.lstrip("/"))
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return zstandard.ZstdCompressor().compress(plain.getvalue())
