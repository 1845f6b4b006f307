"""V12: what real runs say about a verifier: always 0, always 1, a weak agent beats a strong one, no verdict at all.

Few attempts prove little, so every finding rests on intervals: it is told only where chance does not explain it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import permutations
from pathlib import Path
from statistics import fmean

from seatrial.check.cases import Case, CaseVerdict, CheckResult, Subject
from seatrial.check.judging import concluded, skipped
from seatrial.model.check import CheckFinding, CheckId, Weight
from seatrial.model.outcome import SCORED_OUTCOMES, Outcome, format_mean
from seatrial.model.record import NEVER_RAN
from seatrial.stats.estimates import wilson
from seatrial.store.job_store import JobStore
from seatrial.tasks.layout import digest_folder

_ENOUGH = 8
_ENOUGH_EACH = 5
_ENOUGH_AGENTS = 2
_CAPABLE = 0.2


# Past runs: every attempt of a real agent, by the content of its task.

_NOT_REAL = frozenset({"oracle", "noop"})


@dataclass(frozen=True, slots=True)
class PastAttempt:
    """One attempt of an agent at a task, which is known by its digest."""

    task: str
    agent: str
    outcome: Outcome
    reward: float | None

    @property
    def is_scored(self) -> bool:
        """Whether it was really judged."""
        return self.outcome in SCORED_OUTCOMES and self.reward is not None


@dataclass(frozen=True, slots=True)
class PastRuns:
    """The attempts of some jobs, by the digests of their tasks; `jobs` is how a user calls them."""

    attempts: Mapping[str, Sequence[PastAttempt]]
    jobs: tuple[str, ...] = ()

    def at(self, task: str) -> Sequence[PastAttempt]:
        """The attempts at exactly this content of a task."""
        return self.attempts.get(task, ())

    def rewards_elsewhere(self, task: str, agent: str) -> list[float]:
        """What an agent got for all other tasks."""
        others = (each for digest, attempts in self.attempts.items() if digest != task for each in attempts)
        return rewards(each for each in others if each.agent == agent)


def rewards(attempts: Iterable[PastAttempt]) -> list[float]:
    return [each.reward for each in attempts if each.is_scored and each.reward is not None]


def collect(attempts: Iterable[PastAttempt], jobs: Sequence[str] = ()) -> PastRuns:
    found: dict[str, list[PastAttempt]] = defaultdict(list)
    for attempt in attempts:
        found[attempt.task].append(attempt)
    return PastRuns(found, tuple(jobs))


def read_runs(folders: Sequence[Path]) -> PastRuns:
    """The attempts that are stored in the folders of some jobs. Raises JobError where one is no job."""
    stores = [JobStore.open(folder) for folder in folders]
    return collect((each for store in stores for each in _attempts(store)), [str(folder) for folder in folders])


def _attempts(store: JobStore) -> Iterator[PastAttempt]:
    """All attempts of a job, without those of the solution, of nobody, and of agents that never really ran."""
    digests = {task.id: task.digest for task in store.file.tasks}
    unreal = {agent.title for agent in store.file.spec.agents if agent.name in _NOT_REAL}
    for entry in store.entries():
        if entry.agent not in unreal and entry.task_id in digests and not NEVER_RAN & set(entry.warnings):
            yield PastAttempt(digests[entry.task_id], entry.agent, entry.outcome, entry.reward)


# The check.


@dataclass(frozen=True, slots=True)
class AfterRuns:
    """The check, with the runs that it looks at."""

    runs: PastRuns
    CHECK: CheckId = "V12"
    TITLE: str = "after real runs"

    def cases(self, _: Subject) -> Iterable[Case]:
        """Nothing is tried: agents have tried enough."""
        return ()

    def findings(self, subject: Subject, _: Mapping[str, CaseVerdict]) -> CheckResult:
        """What the attempts at this task say, as far as they are enough to say anything."""
        digest = digest_folder(subject.task.root)
        attempts = self.runs.at(digest)
        if not attempts:
            return skipped(self.CHECK, "none of the runs has an attempt at this task as it is now")
        scored = rewards(attempts)
        figures = {"attempts": len(attempts), "scored": len(scored), "mean": fmean(scored) if scored else None}
        jobs = [word for job in self.runs.jobs for word in ("--runs", job)]
        again = subject.check_again("--only", self.CHECK, *jobs)
        found = [
            CheckFinding(check=self.CHECK, reproduce=again, **asdict(each)) for each in anomalies(digest, self.runs)
        ]
        return concluded(self.CHECK, found, figures)


@dataclass(frozen=True, slots=True)
class Anomaly:
    """Something that runs say about a task, and what to do about it."""

    code: str
    weight: Weight
    message: str
    fix: str


def anomalies(task: str, runs: PastRuns) -> Iterator[Anomaly]:
    """Everything about the attempts at a task that chance does not explain."""
    attempts = runs.at(task)
    yield from _no_verdicts(attempts)
    yield from _always_the_same(task, runs)
    yield from _upside_down(task, runs)


def _no_verdicts(attempts: Sequence[PastAttempt]) -> Iterator[Anomaly]:
    ran = [each for each in attempts if each.is_scored or each.outcome == "verifier_error"]
    silent = sum(each.outcome == "verifier_error" for each in ran)
    if len(ran) >= _ENOUGH_EACH and 2 * silent > len(ran) and wilson(silent / len(ran), len(ran))[0] > 0.25:
        message = f"{silent} of {len(ran)} attempts ended without a verdict"
        yield Anomaly("no-verdicts", "major", message, "look at the verifier's output in one of them")


def _always_the_same(task: str, runs: PastRuns) -> Iterator[Anomaly]:
    scored = rewards(runs.at(task))
    agents = {each.agent for each in runs.at(task) if each.is_scored}
    if len(scored) < _ENOUGH or len(agents) < _ENOUGH_AGENTS:
        return
    who = f"all {len(scored)} attempts of {len(agents)} agents"
    low, high = wilson(fmean(scored), len(scored))
    able = [name for name in agents if _mean(runs.rewards_elsewhere(task, name)) > _CAPABLE]
    # Where hardly anybody left an output, a 0 says nothing about the verifier.
    answered = sum(each.is_scored and each.outcome != "no_output" for each in runs.at(task))
    if max(scored) == 0.0 and able and answered >= _ENOUGH_EACH:
        best = max(able, key=lambda name: _mean(runs.rewards_elsewhere(task, name)))
        elsewhere, most = format_mean(_mean(runs.rewards_elsewhere(task, best)), ".2f"), format_mean(high, ".0%")
        message = f"{who} got 0 (at most {most} would pass), though {best} has a mean of {elsewhere} elsewhere"
        yield Anomaly("always-zero", "minor", message, "see whether what they left is wrong, or only judged so")
    elif min(scored) == 1.0:
        message = f"{who} got 1 (at least {format_mean(low, '.0%')} would pass): the task tells no agents apart"
        yield Anomaly("always-one", "note", message, "see whether a wrong answer would pass too")


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else 0.0


def _upside_down(task: str, runs: PastRuns) -> Iterator[Anomaly]:
    """A pair of agents that is the other way round than everywhere else; the clearest one."""
    counts = Counter(each.agent for each in runs.at(task) if each.is_scored)
    names = sorted(name for name, count in counts.items() if count >= _ENOUGH_EACH)
    pairs = [(weak, strong) for weak, strong in permutations(names, 2) if _is_upside_down(task, runs, weak, strong)]
    here = {name: _mean(rewards(each for each in runs.at(task) if each.agent == name)) for name in names}
    for weak, strong in sorted(pairs, key=lambda pair: here[pair[1]] - here[pair[0]])[:1]:
        elsewhere = " to ".join(
            format_mean(_mean(runs.rewards_elsewhere(task, name)), ".2f") for name in (weak, strong)
        )
        got = [format_mean(here[name], ".2f") for name in (weak, strong)]
        message = f"{weak} gets {got[0]} and {strong} {got[1]} here; elsewhere it is {elsewhere}"
        yield Anomaly("weak-beats-strong", "minor", message, "see what the better one does here that is judged wrong")


def _is_upside_down(task: str, runs: PastRuns, weak: str, strong: str) -> bool:
    by_agent = [rewards(each for each in runs.at(task) if each.agent == name) for name in (weak, strong)]
    return _is_above(by_agent[0], by_agent[1]) and _is_above(
        runs.rewards_elsewhere(task, strong), runs.rewards_elsewhere(task, weak)
    )


def _is_above(high: Sequence[float], low: Sequence[float]) -> bool:
    """Whether the intervals of two means do not touch."""
    if not high or not low:
        return False
    return wilson(fmean(high), len(high))[0] > wilson(fmean(low), len(low))[1]
