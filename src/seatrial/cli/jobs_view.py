"""Jobs on the screen, one or several: a row for each arm, and what is asked for beyond that."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import click

from seatrial.analysis.arms import Arm, arms_of
from seatrial.analysis.figures import Figures, figures_of
from seatrial.analysis.groups import TASK_KEYS, Group, GroupKey, group_trials, sort_figures
from seatrial.analysis.heat import heat_map
from seatrial.analysis.loaded import LoadedJob
from seatrial.analysis.taxonomy import Taxonomy, taxonomy_of
from seatrial.cli.heat_view import show_heat
from seatrial.cli.job_view import show_beside, show_causes, show_intervals, show_models, show_trials, show_uncounted
from seatrial.cli.program import command_line
from seatrial.cli.render import show_line, show_table
from seatrial.cli.show_options import ShowOptions, Sorting
from seatrial.report.figure_text import ATTEMPT_COLUMNS, GroupTable, attempt_rows, stability_line, times_line
from seatrial.report.text import SUMMARY_COLUMNS, counted, format_reward, judged_cells

_ROWS = 40
_BY_VERDICT = "These trials were chosen by their verdict, so a mean of them would say nothing."
_CAUSES = 5


@dataclass(frozen=True)
class JobsShown:
    """Jobs with what is shown of them, in the order in which it is shown."""

    jobs: Sequence[LoadedJob]
    options: ShowOptions
    arms: Sequence[Arm]
    figures: Mapping[str, Figures]

    def groups(self, key: GroupKey) -> list[Group]:
        """Their trials in groups."""
        found = group_trials(self.arms, key, self.options.ks)
        rows = [(group.name or "", group.figures) for group in found]
        return [found[at] for at in _order(rows, self.options.sort)]


def examine(jobs: Sequence[LoadedJob], options: ShowOptions) -> JobsShown:
    """Compute what is shown of jobs."""
    arms = arms_of(jobs)
    figures = {arm.label: figures_of(arm, ks=options.ks) for arm in arms}
    order = _order([*figures.items()], options.sort)
    return JobsShown(
        jobs, options, [arms[at] for at in order], {arms[at].label: figures[arms[at].label] for at in order}
    )


def _order(rows: Sequence[tuple[str, Figures]], sort: Sorting | None) -> Sequence[int]:
    return range(len(rows)) if sort is None else sort_figures(rows, sort.key, reverse=sort.reverse)


def show_jobs(shown: JobsShown) -> None:
    """Everything that is asked for; what is there and does not count, and what is left to do, last."""
    for job in shown.jobs:
        show_line(_title(job))
        if job.shown:
            show_line(job.shown)
    options = shown.options
    if options.by:
        _show_groups(shown, options.by)
    if options.heat:
        show_heat(heat_map(shown.arms), everything=options.everything)
    if not options.by and not options.heat:
        _show_summary(shown)
    for job in shown.jobs:
        show_uncounted(job.store, job.uncounted, everything=options.everything)
        if job.summary.open:
            click.echo(_how_to_continue(job), err=True)


def _title(job: LoadedJob) -> str:
    spec = job.file.spec
    agents = ", ".join(agent.title for agent in spec.agents)
    sizes = counted(len(job.file.tasks), "task"), counted(spec.attempts, "attempt")
    thresholds = " or ".join(map(format_reward, job.thresholds))
    threshold = () if job.thresholds == (1.0,) else (f"passed from {thresholds} on",)
    begun = f"begun {job.file.created_at.isoformat(sep=' ', timespec='seconds')}"
    return " · ".join((spec.name, *sizes, f"agents {agents}", *threshold, begun))


def _show_summary(shown: JobsShown) -> None:
    tallies = {name: figures.tally for name, figures in shown.figures.items()}
    if shown.options.is_by_verdict:
        show_line(_BY_VERDICT)
        show_beside({name: replace(tally, mean_if_failed=None, trial_mean=None) for name, tally in tallies.items()})
    else:
        show_table("", SUMMARY_COLUMNS, [(name, *judged_cells(tally)) for name, tally in tallies.items()])
        show_intervals(tallies.values())
        lines = {name: (stability_line(each), times_line(each)) for name, each in shown.figures.items()}
        show_beside(tallies, {name: [line for line in both if line] for name, both in lines.items()})
        _show_attempts(shown)
    for job in shown.jobs:
        show_causes(job.summary)
    _show_failures(taxonomy_of(shown.arms, level=None), everything=shown.options.everything)
    show_models(tallies)
    if len(shown.jobs) == 1:
        show_trials(shown.jobs[0].trials, everything=shown.options.everything)
    else:
        show_line("The trials of a job are listed by `seatrial show` with its folder alone.")


def _show_attempts(shown: JobsShown) -> None:
    """pass@k and pass^k: those that are asked for, else those beyond the pass rate."""
    asked = shown.options.ks
    if rows := [*attempt_rows(shown.figures, 2 if asked is None else 1)]:
        show_table("attempts", ATTEMPT_COLUMNS, rows)
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
        show_table(title, [columns[at] for at in keep], [[row[at] for at in keep] for row in chosen])
        if len(rows) > len(chosen):
            click.echo(f"{title}: {counted(len(rows) - len(chosen), 'more row')}; --all shows them", err=True)


def _show_groups(shown: JobsShown, key: GroupKey) -> None:
    groups = shown.groups(key)
    chosen = groups if shown.options.everything else groups[:_ROWS]
    sort = shown.options.sort.key if shown.options.sort else None
    table = GroupTable(chosen, key, shown.arms, sort, by_verdict=shown.options.is_by_verdict)
    if not groups:
        show_line("There is no trial to group.")
        return
    show_table("", table.columns, table.rows)
    if len(groups) > len(chosen):
        click.echo(f"{counted(len(groups) - len(chosen), 'more row')}; --all shows them", err=True)
    if shown.options.is_by_verdict:
        show_line(_BY_VERDICT)
    elif key not in ("task", "outcome"):
        show_intervals(group.figures.tally for group in groups)
    if key == "tag":
        show_line("A task with several tags counts in the row of each.")
    elif key not in TASK_KEYS and key != "outcome" and len(shown.arms) > len(groups):
        show_line("Rows are across agents and jobs: a task's mean is over all trials of it.")


def _how_to_continue(job: LoadedJob) -> str:
    trials = counted(job.summary.open, "trial has", "trials have")
    if job.file.driver == "import":
        return f"{trials} no result in what was imported."
    if job.file.driver == "environment":
        return f"{trials} no record yet. Continue with: evaluate(…, resume=True)"
    return f"{trials} not run yet. Continue with: {command_line('resume', str(job.path))}"
