"""`seatrial show JOB... [TRIAL]`: what jobs amount to, or everything about one trial of a job."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import click

from seatrial.analysis.arms import Arm, arms_of
from seatrial.analysis.assessed import assessed_record
from seatrial.analysis.failures import Taxonomy, taxonomy_of
from seatrial.analysis.figures import Figures, figures_of
from seatrial.analysis.figures_json import arms_json, groups_json, heat_json
from seatrial.analysis.groups import (
    GROUP_KEYS,
    SORT_KEYS,
    TASK_KEYS,
    Group,
    GroupKey,
    HeatMap,
    SortKey,
    group_trials,
    heat_map,
    sort_figures,
)
from seatrial.analysis.loaded import Filter, LoadedJob, load_jobs, reviewed_record
from seatrial.analysis.summary import summary_json
from seatrial.analysis.tables import Table
from seatrial.cli.analysis_options import where_option
from seatrial.cli.job_view import (
    find_trial,
    show_beside,
    show_causes,
    show_intervals,
    show_models,
    show_trials,
    show_uncounted,
)
from seatrial.cli.options import Command
from seatrial.cli.program import command_line
from seatrial.cli.screen import paint, screen_width, show_line, show_table, show_warning
from seatrial.cli.trial_view import show_trial
from seatrial.errors import JobError, UsageError
from seatrial.model.assessment import Assessment
from seatrial.model.evaluation import Annotation
from seatrial.model.outcome import PASS_THRESHOLD, format_reward
from seatrial.model.record import TrialRecord
from seatrial.report.heat_text import heat_lines
from seatrial.report.judges import judge_lines
from seatrial.report.tables import attempts_table, groups_table, summary_table
from seatrial.report.text import counted, harmless, stability_line, times_line
from seatrial.review.judges import judge_figures, judges_in_short
from seatrial.store.files import JOB
from seatrial.store.job_store import JobStore

_OF_EVALUATIONS = ("rollouts.jsonl", "results.jsonl")
_ROWS = 40
_BY_VERDICT = "These trials were chosen by their verdict, so a mean of them would say nothing."
_CAUSES = 5


@dataclass(frozen=True, slots=True)
class _Sorting:
    """By what rows are sorted; numbers from the largest, unless reversed."""

    key: SortKey
    reverse: bool


@dataclass(frozen=True, slots=True)
class _ShowOptions:
    """What is asked for. Without `by` and `heat` that is a summary of everything."""

    where: Filter
    by: GroupKey | None = None
    sort: _Sorting | None = None
    heat: bool = False
    ks: Sequence[int] | None = None
    everything: bool = False

    @property
    def is_by_verdict(self) -> bool:
        """Whether trials are chosen by what their verifier said, so that their mean is no news."""
        return any(condition.key in ("outcome", "reward") for condition in self.where.conditions)


def _show_options(command: Command) -> Command:
    """Give a command these options, under the names of _ShowOptions."""
    options = (
        click.option("--by", type=click.Choice(GROUP_KEYS), help="A row for each of these, instead of the summary."),
        where_option("Show"),
        click.option(
            "--sort",
            metavar="KEY",
            callback=_parse_sort,
            help=f"Sort by {', '.join(SORT_KEYS)}; numbers from the largest. -KEY is the other way round.",
        ),
        click.option("--heat", is_flag=True, help="Draw a map of tasks and agents, easy tasks first."),
        click.option("--k", "ks", metavar="K,…", callback=_parse_ks, help="Show pass@k and pass^k for these k."),
        click.option("--all", "everything", is_flag=True, help="Show every row, however many there are."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _parse_sort(_: click.Context, option: click.Parameter, value: str | None) -> _Sorting | None:
    if value is None:
        return None
    for key in SORT_KEYS:
        if value.removeprefix("-") == key:
            return _Sorting(key, value.startswith("-"))
    raise click.BadParameter(f"{value!r} is none of {', '.join(SORT_KEYS)}, nor one of them with a -", param=option)


def _parse_ks(_: click.Context, option: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    if value is None:
        return None
    numbers = value.split(",")
    if not all(number.strip().isascii() and number.strip().isdigit() and int(number) for number in numbers):
        raise click.BadParameter(f"{value!r}: expected whole numbers from 1 on, such as 1,5", param=option)
    return tuple(sorted({int(number) for number in numbers}))


class _NamedJobs(NamedTuple):
    """Folders of jobs; with a `trial` there is one."""

    jobs: tuple[Path, ...]
    trial: str | None = None


@dataclass(frozen=True)
class _JobsShown:
    """Jobs with what is shown of them, in the order in which it is shown."""

    jobs: Sequence[LoadedJob]
    options: _ShowOptions
    arms: Sequence[Arm]
    figures: Mapping[str, Figures]

    def groups(self, key: GroupKey) -> list[Group]:
        found = group_trials(self.arms, key, self.options.ks)
        rows = [(group.name or "", group.figures) for group in found]
        return [found[at] for at in _order(rows, self.options.sort)]


@click.command("show")
@click.argument("words", nargs=-1, required=True, metavar="JOB... [TRIAL]")
@_show_options
@click.option("--json", "as_json", is_flag=True, help="Print all of it, or the trial's record, as one JSON object.")
def command(words: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Show the jobs in folders JOB, or one TRIAL of a job, named by its id or by any part that no other has.

    A folder of `seatrial eval` whose rollouts are no trials, or of verifiers, shows what its rollouts amount to.

    \b
    seatrial show jobs/mine                       the summary and the worst trials
    seatrial show jobs/a jobs/b --by category     a row per category and agent
    seatrial show jobs/mine --where outcome=fail  only trials that failed
    seatrial show jobs/mine crc                   everything about one trial
    """
    if all(_is_evaluation(word) for word in words):
        _show_evaluations([Path(word) for word in words], as_json=as_json)
        return
    named, asked = read_words(words), _ShowOptions(**options)
    if named.trial is not None:
        _show_trial(named, as_json=as_json)
        return
    jobs = load_jobs(named.jobs, asked.where)
    shown = _examine(jobs, asked)
    if as_json:
        click.echo(json.dumps(_document(shown), indent=2))
    else:
        _show_jobs(shown)


def _show_evaluations(folders: list[Path], *, as_json: bool) -> None:
    """Rollouts of `seatrial eval`, or of verifiers, that are no trials of a job."""
    from seatrial.cli.eval_running import figures_json, show_evaluation, stored_figures  # noqa: PLC0415

    if as_json:
        found = [{"folder": str(folder), **figures_json(stored_figures(folder))} for folder in folders]
        click.echo(json.dumps(found[0] if len(found) == 1 else {"evaluations": found}, indent=2))
        return
    for folder in folders:
        click.echo(harmless(str(folder)))
        show_evaluation(folder)


def _show_trial(named: _NamedJobs, *, as_json: bool) -> None:
    store, trial_id = _open_with_trial(named, lambda store, word: find_trial(store, word).trial_id)
    revisions, said = store.revisions(trial_id), store.annotations_of(trial_id, show_warning)
    assessments = store.assessments(show_warning).get(trial_id, [])
    reviewed = reviewed_record(revisions[-1].record, store.reviews().get(trial_id, ()))
    record = assessed_record(reviewed, assessments)
    if as_json:
        _show_trial_json(record, [each.record for each in revisions], said, assessments)
        return
    from seatrial.analysis.behaviour import behaviour_of  # noqa: PLC0415 - reads calls, which no summary needs
    from seatrial.report.behaviour import behaviour_facts  # noqa: PLC0415

    behaviour = behaviour_facts(behaviour_of(store, revisions))
    show_trial(record, revisions, said, assessments, behaviour, store.file.seatrial_version)


def _document(shown: _JobsShown) -> dict[str, Any]:
    """One job as one object; several as a list of such under `jobs`. What is about all of them is beside it."""
    jobs = [_job_document(job) for job in shown.jobs]
    document: dict[str, Any] = jobs[0] if len(jobs) == 1 else {"jobs": jobs}
    document["arms"] = arms_json(shown.arms, shown.figures)
    document["failures"] = asdict(taxonomy_of(shown.arms))
    if judges := judge_figures(shown.jobs):
        document["judges"] = judges_in_short(judges)
    if shown.options.by:
        document["grouped"] = groups_json(shown.options.by, shown.groups(shown.options.by))
    if shown.options.heat:
        document["heat"] = heat_json(heat_map(shown.arms))
    return document


def _job_document(job: LoadedJob) -> dict[str, Any]:
    return {
        "folder": str(job.path),
        "job": job.file.model_dump(mode="json"),
        "summary": summary_json(job.summary),
        "where": str(job.filter) or None,
        "trials": [entry._asdict() for entry in job.trials],
        "annotations": _annotations_json(job.store.annotations(show_warning)),
        "uncounted": [asdict(found) for found in job.uncounted],
    }


def read_words(words: Sequence[str]) -> _NamedJobs:
    """A last word that is no folder with a job is a trial of the one job before it.

    Raises UsageError where several jobs stand before such a word, since it may be a folder that is missing.
    """
    *before, last = words
    if not before or _is_job(last):
        return _NamedJobs(tuple(map(Path, words)))
    if len(before) > 1:
        raise UsageError(
            f"{harmless(last)!r} is no folder with a job, and a trial is shown of one job, not of {len(before)}; "
            "name folders that `seatrial run` made, or one of them and a trial"
        )
    return _NamedJobs((Path(before[0]),), last)


def _open_with_trial(named: _NamedJobs, find: Callable[[JobStore, str], str]) -> tuple[JobStore, str]:
    """The job and the id of the trial of it. Raises JobError that says what else the word could have been."""
    store = JobStore.open(named.jobs[0])
    word = named.trial or ""
    try:
        return store, find(store, word)
    except JobError as error:
        if not _looks_like_folder(word):
            raise
        raise JobError(f"{harmless(word)!r} is no folder with a job, and {error}") from error


def _is_evaluation(word: str) -> bool:
    """Whether a word names a folder with rollouts that are not the trials of a job: ours, or those of verifiers."""
    try:
        return not _is_job(word) and any((Path(word) / name).is_file() for name in _OF_EVALUATIONS)
    except (OSError, ValueError):
        return False


def _is_job(word: str) -> bool:
    try:
        return (Path(word) / JOB).is_file()
    except (OSError, ValueError):
        return False


def _looks_like_folder(word: str) -> bool:
    try:
        return "/" in word or Path(word).exists()
    except (OSError, ValueError):
        return False


def _show_trial_json(
    record: TrialRecord,
    records: Sequence[TrialRecord],
    said: Sequence[Annotation],
    assessments: Sequence[Assessment],
) -> None:
    """The record that counts, with what reviewers said in its evaluation; beside it where there is no evaluation.

    Where the trial was judged again, `revisions` has all records as they were stored, the first one first. Where judges
    were asked, `assessments` has all of their answers.
    """
    document = record.model_dump(mode="json")
    if said and record.evaluation is None:
        document["annotations"] = [each.model_dump(mode="json") for each in said]
    if len(records) > 1:
        document["revisions"] = [record.model_dump(mode="json") for record in records]
    if assessments:
        document["assessments"] = [each.model_dump(mode="json") for each in assessments]
    click.echo(json.dumps(document, indent=2))


def _annotations_json(every: Mapping[str, Sequence[Annotation]]) -> dict[str, list[dict[str, Any]]]:
    return {trial: [each.model_dump(mode="json") for each in said] for trial, said in sorted(every.items())}


def _examine(jobs: Sequence[LoadedJob], options: _ShowOptions) -> _JobsShown:
    arms = arms_of(jobs)
    figures = {arm.label: figures_of(arm.selected, ks=options.ks) for arm in arms}
    order = _order([*figures.items()], options.sort)
    return _JobsShown(
        jobs, options, [arms[at] for at in order], {arms[at].label: figures[arms[at].label] for at in order}
    )


def _order(rows: Sequence[tuple[str, Figures]], sort: _Sorting | None) -> Sequence[int]:
    return range(len(rows)) if sort is None else sort_figures(rows, sort.key, reverse=sort.reverse)


def _show_jobs(shown: _JobsShown) -> None:
    """Everything that is asked for; what is there and does not count, and what is left to do, last."""
    for job in shown.jobs:
        show_line(_title(job))
        if job.shown:
            show_line(job.shown)
    options = shown.options
    if options.by:
        _show_groups(shown, options.by)
    if options.heat:
        _show_heat(heat_map(shown.arms), everything=options.everything)
    if not options.by and not options.heat:
        _show_summary(shown)
    for line in judge_lines(judge_figures(shown.jobs)):
        show_line(line)
    for job in shown.jobs:
        show_uncounted(job.store, job.uncounted, everything=options.everything)
        newer = sum(found.newer and not found.revision for found in job.uncounted)
        if (waiting := job.summary.open - newer) > 0:
            click.echo(_how_to_continue(job, waiting), err=True)


def _title(job: LoadedJob) -> str:
    spec = job.file.spec
    agents = ", ".join(agent.title for agent in spec.agents)
    sizes = counted(len(job.file.tasks), "task"), counted(spec.attempts, "attempt")
    thresholds = " or ".join(map(format_reward, job.thresholds))
    threshold = () if job.thresholds == (PASS_THRESHOLD,) else (f"passed from {thresholds} on",)
    begun = f"begun {job.file.created_at.isoformat(sep=' ', timespec='seconds')}"
    return " · ".join((spec.name, *sizes, f"agents {agents}", *threshold, begun))


def _show_summary(shown: _JobsShown) -> None:
    if shown.options.is_by_verdict:
        show_line(_BY_VERDICT)
        figures = shown.figures.items()
        show_beside({name: replace(each, mean_if_failed=None, trial_mean=None) for name, each in figures})
    else:
        show_table("", summary_table(shown.figures))
        show_intervals(shown.figures.values())
        lines = {name: (stability_line(each), times_line(each)) for name, each in shown.figures.items()}
        show_beside(shown.figures, {name: [line for line in both if line] for name, both in lines.items()})
        _show_attempts(shown)
    for job in shown.jobs:
        show_causes(job.summary)
    _show_failures(taxonomy_of(shown.arms, level=None), everything=shown.options.everything)
    show_models(shown.figures)
    if len(shown.jobs) == 1:
        show_trials(shown.jobs[0].trials, everything=shown.options.everything)
    else:
        show_line("The trials of a job are listed by `seatrial show` with its folder alone.")


def _show_attempts(shown: _JobsShown) -> None:
    """pass@k and pass^k: those that are asked for, else those beyond the pass rate."""
    asked = shown.options.ks
    table = attempts_table(shown.figures, 2 if asked is None else 1)
    if table.rows:
        show_table("attempts", table)
    for k in asked or ():
        if not any(k in figures.pass_at for figures in shown.figures.values()):
            show_line(f"pass@{k}: no task was judged {counted(k, 'time')}")


def _show_failures(found: Taxonomy, *, everything: bool) -> None:
    """What was classified as having gone wrong, the most frequent first, and the first step that was not passed."""
    several = len(found.totals) > 1
    tags = [
        (f"{count.category} ({count.source})", count.arm, f"{count.trials:,}", count.examples[0])
        for count in (*found.failures, *found.evidence)
    ]
    steps = [(count.step, count.arm, f"{count.trials:,}", count.example) for count in found.steps]
    for title, first, rows in (("what went wrong", "tag", tags), ("first step not passed", "step", steps)):
        chosen = rows if everything else rows[:_CAUSES]
        if not chosen:
            continue
        columns = (first, "agent", "trials", "such as")
        keep = [at for at, name in enumerate(columns) if several or name != "agent"]
        show_table(title, Table([columns[at] for at in keep], [[row[at] for at in keep] for row in chosen]))
        if len(rows) > len(chosen):
            click.echo(f"{title}: {counted(len(rows) - len(chosen), 'more row')}; --all shows them", err=True)


def _show_groups(shown: _JobsShown, key: GroupKey) -> None:
    groups = shown.groups(key)
    chosen = groups if shown.options.everything else groups[:_ROWS]
    sort = shown.options.sort.key if shown.options.sort else None
    table = groups_table(chosen, key, shown.arms, sort, by_verdict=shown.options.is_by_verdict)
    if not groups:
        show_line("There is no trial to group.")
        return
    show_table("", table)
    if len(groups) > len(chosen):
        click.echo(f"{counted(len(groups) - len(chosen), 'more row')}; --all shows them", err=True)
    if shown.options.is_by_verdict:
        show_line(_BY_VERDICT)
    elif key not in ("task", "outcome"):
        show_intervals(group.figures for group in groups)
    if key == "tag":
        show_line("A task with several tags counts in the row of each.")
    elif key not in TASK_KEYS and key != "outcome" and len(shown.arms) > len(groups):
        show_line("Rows are across agents and jobs: a task's mean is over all trials of it.")


def _how_to_continue(job: LoadedJob, waiting: int) -> str:
    trials = counted(waiting, "trial has", "trials have")
    if job.file.driver == "import":
        return f"{trials} no result in what was imported."
    if job.file.driver == "environment":
        return f"{trials} no record yet. Continue with: evaluate(…, resume=True)"
    return f"{trials} not run yet. Continue with: {command_line('resume', str(job.path))}"


def _show_heat(heat: HeatMap, *, everything: bool) -> None:
    """The map; on a terminal it folds where the screen ends."""
    for line in heat_lines(heat, screen_width(), everything=everything):
        click.echo("".join(paint(text, colour) for text, colour in line).rstrip())
