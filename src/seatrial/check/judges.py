"""Is a judge any good? The battery of `judge.battery`, on trials of a job or on the golden answers of a task."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from seatrial.check.golden import PASS, GoldenAnswer, find_golden
from seatrial.errors import StoreError, UsageError
from seatrial.jobs.judge_evidence import JudgedTask, gather, gather_answer
from seatrial.jobs.judge_model import open_judges
from seatrial.jobs.judging import USUAL_CONCURRENT, JudgeOptions, OpenRubric, means_of, open_rubric, prepare_judging
from seatrial.judge.battery import ProbeResult, Work, check_judge
from seatrial.judge.evidence import READ_BYTES
from seatrial.model.outcome import PASS_THRESHOLD
from seatrial.store.index import TrialEntry
from seatrial.store.job_store import JobStore
from seatrial.tasks.layout import RUBRIC_FILE
from seatrial.tasks.load import load_task
from seatrial.untrusted.files import BoundedContent, read_bounded

_MOST_WORKS = 3
_MOST_GOLDEN = 6
_MOST_FILES = 100


@dataclass(frozen=True, slots=True)
class JudgeSubject:
    """A rubric with its judges, and the work that they are shown. `threshold` is the pass mark."""

    opened: OpenRubric
    works: tuple[Work, ...]
    threshold: float = PASS_THRESHOLD


@dataclass(frozen=True, slots=True)
class CheckedJudge:
    """What the battery found of one judge with one rubric."""

    judge: str
    rubric: str
    works: tuple[str, ...]
    probes: tuple[ProbeResult, ...]

    @property
    def failed(self) -> bool:
        return any(probe.state == "fail" for probe in self.probes)


def subjects_of_job(store: JobStore, trials: Sequence[TrialEntry], options: JudgeOptions) -> list[JudgeSubject]:
    """By each rubric a few trials of a job, with different outcomes first, and golden answers of one of their tasks."""
    job = prepare_judging(store, trials, options)
    by_rubric: dict[str, list[TrialEntry]] = {}
    for trial in job.trials:
        by_rubric.setdefault(job.rubrics[trial.task_id].rubric.digest, []).append(trial)
    subjects = []
    for mine in by_rubric.values():
        opened = job.rubrics[mine[0].task_id]
        works = []
        for trial in _spread(mine):
            evidence = gather(
                store, store.revisions(trial.trial_id), job.tasks[trial.task_id], opened.rubric, opened.references
            )
            works.append(Work(trial.trial_id, evidence))
        works += _golden(job.tasks[mine[0].task_id], opened)
        subjects.append(JudgeSubject(opened, tuple(works), store.file.spec.trial.pass_threshold))
    return subjects


def _spread(trials: Sequence[TrialEntry]) -> list[TrialEntry]:
    """A few trials: one of each outcome, then others."""
    firsts = [*{trial.outcome: trial for trial in reversed(trials)}.values()]
    return [*firsts, *(trial for trial in trials if trial not in firsts)][:_MOST_WORKS]


def subjects_of_task(folder: Path, options: JudgeOptions) -> list[JudgeSubject]:
    """The golden answers of a task by its own rubric or another one; without any, an output that is empty."""
    task = JudgedTask(load_task(folder))
    path = options.rubric or folder / "tests" / RUBRIC_FILE
    if not path.is_file():
        raise UsageError(f"{path}: there is no such rubric; name one with --rubric FILE")
    opened = open_rubric(path, options)
    works = _golden(task, opened)
    if not works:
        place = next((each.judged.output.path for each in task.rounds if each.judged.output.path), "/output")
        empty = {place: BoundedContent(b"", b"", 0)}
        works = [Work("no answer", gather_answer(task, empty, opened.rubric, opened.references))]
    return [JudgeSubject(opened, tuple(works))]


def _golden(task: JudgedTask, opened: OpenRubric) -> list[Work]:
    if task.task is None:
        return []
    root, works = task.task.root, []
    output = next((each.judged.output.path for each in task.rounds if each.judged.output.path), None)
    for answer in find_golden(root, task.task.workdir, output).answers[:_MOST_GOLDEN]:
        files = dict(_files(answer, root))
        evidence = gather_answer(task, files, opened.rubric, opened.references)
        works.append(Work(answer.name, evidence, answer.name.startswith(PASS)))
    return works


def _files(answer: GoldenAnswer, root: Path) -> Iterator[tuple[str, BoundedContent]]:
    """The files of a golden answer, by their paths in the sandbox."""
    is_file = answer.source.is_file()
    paths = [answer.source] if is_file else sorted(answer.source.rglob("*"))[:_MOST_FILES]
    for path in paths:
        if path.is_file():
            below = "" if is_file else f"/{path.relative_to(answer.source)}"
            try:
                yield f"{answer.target.rstrip('/')}{below}", read_bounded(path, root, READ_BYTES)
            except StoreError:
                continue


async def check_judges(
    subjects: Sequence[JudgeSubject], options: JudgeOptions, store: JobStore | None = None
) -> list[CheckedJudge]:
    """Put the battery to every judge of every rubric. Raises ModelError where a provider fails."""
    refs = list(dict.fromkeys(judge for each in subjects for judge in each.opened.judges))
    found = []
    prices, ca_file = means_of(store)
    async with open_judges(refs, prices, options.max_cost_usd, ca_file) as models:
        opened = dict(zip(refs, models, strict=True))
        for subject in subjects:
            for ref in subject.opened.judges:
                probes = await check_judge(
                    subject.opened.rubric,
                    subject.works,
                    opened[ref].for_trial,
                    threshold=subject.threshold,
                    at_once=options.concurrent or USUAL_CONCURRENT,
                )
                names = tuple(work.name for work in subject.works)
                found.append(CheckedJudge(ref.model, subject.opened.rubric.name, names, tuple(probes)))
    return found


def checked_json(checked: Sequence[CheckedJudge]) -> Mapping[str, Any]:
    """What was found, as one JSON object."""
    return {"passed": not any(each.failed for each in checked), "judges": [asdict(each) for each in checked]}
