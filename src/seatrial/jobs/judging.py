"""Judging a job: its trials assessed by the questions of a rubric, side by side, each stored as soon as it is whole.

What an earlier run has asked is not asked again, so the same command goes on where one was interrupted. A judge's
provider that fails costs its trial the assessment, and nothing else: the trial is named, and nothing is stored for it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from seatrial import __version__
from seatrial.concurrency import run_all
from seatrial.errors import ModelError, OverlongPromptError, RubricError, SeatrialError, UsageError
from seatrial.gateway.prices import PriceTable, load_prices
from seatrial.jobs.judge_evidence import JudgedTask, gather, judged_task
from seatrial.jobs.judge_model import BudgetSpentError, JudgeModel, graded_by_themselves, judge_refs, open_judges
from seatrial.jobs.turns import BEHAVIOUR, MOST_TURNS, TURN_RUBRIC, read_turns, turn_questions
from seatrial.judge.assess import Subject, assess
from seatrial.judge.evidence import Piece
from seatrial.judge.rubric import Rubric, load_rubric
from seatrial.model.assessment import Assessment, JudgeRef
from seatrial.store.index import TrialEntry
from seatrial.store.job_store import JobStore
from seatrial.store.journal import assessment_journal, behaviour_journal
from seatrial.tasks.layout import RUBRIC_FILE
from seatrial.trial.rubric_verifier import read_references

USUAL_CONCURRENT = 8
_MOST_FAILURES = 10
"""So many trials may lose their assessment one after the other before the rest is given up."""

_NAMED = 5
_NOT_GRADED = ("infrastructure_error", "cancelled")


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """What is asked for. Without a `rubric` each task's own `tests/rubric.toml` is used, without `models` those that a
    rubric names.
    """

    rubric: Path | None = None
    models: tuple[str, ...] = ()
    upstream: str | None = None
    samples: int | None = None
    concurrent: int | None = None
    max_cost_usd: float | None = None
    allow_self: bool = False
    turns: bool = False
    """Ask for the behaviour in each turn, in place of a rubric's questions."""


@dataclass(frozen=True, slots=True)
class OpenRubric:
    """A rubric with its references, and the judges that it is put to."""

    rubric: Rubric
    references: tuple[Piece, ...]
    judges: tuple[JudgeRef, ...]


@dataclass(frozen=True, slots=True)
class PreparedJudging:
    """Trials that are to be assessed, and what that takes."""

    store: JobStore
    trials: tuple[TrialEntry, ...]
    rubrics: Mapping[str, OpenRubric]
    """By the ids of tasks."""

    tasks: Mapping[str, JudgedTask]
    options: JudgeOptions
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of one trial: an assessment, an earlier one, or the reason why there is none."""

    trial_id: str
    assessment: Assessment | None = None
    is_earlier: bool = False
    failure: str | None = None


@dataclass(slots=True)
class JudgingOutcome:
    """What became of all of them; assessments are told one by one, and not kept here."""

    ended: int = 0
    failed: list[Judged] = field(default_factory=list)
    stopped: str | None = None
    """Why the rest was not tried."""


def prepare_judging(store: JobStore, trials: Sequence[TrialEntry], options: JudgeOptions) -> PreparedJudging:
    """Find out whether and how trials can be assessed, before any judge is asked. Raises UsageError."""
    notices = []
    graded = [trial for trial in trials if trial.outcome not in _NOT_GRADED]
    if missing := len(trials) - len(graded):
        notices.append(f"{missing:,} of {len(trials):,} trials have no result, so there is nothing to judge in them")
    wanted = {trial.task_id for trial in graded}
    tasks = {task.id: judged_task(task, is_own=store.is_own) for task in store.file.tasks if task.id in wanted}
    rubrics = _rubrics(tasks, options)
    if options.rubric is None and not options.turns:
        notices += [f"{task_id}: {task.trouble}" for task_id, task in tasks.items() if task.task is None][:_NAMED]
    if without := sorted(wanted - rubrics.keys()):
        notices.append(f"no tests/{RUBRIC_FILE} to judge their trials by: {_some(without)}")
    notices += dict.fromkeys(f"{each.rubric.name}: {note}" for each in rubrics.values() for note in each.rubric.notes)
    chosen = tuple(trial for trial in graded if trial.task_id in rubrics)
    if not chosen:
        raise UsageError(f"{store.path}: no trial can be judged; {'; '.join(notices) or 'none fits the filter'}")
    _refuse_self(store, chosen, rubrics, options)
    return PreparedJudging(store, chosen, rubrics, tasks, options, tuple(notices))


def _rubrics(tasks: Mapping[str, JudgedTask], options: JudgeOptions) -> dict[str, OpenRubric]:
    if options.turns:
        rubric = _sampled(TURN_RUBRIC, options)
        return dict.fromkeys(tasks, OpenRubric(rubric, (), _judges(rubric, options, BEHAVIOUR)))
    if options.rubric is not None:
        opened = open_rubric(options.rubric, options)
        return dict.fromkeys(tasks, opened)
    found = {}
    for task_id, judged in tasks.items():
        path = judged.task.root / "tests" / RUBRIC_FILE if judged.task else None
        if path is not None and path.is_file():
            found[task_id] = open_rubric(path, options, task_id)
    return found


def open_rubric(path: Path, options: JudgeOptions, name: str | None = None) -> OpenRubric:
    """A rubric file with what it refers to. Raises RubricError, and UsageError where a judge is there twice."""
    rubric = _sampled(load_rubric(path, name), options)
    return OpenRubric(rubric, read_references(rubric, path.parent), _judges(rubric, options, path))


def _sampled(rubric: Rubric, options: JudgeOptions) -> Rubric:
    return rubric.model_copy(update={"samples": options.samples or rubric.samples})


def _judges(rubric: Rubric, options: JudgeOptions, where: object) -> tuple[JudgeRef, ...]:
    models = options.models or rubric.models
    if not models:
        raise RubricError("no_judge", f"{where}: names no model, and none was given; add --judge MODEL")
    judges = judge_refs(models, options.upstream)
    if len({judge.model for judge in judges}) < len(judges):
        raise UsageError(f"the judges {', '.join(models)} are the same model; name each once, or use --samples")
    return tuple(judges)


def _refuse_self(
    store: JobStore, trials: Sequence[TrialEntry], rubrics: Mapping[str, OpenRubric], options: JudgeOptions
) -> None:
    if options.allow_self:
        return
    chosen = {trial.agent for trial in trials}
    models = {agent.title: agent.model for agent in store.file.spec.agents if agent.model and agent.title in chosen}
    judges = list(dict.fromkeys(judge for each in rubrics.values() for judge in each.judges))
    if found := graded_by_themselves(judges, models):
        model, agent = found[0]
        raise UsageError(
            f"the judge {model} is the model of the agent {agent!r}, and models prefer their own work; "
            "choose another judge, leave those trials out with --where, or add --allow-self"
        )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else "")


async def run_judging(job: PreparedJudging, observe: Callable[[Judged], object] = lambda _: None) -> JudgingOutcome:
    """Assess the trials. An assessment is on the disk before `observe` is told of it.

    Raises StoreError when results cannot be stored. Then, and when cancelled, what is stored stays.
    """
    refs = list(dict.fromkeys(judge for each in job.rubrics.values() for judge in each.judges))
    prices, ca_file = means_of(job.store)
    async with open_judges(refs, prices, job.options.max_cost_usd, ca_file) as opened:
        run = _JudgingRun(job, dict(zip(refs, opened, strict=True)))

        def done(_: TrialEntry, judged: Judged | None) -> None:
            if judged is not None:
                run.note(judged)
                observe(judged)

        await run_all(job.trials, run.judge, job.options.concurrent or USUAL_CONCURRENT, done)
    return run.outcome


def means_of(store: JobStore | None) -> tuple[PriceTable, str | None]:
    """The prices and certificates of a job, which judges of it use too."""
    # A stranger's job names files of another machine.
    spec = store.file.spec if store and store.is_own else None
    prices = load_prices(Path(spec.model.prices) if spec and spec.model.prices else None)
    return prices, spec.trial.ca_file if spec else None


class _JudgingRun:
    """The trials that are being assessed."""

    def __init__(self, job: PreparedJudging, models: Mapping[JudgeRef, JudgeModel]) -> None:
        self._job = job
        self._models = models
        # A journal of its own: what it has read is let go of, trial by trial.
        journal = behaviour_journal if job.options.turns else assessment_journal
        self._known = {**journal(job.store.path).read()}
        self._failures = 0
        self.outcome = JudgingOutcome()

    async def judge(self, trial: TrialEntry) -> Judged | None:
        """Assess one trial and store it; None where the rest is given up."""
        if self.outcome.stopped is not None:
            return None
        try:
            return await self._judge(trial)
        except BudgetSpentError as error:
            self.outcome.stopped = str(error)
            return Judged(trial.trial_id, failure=str(error))
        except (ModelError, OverlongPromptError) as error:
            return Judged(trial.trial_id, failure=f"{type(error).__name__}: {error}")

    async def _judge(self, trial: TrialEntry) -> Judged:
        job, opened = self._job, self._job.rubrics[trial.task_id]
        known = self._known.pop(trial.trial_id, ())
        try:
            revisions = job.store.revisions(trial.trial_id)
        except SeatrialError as error:
            return Judged(trial.trial_id, failure=str(error))
        rubric = opened.rubric
        left_out = ""
        if job.options.turns:
            turns = read_turns(revisions[0].folder, revisions[-1].record)
            rubric, evidence = turn_questions(turns, rubric)
            if len(turns.turns) > MOST_TURNS:
                left_out = f"turns: those after the first {MOST_TURNS:,} of {len(turns.turns):,} are left out"
        else:
            evidence = gather(job.store, revisions, job.tasks[trial.task_id], rubric, opened.references)
        judges = [self._models[ref].for_trial() for ref in opened.judges]
        subject = Subject(trial.trial_id, revisions[-1].record.revision)
        found = await assess(subject, evidence, rubric, judges, known=known, version=__version__)
        if found is None:
            return Judged(trial.trial_id, _latest(known, rubric, subject), is_earlier=True)
        if left_out:
            found = found.model_copy(update={"cuts": (*found.cuts, left_out)})
        keep = job.store.add_behaviour if job.options.turns else job.store.add_assessment
        keep(found)  # before anything else is waited for, so that no interruption can lose it
        return Judged(trial.trial_id, found)

    def note(self, judged: Judged) -> None:
        """Count a trial; where one after the other fails, give the rest up."""
        self.outcome.ended += 1
        if judged.failure is not None:
            self.outcome.failed.append(judged)
        self._failures = self._failures + 1 if judged.failure is not None else 0
        if self._failures >= _MOST_FAILURES and self.outcome.stopped is None:
            self.outcome.stopped = f"{self._failures} trials failed one after the other, the last with {judged.failure}"


def _latest(known: Sequence[Assessment], rubric: Rubric, subject: Subject) -> Assessment | None:
    """The latest assessment of a revision by a rubric."""
    alike = (each for each in reversed(known) if each.rubric_digest == rubric.digest)
    return next((each for each in alike if each.revision == subject.revision), None)
