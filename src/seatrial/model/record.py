"""TrialRecord: everything kept about one attempt of one agent at one task, and the outcome it amounts to.

Records are immutable. A regrade is a new revision that names its parent; annotations live in a journal of their own.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from seatrial.model.base import Fraction01, JsonObject, NonNegative, NonNegativeInt, Sha256, StrictModel, Timestamp, new
from seatrial.model.evaluation import OUTPUT_MISSING, OUTPUT_UNPARSEABLE, EvaluationResult
from seatrial.model.outcome import PASS_THRESHOLD, Outcome, has_passed

# The agent's run. A non-zero exit or a time-out is data here, never an exception.


class AgentResult(StrictModel):
    """How the agent's command ended.

    `cpu_sec` is what its processes got of the processors, `cpu_wait_sec` for how long they had to wait while
    processes of others used them; None where that is not known.
    """

    status: Literal["exited", "timed_out", "killed"]
    exit_code: int | None = None
    duration_sec: NonNegative
    stdout_path: str | None = None
    stderr_path: str | None = None
    cpu_sec: NonNegative | None = None
    cpu_wait_sec: NonNegative | None = None

    @property
    def busy_share(self) -> float:
        """In which share of its time it was kept from running."""
        return share_of(self.cpu_wait_sec, self.duration_sec)


def share_of(wait_sec: float | None, duration_sec: float) -> float:
    """Which share of a time was spent on waiting for a processor; none where that is not known."""
    return min(wait_sec / duration_sec, 1.0) if wait_sec and duration_sec else 0.0


# Regrades: a later verdict on the kept end state, without the agent.


class FirstVerdict(StrictModel):
    """What the trial amounted to when it ran, before anybody judged it again."""

    outcome: Outcome
    reward: Fraction01 | None = None
    broken_verifier: bool = False


class Regrade(StrictModel):
    """One verification after the trial. All revisions of one regrade have its `id`.

    `task_digest` is the task's content then; the record's own is what the agent worked on. `tests` is the folder that
    the tests were taken from, None for the task's own. `options` are those of the verification that are not the job's.
    """

    id: Annotated[str, Field(min_length=1)]
    seatrial_version: str
    started_at: Timestamp
    finished_at: Timestamp
    first: FirstVerdict
    task_digest: Sha256
    tests: str | None = None
    options: JsonObject = Field(default_factory=dict)


# Imports: where a job or trial of another program comes from. No path of a disk, so that it is the same wherever it was
# imported.

SourceFormat = Literal["verifiers", "harbor"]

IMPORTED_BACKEND = "imported"
"""What stands for the backend of a trial that did not run here."""

UNKNOWN = "unknown"
"""What stands for an image or a network that the source does not name."""


class ImportedFrom(StrictModel):
    """What a trial was imported from: a file, by its name in the source and its digest, and a line of it.

    `version` is that of the program that wrote it, as far as it says. `stated` is what the source says of the trial
    and a record has no field for, as it was found.
    """

    format: SourceFormat
    version: str | None = None
    file: str
    line: Annotated[int, Field(ge=1)] | None = None
    sha256: Sha256
    stated: JsonObject | None = None


class ImportedJob(StrictModel):
    """What a job was imported from. `sha256` is of the file with its results, or of the digests of all of them.

    `stored_means` are the means that the source gives itself, by the titles of the agents; they may count what is in no
    mean here. `skipped` is how much of the source could not be read. A `reward_range` is what was mapped onto 0 to 1.
    """

    format: SourceFormat
    version: str | None = None
    sha256: Sha256
    stored_means: dict[str, float] = Field(default_factory=dict)
    skipped: NonNegativeInt = 0
    reward_range: tuple[float, float] | None = None


# The record and its parts.

SCHEMA_VERSION: Literal[1] = 1

Phase = Literal["setup", "agent", "collect", "verify", "score", "store"]
IsolationLevel = Literal["guarded", "kill", "separate", "exposed"]
Baseline = Literal["judged", "silent"]
"""What a verifier that said nothing after the agent does with an environment in which no agent has been."""

_ENOUGH = 0.9  # of a verifier's time: figures of the kernel's are not exact

CHANGES = "changes.json"
"""Where a trial keeps its `FileChanges`."""

NEVER_RAN = frozenset({"agent_not_started", "no_model_call", "calls_refused", "calls_unanswered"})
"""The warnings that speak of an agent that never really ran; see TrialWarning."""


class TaskRef(StrictModel):
    """Which task, and exactly which content of it."""

    id: str
    name: str
    digest: Sha256
    source: str | None = None


class AgentFilesRef(StrictModel):
    """Files of an agent: where they lay in its sandbox, and what they were."""

    target: str
    digest: Sha256


class AgentRef(StrictModel):
    """Which agent, driven by which model, with which files of its own.

    `layer` is the digest of the layer that brought it.
    """

    name: str
    version: str | None = None
    command: str | None = None
    model: str | None = None
    files: tuple[AgentFilesRef, ...] = ()
    layer: Sha256 | None = None


class LimitSpec(StrictModel):
    """Resource limits; None means unlimited."""

    cpus: NonNegative | None = None
    memory_mb: NonNegativeInt | None = None
    storage_mb: NonNegativeInt | None = None
    pids: NonNegativeInt | None = None


class SandboxRef(StrictModel):
    """Where the trial ran, with what was asked of the machine and what it could enforce.

    `image` is what was used, `image_asked` what the task or the run named; `network_asked` is None in older records.
    """

    backend: str
    image: str
    image_asked: str | None = None
    image_digest: str | None = None
    reproducible: bool = True
    limits_asked: LimitSpec = new(LimitSpec)
    limits_enforced: LimitSpec = new(LimitSpec)
    network: str
    network_asked: str | None = None

    @property
    def not_held(self) -> dict[str, float | str]:
        """What was asked of the machine and not enforced, by its name, with the value that was asked for."""
        asked, enforced = vars(self.limits_asked), vars(self.limits_enforced)
        found: dict[str, float | str] = {
            name: value for name, value in asked.items() if value is not None and enforced[name] != value
        }
        if self.network_asked not in (None, self.network):
            found["network"] = self.network_asked
        return found


class PhaseTime(StrictModel):
    """When a phase ran."""

    phase: Phase
    step: str | None = None
    started_at: Timestamp
    finished_at: Timestamp

    @model_validator(mode="after")
    def _does_not_run_backwards(self) -> Self:
        if self.finished_at < self.started_at:
            raise ValueError(f"phase {self.phase} finishes before it starts")
        return self


class ResourceUse(StrictModel):
    """What the trial consumed."""

    cpu_sec: NonNegative | None = None
    peak_memory_bytes: NonNegativeInt | None = None
    disk_bytes: NonNegativeInt | None = None
    oom_kills: NonNegativeInt = 0


class ModelUsage(StrictModel):
    """Calls, tokens and money of a model. `input_tokens` includes those from a cache and those to it.

    `prices` names the tables of prices by which the cost was computed, and their dates. `omitted` names what the agent
    sent and the model's dialect had no place for; see ModelCall. `calls` is None where an imported trial does not say.
    """

    calls: NonNegativeInt | None = 0
    input_tokens: NonNegativeInt = 0
    cached_tokens: NonNegativeInt = 0
    cache_write_tokens: NonNegativeInt = 0
    output_tokens: NonNegativeInt = 0
    cost_usd: NonNegative | None = None
    prices: str | None = None
    omitted: tuple[str, ...] = ()


class Appeal(StrictModel):
    """The verdict that does not count; the reward is None when the verifier gave none.

    One on what the agent left as it was is asked for where the one that counts is below a pass and rests on a system in
    which something was put back; it came first where files of the agent that may steer the verifier were withheld from
    it afterwards. One with these `withheld` does not count where it is no lower.
    """

    reward: Fraction01 | None = None
    exit_code: int | None = None
    duration_sec: NonNegative
    on: Literal["as_left", "withheld"] = "as_left"


class VerifierRun(StrictModel):
    """How the verifier ran; its exit code never overrides the reward it wrote.

    `survivors` are processes the agent left running. `services` is what these listened on in a container: they answered
    a `guarded` verifier, which had a copy of all files, and ended before one with `kill`. `restored` and `hidden` are
    the first of those files that the verifier did not meet as the agent left them: as in the image, or not at all. When
    `shielded`, it had a system of its own, whatever the survivors did to theirs meanwhile; `trust` says whether that
    was the agent's by somebody's wish, or in what the task's own solution changes, too: `reference_units` are the first
    files of that which the agent left otherwise. A verifier that said nothing was asked for a `baseline`: one that
    judged there was silenced by the agent, one that is silent there too is broken. Where it was asked more than once
    about the same end state, `repeats` are all rewards in their order, None where there was no verdict: this is the run
    with the lowest one, which counts. It was `repeated_in` sandboxes that were laid out anew, or in the same one.
    `layout` says where it was started. `agent_files_used` are the first of those files of the agent that were opened
    meanwhile although neither task nor tests speak of them; `reads` says whether anybody could see that, None in
    records of earlier versions.

    `models` are those that it asked, by the names that it asked for: another one where the run mapped the name.

    Its time was `timeout_sec`. `cpu_sec` and `cpu_wait_sec` are as in AgentResult; by the latter its time was over
    later. When `retried_alone`, it had run out of time before for that reason, beside other verifiers. Its baseline
    took `baseline_sec`; with `baseline_timed_out`, that is silent because its time was over.
    """

    exit_code: int | None = None
    timed_out: bool = False
    duration_sec: NonNegative
    isolation: IsolationLevel
    survivors: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()
    restored_count: NonNegativeInt = 0
    hidden: tuple[str, ...] = ()
    hidden_count: NonNegativeInt = 0
    shielded: bool = False
    trust: Literal["image", "reference", "as_left"] = "image"
    reference_units: tuple[str, ...] = ()
    appeal: Appeal | None = None
    truncated: bool = False
    stdout_path: str | None = None
    stderr_path: str | None = None
    baseline: Baseline | None = None
    repeats: tuple[Fraction01 | None, ...] = ()
    repeated_in: Literal["fresh", "same"] | None = None
    layout: Literal["harbor", "verifiers"] = "harbor"
    reads: Literal["watched", "partly", "unwatched"] | None = None
    agent_files_used: tuple[str, ...] = ()
    agent_files_used_count: NonNegativeInt = 0
    models: dict[str, str] = Field(default_factory=dict)
    timeout_sec: NonNegative | None = None
    cpu_sec: NonNegative | None = None
    cpu_wait_sec: NonNegative | None = None
    retried_alone: bool = False
    baseline_sec: NonNegative | None = None
    baseline_timed_out: bool = False

    @property
    def needs_system(self) -> bool:
        """Whether it is of the task's own solution, and was believed only on the system that this left."""
        return self.trust == "as_left" and bool(self.restored_count or self.hidden_count)

    @property
    def busy_share(self) -> float:
        """In which share of its time it was kept from running."""
        return share_of(self.cpu_wait_sec, self.duration_sec)

    @property
    def starved(self) -> bool:
        """Whether it ran out of time without having had that time to run."""
        had = self.duration_sec - (self.cpu_wait_sec or 0.0)
        return self.timed_out and self.timeout_sec is not None and had < _ENOUGH * self.timeout_sec


class Provenance(StrictModel):
    """What the reward rests on: the tests that ran and the file that said it."""

    tests_digest: Sha256
    reward_file: str | None = None
    reward_sha256: Sha256 | None = None
    details_file: str | None = None


class ArtifactRecord(StrictModel):
    """A file kept with the record."""

    path: str
    sha256: Sha256
    size: NonNegativeInt


class FileChanges(StrictModel):
    """What the agent did to the file system of the image; `truncated` if that was too much to list all of it."""

    added: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    truncated: bool = False


class KeptState(StrictModel):
    """Whether the sandbox's end state was kept beside the record, and if it was not, why.

    `processes` ran on when the agent had ended; a kept state has their files and not them. `size` is in bytes, packed.
    """

    kept: bool
    size: NonNegativeInt = 0
    reason: str | None = None
    processes: tuple[str, ...] = ()


class ChangeCounts(StrictModel):
    """How many files the agent added, modified and removed; `changes.json` beside the record names them."""

    added: NonNegativeInt = 0
    modified: NonNegativeInt = 0
    removed: NonNegativeInt = 0


class StepRecord(StrictModel):
    """One step of a multi-step task, as far as it went; its evaluation is missing when it was never judged."""

    name: str
    agent_result: AgentResult | None = None
    verifier_run: VerifierRun | None = None
    provenance: Provenance | None = None
    end_state: KeptState | None = None
    evaluation: EvaluationResult | None = None


class Failure(StrictModel):
    """Why there is no evaluation: the machinery failed or was stopped, not the agent."""

    kind: Literal["infrastructure", "cancelled"] = "infrastructure"
    phase: Phase
    cause: str
    message: str
    retryable: bool = False


class TrialWarning(StrictModel):
    """Why a verdict may say little about the agent, which changes no reward. Trials are counted by `code`.

    `agent_not_started`: its command could not be started. `no_model_call`: it was given a model and never called it.
    `calls_refused`: the gateway refused every call it made. `calls_unanswered`: none of its calls got an answer.
    `verifier_tool_missing`: the verifier gave a 0 and lacked a tool of its own. `services_ended`: what the agent left
    listening was ended before the verifier, which gave less than a pass. `services_beside`: it answered, but what it
    wrote meanwhile was not in the verifier's copy of the files, and the verifier gave less than a pass. `host_busy`:
    other processes of this machine kept the agent or the verifier from running for a good part of its time.
    `agent_timeout_busy`: the agent ran out of time while they did. `verifier_timeout`: the verifier ran out of time,
    which it had.
    """

    code: Annotated[str, Field(pattern=r"^[a-z0-9_]+$")]
    message: str


class TrialRecord(StrictModel):
    """One stored trial: either an evaluation or a failure, never both, never neither.

    `attempt` counts the trials of one agent at one task, all of which count; `tries` how often this one had to be
    started because the machinery failed, of which only the last counts. `disputed_reward` is what the reward would be
    if verdicts on the agent's own system were believed, where they are higher. `warnings` say why its verdict may tell
    little. `node` is the machine it ran on, where there were several. `verifier_usage` is what verifiers
    used of their models, in all verifications together; `model_usage` is the agent's alone.

    A `revision` above 0 is the same trial judged again, as `regrade` says; `parent` names the revision before it. What
    the verifier did and found is new in it, and all else is the trial's.

    `imported` says where a trial comes from that another program ran.
    """

    schema_version: Annotated[int, Field(ge=1, le=1)] = SCHEMA_VERSION
    trial_id: Annotated[str, Field(min_length=1)]
    revision: NonNegativeInt = 0
    parent: str | None = None
    job: str | None = None
    job_id: str | None = None
    task: TaskRef
    agent: AgentRef
    sandbox: SandboxRef
    attempt: Annotated[int, Field(ge=1)] = 1
    tries: Annotated[int, Field(ge=1)] = 1
    node: str | None = None
    times: tuple[PhaseTime, ...] = ()
    resources: ResourceUse | None = None
    agent_result: AgentResult | None = None
    model_usage: ModelUsage | None = None
    verifier_usage: ModelUsage | None = None
    verifier_run: VerifierRun | None = None
    provenance: Provenance | None = None
    artifacts: tuple[ArtifactRecord, ...] = ()
    changes: ChangeCounts | None = None
    end_state: KeptState | None = None
    steps: tuple[StepRecord, ...] = ()
    pass_threshold: Fraction01 = PASS_THRESHOLD
    evaluation: EvaluationResult | None = None
    disputed_reward: Fraction01 | None = None
    warnings: tuple[TrialWarning, ...] = ()
    failure: Failure | None = None
    regrade: Regrade | None = None
    imported: ImportedFrom | None = None

    @model_validator(mode="after")
    def _has_one_result(self) -> Self:
        if (self.evaluation is None) == (self.failure is None):
            raise ValueError("a record has exactly one of evaluation and failure")
        return self

    @property
    def outcome(self) -> Outcome:
        """What the trial amounts to."""
        if self.failure:
            return "cancelled" if self.failure.kind == "cancelled" else "infrastructure_error"
        assert self.evaluation is not None  # noqa: S101 - the validator above
        return outcome_of(self.evaluation, self.pass_threshold, self._baseline)

    @property
    def never_ran(self) -> bool:
        """Whether its agent never really ran, so that its reward says little about that agent."""
        return any(warning.code in NEVER_RAN for warning in self.warnings)

    @property
    def has_broken_verifier(self) -> bool:
        """Whether a verifier of the trial has no verdict even on what nobody has touched."""
        return any(run.baseline == "silent" for run in self.verifier_runs)

    @property
    def verifier_runs(self) -> list[VerifierRun]:
        """Every run of a verifier: one, or one for each step."""
        runs = [step.verifier_run for step in self.steps] or [self.verifier_run]
        return [run for run in runs if run]

    @property
    def _baseline(self) -> Baseline | None:
        """What the verifiers that said nothing do in the untouched environment: `judged` if all of them judge there."""
        silent = [step.verifier_run for step in self.steps if step.evaluation and not _completed(step.evaluation)]
        runs = [run for run in (silent if self.steps else [self.verifier_run]) if run]
        found = {run.baseline for run in runs}
        return found.pop() if len(found) == 1 else None


_OF_DECLARED: dict[str, Outcome] = {"no_output": "no_output", "unparseable": "invalid_output"}
_OF_INFERRED: dict[str, Outcome] = {OUTPUT_MISSING: "no_output", OUTPUT_UNPARSEABLE: "invalid_output"}


def outcome_of(
    evaluation: EvaluationResult, pass_threshold: float = PASS_THRESHOLD, baseline: Baseline | None = None
) -> Outcome:
    """The outcome a finished evaluation stands for.

    A verifier without a verdict says nothing about anybody, whatever they left behind, unless its `baseline` shows that
    the agent silenced it: then a zero counts.
    """
    if not _completed(evaluation):
        return _why_zero(evaluation) if baseline == "judged" else "verifier_error"
    if not evaluation.validity.output_parseable:
        return _why_zero(evaluation)
    if has_passed(evaluation.reward, pass_threshold):
        return "pass"
    return "partial" if evaluation.reward > 0.0 else _why_zero(evaluation)


def _completed(evaluation: EvaluationResult) -> bool:
    return evaluation.validity.verifier_completed


def _why_zero(evaluation: EvaluationResult) -> Outcome:
    """An output that is missing or cannot be read explains a zero; of several tags the first one does, which is ours.

    Earlier versions left `output_parseable` True where only the instruction asks for the output.
    """
    parseable = evaluation.validity.output_parseable
    explained = _OF_INFERRED if parseable else _OF_INFERRED | _OF_DECLARED
    found = [explained[tag.category] for tag in evaluation.error_taxonomy or () if tag.category in explained]
    return next(iter(found), "fail" if parseable else "invalid_output")
