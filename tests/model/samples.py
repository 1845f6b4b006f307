"""Valid values of the stored types: short makers for single tests, and one full sample of every type."""

import datetime as dt
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from seatrial.model.assessment import (
    AssessedQuestion,
    Assessment,
    JudgeRef,
    JudgeSampling,
    JudgeUsage,
    Quote,
    Unscored,
    Vote,
)
from seatrial.model.check import CheckFinding, CheckOutcome, CheckReport, TaskCheck
from seatrial.model.evaluation import (
    Annotation,
    ConfidenceMetadata,
    ErrorSource,
    ErrorTag,
    EvaluationResult,
    Judgment,
    ValidityCheck,
)
from seatrial.model.job import AgentOptions, JobFile, JobSpec, LockedTask, RunOptions
from seatrial.model.loaded_task import BrokenTask, Problem, SkippedFolder
from seatrial.model.record import (
    AgentRef,
    AgentResult,
    ArtifactRecord,
    ChangeCounts,
    Failure,
    FileChanges,
    LimitSpec,
    ModelUsage,
    PhaseTime,
    Provenance,
    ResourceUse,
    SandboxRef,
    StepRecord,
    TaskRef,
    TrialRecord,
    VerifierRun,
)
from seatrial.model.review import ReviewContext, ReviewEntry, Sampling
from seatrial.tasks.load import load_task

VOLTAGE_DROP = Path(__file__).parents[2] / "examples" / "tasks" / "voltage-drop"
DIGEST = "0123456789abcdef" * 4
NOON = dt.datetime(2026, 3, 1, 12, 0, 0, 250_000, dt.timezone(dt.timedelta(hours=5, minutes=30)))


def validity(**changes: Any) -> ValidityCheck:
    flags: dict[str, Any] = {"output_parseable": True, "schema_valid": True, "verifier_completed": True}
    return ValidityCheck(**{**flags, **changes})


def evaluation(reward: float = 0.5, **changes: Any) -> EvaluationResult:
    return EvaluationResult(reward=reward, **{"validity": validity(), **changes})


def annotation(**changes: Any) -> Annotation:
    return Annotation(**{"reviewer_id": "ann", "timestamp": NOON, "judgment": Judgment.PASS, **changes})


def record(**changes: Any) -> TrialRecord:
    """A record with no more than it must have; without an evaluation it holds a failure."""
    needed: dict[str, Any] = {
        "trial_id": "voltage-drop.1",
        "task": TaskRef(id="voltage-drop", name="seatrial/voltage-drop", digest=DIGEST),
        "agent": AgentRef(name="oracle"),
        "sandbox": SandboxRef(backend="embedded", image="python:3.11-slim", network="none"),
    }
    if "evaluation" not in changes:
        needed["failure"] = Failure(phase="setup", cause="SandboxError", message="no space left")
    return TrialRecord(**{**needed, **changes})


def full_evaluation() -> EvaluationResult:
    return evaluation(
        0.93,
        validity=validity(schema_valid=False, errors=["schema_mismatch: `drop_v` is missing", "note: größer als 1 Ω"]),
        breakdown={"drop_v": {"score": 0.95, "max_score": 1.0, "evidence": "within 2 %"}, "seen": [1, None, True, "é"]},
        error_taxonomy=[
            ErrorTag(category="unit mismatch", description="mV for V", source=ErrorSource.MECHANICAL),
            ErrorTag(category="judgement", source=ErrorSource.HUMAN),
        ],
        confidence=full_confidence(),
        annotations=[annotation(reviewer_discipline="electrical", categories=["unit"], notes="looks right")],
    )


def full_confidence() -> ConfidenceMetadata:
    return ConfidenceMetadata(
        annotator_count=3,
        inter_rater_agreement=-0.25,
        agreement_metric="krippendorff_alpha",
        confidence_interval=(0.1, 0.9),
        confidence_method="wilson",
        confidence_level=0.95,
        sample_size=40,
        verifier_repeats=5,
        verifier_reward_sd=0.0,
        judges=("judge-1", "judge-2"),
        judge_agreement=0.5,
        judge_unscored=1,
    )


def full_record() -> TrialRecord:
    """A record with every field set."""
    return record(
        revision=1,
        parent="voltage-drop.1",
        job="nightly",
        attempt=2,
        sandbox=SandboxRef(
            backend="embedded",
            image="python:3.11-slim",
            image_digest=f"sha256:{DIGEST}",
            limits_asked=LimitSpec(cpus=1.0, memory_mb=512, storage_mb=1024, pids=64),
            limits_enforced=LimitSpec(memory_mb=512),
            network="none",
        ),
        times=(PhaseTime(phase="agent", started_at=NOON, finished_at=NOON + dt.timedelta(seconds=61)),),
        resources=ResourceUse(cpu_sec=1.5, peak_memory_bytes=2**31, disk_bytes=0),
        agent_result=AgentResult(status="timed_out", duration_sec=61.0, stdout_path="agent/stdout.txt"),
        model_usage=ModelUsage(calls=3, input_tokens=900, cached_tokens=100, output_tokens=50, cost_usd=0.0125),
        verifier_run=VerifierRun(
            exit_code=1, duration_sec=0.2, isolation="kill", survivors=("sleep",), restored=("/usr/bin/env",)
        ),
        provenance=Provenance(tests_digest=DIGEST, reward_file="reward.json", reward_sha256=DIGEST),
        artifacts=(ArtifactRecord(path="workspace/report.md", sha256=DIGEST, size=512),),
        changes=ChangeCounts(added=1, removed=1),
        steps=(StepRecord(name="build", evaluation=full_evaluation()),),
        pass_threshold=0.9,
        evaluation=full_evaluation(),
    )


def full_job() -> JobFile:
    """A stored job."""
    agents = (AgentOptions(name="command", label="mine", command="run", model="m", env={"KEY": "${KEY}"}),)
    run = RunOptions(concurrent=4, max_wall_sec=60.0, shuffle_seed=7)
    spec = JobSpec(name="nightly", tasks=("/tasks",), include=("a*",), agents=agents, attempts=2, run=run)
    task = LockedTask(id="a", name="org/a", root="/tasks/a", digest=DIGEST)
    return JobFile(seatrial_version="0.1.0", created_at=NOON, spec=spec, tasks=(task,))


def full_check() -> TaskCheck:
    """What was found out about a verifier."""
    finding = CheckFinding(
        check="V5",
        code="any-value-accepted",
        subject="drop_v",
        weight="major",
        message="any value of `drop_v` is accepted",
        fix="compare it",
        reproduce="seatrial check tasks/a --case V5/drop_v/scaled",
        case="V5/drop_v/scaled",
        evidence={"reward": 1.0},
        accepted=True,
    )
    outcome = CheckOutcome(check="V5", status="failed", reason="one left", tried=9, left_out=1, figures={"killed": 8})
    return TaskCheck(
        task="a",
        name="org/a",
        digest=DIGEST,
        backend="embedded",
        image="host",
        grade="C",
        reasons=("1 major finding",),
        outcomes=(outcome,),
        findings=(finding,),
        oracle_reward=1.0,
        verifications=10,
        states=2,
        rebuilt=1,
        verifying_sec=0.5,
        duration_sec=0.75,
        finished_at=NOON,
        options=DIGEST,
    )


def full_review() -> ReviewEntry:
    return ReviewEntry(
        id="0123456789abcdef",
        trial_id="add.noop.1",
        annotation=annotation(reviewer_discipline="civil", categories=["units"], notes="mV for V"),
        role="second_look",
        blind=True,
        seconds=41.5,
        context=ReviewContext(task_digest=DIGEST, tests_digest=DIGEST, rubric_digest=DIGEST, revision=1),
        sampling=Sampling(stratum="random", probability=0.25),
    )


def full_assessment() -> Assessment:
    unscored = Unscored(code="unsupported", message="the quote 'größer' does not occur in the evidence")
    votes = (
        Vote(judge="judge-1", answer=True, reason="it has one", quotes=(Quote(text="4.2 V", found=True),)),
        Vote(judge="judge-1", sample=2, answer=False, quotes=(Quote(text="größer", found=False),), unscored=unscored),
    )
    units = AssessedQuestion(id="units", kind="yes_no", weight=0.7, answer=True, score=1.0, votes=votes)
    lost = AssessedQuestion(id="size", kind="number", optional=True, unscored=str(unscored), votes=votes[1:])
    guard = AssessedQuestion(id="addresses_evaluator", kind="yes_no", weight=0.0, answer=True, votes=votes[:1])
    return Assessment(
        id="0123456789abcdef",
        trial_id="add.noop.1",
        revision=1,
        rubric="report",
        rubric_digest=DIGEST,
        prompt_digest=DIGEST,
        evidence_digest=DIGEST,
        judges=(JudgeRef(model="judge-1", upstream="openai"),),
        sampling=JudgeSampling(temperature=0.0, max_tokens=4096, samples=2),
        questions=(units, lost),
        guard=guard,
        score=1.0,
        agreement=0.5,
        tags=(ErrorTag(category="addresses_evaluator", source=ErrorSource.JUDGE),),
        cuts=("output /workspace/report.md: about 9 of 19 bytes are left out",),
        usage=JudgeUsage(calls=2, input_tokens=100, output_tokens=10, cost_usd=0.001, duration_sec=0.5),
        reused=1,
        started_at=NOON,
        finished_at=NOON,
        seatrial_version="0.1.0",
    )


def full_samples() -> dict[str, BaseModel]:
    """One value of every stored type by the type's name, with as much set as there is."""
    task = load_task(VOLTAGE_DROP)
    problem = Problem(code="no-x", severity="error", message="is missing", file="task.toml", key="a.b", fix="add it")
    values: list[BaseModel] = [
        annotation(notes="ok"),
        full_assessment(),
        BrokenTask(id="broken", root=Path("/tasks/broken"), problems=(problem,)),
        full_check(),
        CheckReport(seatrial_version="0.1.0", tasks=(full_check(),)),
        full_confidence(),
        ErrorTag(category="tool failure", description="no network", source=ErrorSource.JUDGE),
        full_evaluation(),
        FileChanges(added=("/app/größe",), modified=("/etc/hosts",), removed=("/app/draft",), truncated=True),
        full_job(),
        full_job().spec,
        task.output,
        problem,
        full_review(),
        SkippedFolder(path=Path("/tasks/drafts"), reason="named like a draft"),
        task,
        full_record(),
        validity(errors=["note: nothing to parse"]),
        task.verifier,
    ]
    return {type(value).__name__: value for value in values}
