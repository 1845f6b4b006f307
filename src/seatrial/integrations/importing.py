"""import_job: the results of another program become a job in a folder, all of it or nothing.

The source is read twice: for the plan of the job and for its records. The job is written aside and moved into its place
when it is whole. Where our mean differs from the one that the source stored, each reason is listed with
its effect.
"""

import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Literal

from seatrial.analysis.figures import mean_of, mean_over_tasks
from seatrial.errors import ImportSourceError
from seatrial.gateway.calls import CallLog
from seatrial.integrations.foreign import (
    ForeignAgent,
    ForeignSource,
    ForeignTask,
    ForeignTrial,
    ForeignVerdict,
    Skipped,
)
from seatrial.integrations.harbor import RESULT, HarborResults, has_trials
from seatrial.integrations.verifiers import RESULTS, VerifiersResults
from seatrial.jobs.api import job_name
from seatrial.jobs.prepare import make_job_file
from seatrial.model.base import trial_id
from seatrial.model.evaluation import ErrorSource, ErrorTag, EvaluationResult, ValidityCheck
from seatrial.model.job import AgentOptions, JobFile, JobSpec, LockedTask, TrialOptions
from seatrial.model.outcome import PASS_THRESHOLD
from seatrial.model.record import (
    IMPORTED_BACKEND,
    UNKNOWN,
    AgentRef,
    ImportedJob,
    SandboxRef,
    SourceFormat,
    StepRecord,
    TaskRef,
    TrialRecord,
)
from seatrial.store.drafts import Commit, commit_together
from seatrial.store.files import storing, sync_file_system, sync_folder
from seatrial.store.job_store import JobStore, ensure_free

# Records: what the source says, in our terms, and nothing that it does not say.

_SANDBOX = SandboxRef(backend=IMPORTED_BACKEND, image=UNKNOWN, network=UNKNOWN, reproducible=False)
_ROUNDING = 1e-9
_SAME = 5e-7
"""Means that are nearer to each other than this are the same."""
_AT_ONCE = 100
"""So many trials are put on the disk together."""


@dataclass(frozen=True, slots=True)
class RewardRange:
    """How rewards of a source become rewards from 0 to 1: a range of theirs is mapped onto it, or they are kept."""

    low: float = 0.0
    high: float = 1.0

    @property
    def is_plain(self) -> bool:
        return (self.low, self.high) == (0.0, 1.0)

    def has(self, score: float) -> bool:
        """Whether a reward lies in the range, or beside it by no more than sums of weights are off."""
        slack = _ROUNDING * (self.high - self.low)
        return self.low - slack <= score <= self.high + slack

    def reward(self, score: float) -> float:
        if self.is_plain:
            return min(1.0, max(0.0, score + 0.0))
        return min(1.0, max(0.0, (score - self.low) / (self.high - self.low)))


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """How rewards are read: which range of theirs is 0 to 1, and from which on a trial has passed."""

    scale: RewardRange = field(default_factory=RewardRange)
    pass_threshold: float = PASS_THRESHOLD


def _record(trial: ForeignTrial, file: JobFile, title: str, attempt: int, options: ImportOptions) -> TrialRecord:
    task, agent, scale = trial.task, trial.agent, options.scale
    return TrialRecord(
        trial_id=trial_id(task.id, title, attempt),
        job=file.spec.name,
        job_id=file.id,
        task=TaskRef(id=task.id, name=task.name, digest=task.digest, source=task.source),
        agent=AgentRef(name=agent.name, version=agent.version, model=agent.model),
        sandbox=_SANDBOX,
        attempt=attempt,
        times=tuple(trial.times),
        agent_result=trial.agent_result,
        model_usage=trial.usage,
        steps=tuple(
            StepRecord(name=step.name, evaluation=_evaluation(step.verdict, scale) if step.verdict else None)
            for step in trial.steps
        ),
        pass_threshold=options.pass_threshold,
        evaluation=_evaluation(trial.verdict, scale) if trial.verdict else None,
        failure=trial.failure,
        imported=trial.origin,
    )


def _evaluation(verdict: ForeignVerdict, scale: RewardRange) -> EvaluationResult:
    """A verdict as it is stored. No output was looked at, so it counts as valid."""
    score, fault = verdict.score, verdict.fault
    if score is not None and not scale.has(score):
        fault = f"its reward {_exact(score)} is not between {scale.low:g} and {scale.high:g}"
        score = None
    notes = [f"note: {line}" for line in verdict.notes]
    if score is not None and not scale.is_plain:
        notes.append(f"note: {_exact(score)} of the range from {scale.low:g} to {scale.high:g} was mapped onto 0 to 1")
    faults = [f"verifier_error: {fault}"] if score is None else []
    tag = ErrorTag(category="verifier_error", description=fault, source=ErrorSource.MECHANICAL)
    return EvaluationResult(
        reward=0.0 if score is None else scale.reward(score),
        validity=ValidityCheck(
            output_parseable=True, schema_valid=True, verifier_completed=score is not None, errors=faults + notes
        ),
        breakdown=dict(verdict.parts) or None,
        error_taxonomy=[tag] if score is None else None,
    )


# Means: ours beside the stored one.


@dataclass(frozen=True, slots=True)
class CountedTrial:
    """One trial in both ways of counting: `there` as its source does, `here` as we do; None if it is in no mean."""

    task: str
    there: float | None
    here: float | None


@dataclass(frozen=True, slots=True)
class Reason:
    """One difference between two ways of counting, and by how much it changes the mean."""

    text: str
    change: float


@dataclass(frozen=True, slots=True)
class Means:
    """The mean of one agent as it was stored, and as it is here; None where there is none."""

    agent: str
    stored: float | None
    mean: float | None
    trials: int
    scored: int
    tasks: int
    reasons: Sequence[Reason] = ()


def compare_means(agent: str, stored: float | None, trials: Sequence[CountedTrial], rule: str, scale: str) -> Means:
    """Both means of an agent's trials. `rule` says how the source counts, `scale` how rewards were mapped, if so."""
    judged = [trial for trial in trials if trial.here is not None]
    mean = mean_over_tasks((trial.task, trial.here) for trial in trials)
    reasons: list[Reason] = []
    if stored is not None and mean is not None:
        reasons = _reasons(stored, mean, trials, rule, scale)
    return Means(agent, stored, mean, len(trials), len(judged), len({trial.task for trial in judged}), reasons)


def _reasons(stored: float, mean: float, trials: Sequence[CountedTrial], rule: str, scale: str) -> list[Reason]:
    """From the stored mean to ours, one step after the other."""
    judged = [trial for trial in trials if trial.here is not None]
    unjudged = [trial for trial in trials if trial.here is None and trial.there is not None]
    named = f"{len(unjudged):,} trials without a verdict are" if len(unjudged) != 1 else "1 trial without a verdict is"
    steps = [
        ("the stored mean is not that of these trials by its own rule", mean_of(trial.there for trial in trials)),
        (f"{named} in no mean here; {rule}", mean_of(trial.there for trial in judged)),
        (scale, mean_of(trial.here for trial in judged)),
        ("tasks weigh the same here, however many of their trials were judged", mean),
    ]
    found, before = [], stored
    for text, after in steps:
        if after is not None and abs(after - before) > _SAME:
            found.append(Reason(text, after - before))
        before = before if after is None else after
    return found


# Jobs.


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What was imported, what could not be, and both means of each agent."""

    store: JobStore
    trials: int
    skipped: Sequence[Skipped]
    means: Sequence[Means]
    notes: Sequence[str]


@dataclass(slots=True)
class _Plan:
    """What a first reading of the source found."""

    tasks: dict[str, ForeignTask] = field(default_factory=dict)
    agents: dict[ForeignAgent, None] = field(default_factory=dict)
    attempts: Counter[tuple[str, ForeignAgent]] = field(default_factory=Counter)
    counted: dict[ForeignAgent, list[CountedTrial]] = field(default_factory=lambda: defaultdict(list))
    outside: list[tuple[float, str]] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    @property
    def titles(self) -> dict[ForeignAgent, str]:
        """What the job calls each agent: its name, with model and version where others have the same."""
        longer = {
            agent: [" ".join(named[:length]) for length in range(1, len(named) + 1)]
            for agent in self.agents
            if (named := [each for each in (agent.name, agent.model, agent.version) if each])
        }
        found: dict[ForeignAgent, str] = {}
        for agent, titles in longer.items():
            others = {title for other, known in longer.items() if other != agent for title in known}
            found[agent] = next((title for title in titles if title not in others), titles[-1])
        return _numbered(found)


def import_job(source: ForeignSource, folder: Path, options: ImportOptions | None = None) -> ImportReport:
    """Make a job of a source in a new folder.

    Raises ImportSourceError when there is nothing to import or a reward lies outside the range, JobError when the
    folder is taken, StoreError when it cannot be written.
    """
    options = options or ImportOptions()
    ensure_free(folder)
    plan = _read(source, options.scale)
    _check(source, plan, options.scale)
    file = _job_file(source, plan, folder, options)
    with storing(folder.parent):
        folder.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        _write(JobStore.create(aside / "job", file), source, plan, options)
        with storing(folder):
            sync_file_system(aside)  # once for all of it: to wait for the disk with each trial takes most of the time
            ensure_free(folder)
            (aside / "job").rename(folder)
            sync_folder(folder.parent)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return ImportReport(
        JobStore.open(folder), plan.attempts.total(), plan.skipped, _means(source, plan, options.scale), source.notes
    )


def _read(source: ForeignSource, scale: RewardRange) -> _Plan:
    plan = _Plan()
    for trial in source.trials():
        if isinstance(trial, Skipped):
            plan.skipped.append(trial)
            continue
        plan.tasks.setdefault(trial.task.id, trial.task)
        plan.agents[trial.agent] = None
        plan.attempts[trial.task.id, trial.agent] += 1
        score = trial.verdict.score if trial.verdict else None
        if score is not None and not scale.has(score):
            plan.outside.append((score, _place(trial)))
            continue
        here = None if score is None else scale.reward(score)
        plan.counted[trial.agent].append(CountedTrial(trial.task.id, trial.counted_as, here))
    return plan


def _place(trial: ForeignTrial) -> str:
    line = f" line {trial.origin.line}" if trial.origin.line else ""
    return f"{trial.origin.file}{line}"


def _check(source: ForeignSource, plan: _Plan, scale: RewardRange) -> None:
    if not plan.attempts:
        why = f"; the first: {plan.skipped[0].place} {plan.skipped[0].reason}" if plan.skipped else ""
        raise ImportSourceError(
            f"there is no trial of {source.format} to import; {len(plan.skipped):,} unreadable{why}"
        )
    if plan.outside:
        scores = [score for score, _ in plan.outside]
        low, high = min(scale.low, *scores), max(scale.high, *scores)
        count = f"{len(scores):,} of {plan.attempts.total():,} rewards"
        wanted = f"{_exact(low)}:{_exact(high)}"
        raise ImportSourceError(
            f"{count} do not lie between {scale.low:g} and {scale.high:g}, such as {_exact(scores[0])} in "
            f"{plan.outside[0][1]}; say which range of them is to be 0 to 1: --reward-range {wanted}"
        )


def _exact(number: float) -> str:
    """A number so that it can be given back as it is."""
    short = f"{number:g}"
    return short if float(short) == number else repr(number)


def _job_file(source: ForeignSource, plan: _Plan, folder: Path, options: ImportOptions) -> JobFile:
    titles = plan.titles
    means = {titles[agent]: mean for agent, mean in source.stored_means.items() if agent in titles}
    scale = options.scale
    spec = JobSpec(
        name=job_name(folder),
        tasks=(f"{source.format} results",),
        agents=tuple(_agent(agent, title) for agent, title in titles.items()),
        attempts=max(plan.attempts.values()),
        trial=TrialOptions(backend=IMPORTED_BACKEND, image=UNKNOWN, pass_threshold=options.pass_threshold),
    )
    tasks = [LockedTask(id=task.id, name=task.name, root="", digest=task.digest) for task in plan.tasks.values()]
    imported = ImportedJob(
        format=source.format,
        version=source.version,
        sha256=source.sha256,
        stored_means=means,
        skipped=len(plan.skipped),
        reward_range=None if scale.is_plain else (scale.low, scale.high),
    )
    return make_job_file(spec, tasks, driver="import").model_copy(update={"imported": imported})


def _agent(agent: ForeignAgent, title: str) -> AgentOptions:
    label = None if title == agent.name else title
    return AgentOptions(name=agent.name, version=agent.version, model=agent.model, label=label)


def _write(store: JobStore, source: ForeignSource, plan: _Plan, options: ImportOptions) -> None:
    titles, made = plan.titles, Counter[tuple[str, ForeignAgent]]()
    trials = (trial for trial in source.trials() if not isinstance(trial, Skipped))
    with store.lock():
        for some in _batches(trials):
            with ExitStack() as stack:
                commits = []
                for trial in some:
                    made[key := (trial.task.id, trial.agent)] += 1
                    record = _record(trial, store.file, titles[trial.agent], made[key], options)
                    commits.append(_draft(stack, store, trial, record))
                commit_together(commits)
            for commit in commits:
                if commit.error:
                    raise commit.error


def _draft(stack: ExitStack, store: JobStore, trial: ForeignTrial, record: TrialRecord) -> Commit:
    draft = stack.enter_context(store.draft(record.trial_id))
    with storing(draft.path), CallLog(draft.path) as log:
        for call in trial.calls:
            log.write(call)
    return Commit(draft, record, syncing="later")


def _batches(trials: Iterator[ForeignTrial]) -> Iterator[list[ForeignTrial]]:
    while some := list(islice(trials, _AT_ONCE)):
        yield some


def _means(source: ForeignSource, plan: _Plan, scale: RewardRange) -> list[Means]:
    mapped = "" if scale.is_plain else f"rewards from {scale.low:g} to {scale.high:g} were mapped onto 0 to 1"
    titles, stored = plan.titles, source.stored_means
    return [
        compare_means(titles[agent], stored.get(agent), plan.counted[agent], source.rule, mapped)
        for agent in plan.agents
    ]


def _numbered(titles: dict[ForeignAgent, str]) -> dict[ForeignAgent, str]:
    """Titles of which no two are the same, whatever agents are called."""
    seen: Counter[str] = Counter()
    found = {}
    for agent, title in titles.items():
        seen[title] += 1
        found[agent] = title if seen[title] == 1 else f"{title} #{seen[title]}"
    return found


# Whose results a folder or file holds.

_EXPECTED = f"a folder with {RESULTS} (verifiers), or with folders that have a {RESULT} (Harbor)"


def open_source(path: Path, form: SourceFormat | Literal["auto"] = "auto") -> ForeignSource:
    """The results at a path; `auto` looks what is there. Raises ImportSourceError."""
    folder = path.parent if path.name in (RESULTS, RESULT) and path.is_file() else path
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "is not there"
        raise ImportSourceError(f"{path}: {what}, expected {_EXPECTED}")
    try:
        if form == "verifiers" or (form == "auto" and (folder / RESULTS).is_file()):
            return VerifiersResults(folder)
        if form == "harbor" or has_trials(folder):
            return HarborResults(folder)
    except OSError as error:
        raise ImportSourceError(f"{path}: cannot be read: {error.strerror or error}") from error
    raise ImportSourceError(f"{path}: holds no results, expected {_EXPECTED}")
