"""import_job: the results of another program become a job in a folder, all of it or nothing.

The source is read twice: for the plan of the job and for its records. The job is written aside and moved into its place
when it is whole.
"""

import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from seatrial.errors import ImportSourceError
from seatrial.gateway.calls import CallLog
from seatrial.integrations.foreign import ForeignAgent, ForeignSource, ForeignTask, ForeignTrial, Skipped
from seatrial.integrations.means import CountedTrial, Means, compare_means
from seatrial.integrations.records import JobPlace, RewardRange, record_of
from seatrial.jobs.api import job_name
from seatrial.jobs.lock import make_job_file
from seatrial.model.imported import IMPORTED_BACKEND, UNKNOWN, ImportedJob
from seatrial.model.job import AgentOptions, JobFile, JobSpec, LockedTask, TrialOptions
from seatrial.store.draft import Commit, commit_together
from seatrial.store.files import storing, sync_file_system, sync_folder
from seatrial.store.job_file import ensure_free
from seatrial.store.job_store import JobStore

_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """How rewards are read: which range of theirs is 0 to 1, and from which on a trial has passed."""

    scale: RewardRange = field(default_factory=RewardRange)
    pass_threshold: float = 1.0


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
        found: dict[ForeignAgent, str] = {}
        for agent in self.agents:
            named = [agent.name, *(each for each in (agent.model, agent.version) if each)]
            titles = [" ".join(named[:length]) for length in range(1, len(named) + 1)]
            others = {
                " ".join([other.name, *(each for each in (other.model, other.version) if each)][:length])
                for other in self.agents
                if other != agent
                for length in range(1, 4)
            }
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
                    key = trial.task.id, trial.agent
                    made[key] += 1
                    place = JobPlace(
                        store.file.spec.name, store.file.id, titles[trial.agent], made[key], options.pass_threshold
                    )
                    commits.append(_draft(stack, store, trial, place, options.scale))
                commit_together(commits)
            for commit in commits:
                if commit.error:
                    raise commit.error


def _draft(stack: ExitStack, store: JobStore, trial: ForeignTrial, place: JobPlace, scale: RewardRange) -> Commit:
    record = record_of(trial, place, scale)
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
