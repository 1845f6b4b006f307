"""The sections about agents: how good each is, and what that number rests on."""

import math
from collections.abc import Sequence

from seatrial.analysis.arms import Arm
from seatrial.analysis.failures import FailedCount, StepCount, TagCount, UnjudgedCount
from seatrial.analysis.figures import OUTCOMES, Figures, mean_of
from seatrial.analysis.groups import HeatCell, HeatMap
from seatrial.analysis.leaderboard import LeaderboardRow
from seatrial.model.outcome import Outcome, format_mean, format_reward
from seatrial.report import people
from seatrial.report.behaviour import behaviour_table, worklist_table
from seatrial.report.document import ReportDocument, in_words
from seatrial.report.html.parts import (
    REVIEWED,
    REVIEWED_BY_SEVERAL,
    SCORED_OUTCOMES,
    STEP,
    UNCLASSIFIED,
    PageCell,
    PageFigure,
    PageSection,
    PageTable,
    estimate_cell,
    name_cell,
    number_cell,
    page_table,
    people_mark,
    trials_link,
)
from seatrial.report.judges import judge_lines, judges_table
from seatrial.report.leaderboard import too_few_words
from seatrial.report.pictures.pictures import ForestRow, HeatRow, HeatSquare, forest_picture, heat_picture
from seatrial.report.text import OUTCOME_WORDS, counted, doubts, format_cost, format_duration, harmless
from seatrial.review.agreement import AgreementReport
from seatrial.stats.corrected import CorrectedMean
from seatrial.trajectories.behaviour import LOW

_MOST_ROWS = 60


def agents_section(document: ReportDocument) -> PageSection:
    """Means with their intervals, the highest first, as a picture and as a table."""
    level = f"{100 * document.options.level:g} %"
    drawn = document.leaderboard.rows[:_MOST_ROWS]
    caption = f"Each mean is over tasks; the line is its {level} interval."
    picture = forest_picture("forest", [_forest_row(row.arm, row.figures) for row in drawn])
    said = f"A trial passed with a reward of at least {' or '.join(map(format_reward, document.thresholds))}."
    figure = PageFigure(picture, caption, _table(document))
    return PageSection("agents", "How good is each agent?", (said, *_rank_words(document)), (figure,))


def _rank_words(document: ReportDocument) -> list[str]:
    """How ranks are to be read, where there are several, and what keeps some agents from having one."""
    board = document.leaderboard
    notes = [f"({number}) {note}" for number, note in enumerate(board.notes, start=1)]
    if board.compared == 0:
        return notes
    if board.ranking.too_few:
        return [f"No agent has a rank: {too_few_words(board)}", *notes]
    pairs = counted(board.compared, "comparison")
    said = f"A rank is the range that its agent may have by {pairs} over common tasks, after Holm for all of them."
    return [f"{said} Agents with the same letter cannot be told apart from the first that has it.", *notes]


def _rank_cell(row: LeaderboardRow) -> PageCell:
    notes = " ".join(f"({number})" for number in row.notes)
    if row.rank is None:
        return PageCell("-", note=notes)
    judged = trials_link(row.arm, outcome=SCORED_OUTCOMES)
    ranks = f"{row.rank.best}" if row.rank.best == row.rank.worst else f"{row.rank.best} to {row.rank.worst}"
    return PageCell(ranks, judged, note=f"{row.tie} {notes}".strip())


def _most_attempts(document: ReportDocument) -> int:
    """How many attempts any task of any agent has."""
    return max((k for figures in document.figures for k in figures.pass_at), default=0)


def _table(document: ReportDocument) -> PageTable:
    most = _most_attempts(document)
    several = (f"any of {most} passes", f"all of {most} pass") if most > 1 else ()
    shares = ("agent", "rank", "mean reward", "pass rate", *several)
    head = (*shares, "tasks", "always passed", "sometimes", "never", "median time", "cost per pass")
    rest = f"The picture has the first {_MOST_ROWS}." if len(document.arms) > _MOST_ROWS else ""
    rows = tuple(_agent_row(row, most) for row in document.leaderboard.rows)
    return PageTable("Agents, the highest mean first", head, rows, rest)


def _forest_row(arm: Arm, figures: Figures) -> ForestRow:
    mean, target = figures.estimate, trials_link(arm, outcome=SCORED_OUTCOMES)
    if mean is None:
        return ForestRow(arm.label, None, 0.0, 0.0, "nothing was judged", target)
    return ForestRow(arm.label, mean.value, mean.low, mean.high, in_words(mean), target)


def _agent_row(row: LeaderboardRow, most: int) -> tuple[PageCell, ...]:
    arm, figures = row.arm, row.figures
    several = (figures.pass_at, figures.pass_all) if most > 1 else ()
    stable, times, judged = figures.stability, figures.times, trials_link(arm, outcome=SCORED_OUTCOMES)
    return (
        name_cell(arm.label, trials_link(arm)),
        _rank_cell(row),
        estimate_cell(figures.estimate, judged),
        estimate_cell(figures.pass_estimate, trials_link(arm, outcome="pass")),
        *(estimate_cell(each.get(most), judged) for each in several),
        number_cell(f"{stable.tasks:,}", judged),
        *(number_cell(f"{tasks:,}", judged) for tasks in (stable.always, stable.flaky, stable.never)),
        number_cell(format_duration(times.median if times else None), trials_link(arm) if times else None),
        number_cell(format_cost(figures.cost_per_solved), trials_link(arm) if figures.solved else None),
    )


def denominators_section(document: ReportDocument) -> PageSection:
    """What became of every planned trial, and what the mean would be otherwise."""
    seen = [outcome for outcome in OUTCOMES if any(arm.figures.counts.get(outcome) for arm in document.arms)]
    head = ("agent", "planned", "run", "judged", *(OUTCOME_WORDS[outcome] for outcome in seen))
    rows = tuple(_counts(arm, seen) for arm in document.arms)
    counts = PageTable("Trials by what became of them", head, rows)
    means = PageTable(
        "The same trials, counted otherwise",
        (
            "agent",
            "mean over tasks",
            "mean over trials",
            "lowest it can be",
            "highest it can be",
            "tasks",
            "as sure as",
        ),
        tuple(map(_means, document.arms, document.figures, document.corrected)),
    )
    said = (
        "A mean is over judged trials only. What a broken machine or a verifier without a verdict left is no 0."
        " The lowest mean has all of it as 0, the highest as 1 and disputed verdicts at the higher one."
    )
    return PageSection("rests-on", "What does each mean rest on?", (said, *_doubts(document)), (), (counts, means))


def _counts(arm: Arm, seen: list[Outcome]) -> tuple[PageCell, ...]:
    figures = arm.figures
    return (
        name_cell(arm.label, trials_link(arm)),
        number_cell(f"{figures.planned:,}", trials_link(arm)),
        number_cell(f"{figures.finished:,}", trials_link(arm)),
        number_cell(f"{figures.scored:,}", trials_link(arm, outcome=SCORED_OUTCOMES)),
        *(_outcome(arm, figures, outcome) for outcome in seen),
    )


def _outcome(arm: Arm, figures: Figures, outcome: Outcome) -> PageCell:
    count = figures.counts.get(outcome, 0)
    return number_cell(f"{count:,}", trials_link(arm, outcome=outcome) if count else None)


def _means(arm: Arm, figures: Figures, corrected: CorrectedMean | None) -> tuple[PageCell, ...]:
    mean = figures.estimate
    judged, every = trials_link(arm, outcome=SCORED_OUTCOMES), trials_link(arm)
    alone = f"{mean.effective:.1f} independent trials" if mean else "-"
    return (
        name_cell(arm.label, trials_link(arm)),
        estimate_cell(mean, judged),
        number_cell(format_mean(arm.figures.trial_mean), judged),
        estimate_cell(corrected.lowest if corrected else None, every),
        estimate_cell(corrected.highest if corrected else None, every),
        number_cell(f"{mean.groups:,}" if mean else "0", judged),
        number_cell(alone, judged),
    )


def _doubts(document: ReportDocument) -> list[str]:
    return [f"{arm.label}: {line}." for arm in document.arms for line in doubts(arm.figures)]


# The section about tasks: the heat map, with tasks drawn together where there are too many to draw each.


MOST_TASKS, _MOST_ARMS = 400, 40
_MOST_SQUARES = 4_000
_MOST_TOGETHER = 100


def tasks_section(document: ReportDocument, most_squares: int = _MOST_SQUARES) -> PageSection:
    """What each agent got at each task, the easiest task and the best agent first; so many squares are drawn."""
    heat = document.heat
    shown = len(heat.arms[:_MOST_ARMS])
    size = _tasks_a_row(len(heat.tasks), shown, most_squares)
    rows = [_row(heat, shown, start, size) for start in range(0, len(heat.tasks), size)]
    agents = [arm.label for arm in heat.arms[:shown]]
    together = f" A row stands for {size} tasks of neighbouring rank." if size > 1 else ""
    legend = "The stronger the colour, the higher the mean; a dash was never judged."
    caption = f"{legend} The easiest tasks and the best agents come first.{together}"
    rest = f"The best {shown} of {len(heat.arms)} agents are shown." if shown < len(heat.arms) else ""
    table = PageTable("Mean reward by task", ("task", *agents), tuple(_cells(row) for row in rows), rest)
    figure = PageFigure(heat_picture("heat", agents, rows), caption, table)
    return PageSection("tasks", "Which tasks are hard, and for whom?", (_said(heat),), (figure,) if rows else ())


def _tasks_a_row(tasks: int, arms: int, most: int) -> int:
    """How many tasks share a row, so that a page stays of a size whatever a job has."""
    if tasks <= MOST_TASKS and tasks * arms <= most:
        return 1
    return math.ceil(tasks / min(_MOST_TOGETHER, max(1, most // max(1, arms))))


def _said(heat: HeatMap) -> str:
    means = heat.task_means
    solved = sum(mean is not None and mean >= 1 for mean in means)
    never = sum(mean is not None and mean <= 0 for mean in means)
    unjudged = sum(mean is None for mean in means)
    tasks = counted(len(means), "task")
    said = f"Of {tasks}, {solved:,} got the full reward in every judged trial and {never:,} got nothing in any"
    return f"{said}; {unjudged:,} {'was' if unjudged == 1 else 'were'} never judged." if unjudged else f"{said}."


def _row(heat: HeatMap, arms: int, start: int, size: int) -> HeatRow:
    tasks, cells = heat.tasks[start : start + size], heat.cells[start : start + size]
    if len(tasks) == 1 and size == 1:
        squares = [_one(heat, at, tasks[0], cells[0][at]) for at in range(arms)]
        return HeatRow(tasks[0], tuple(squares), trials_link(task=tasks[0]))
    label = f"ranks {start + 1:,} to {start + len(tasks):,}"
    return HeatRow(label, tuple(_several(heat, at, label, [row[at] for row in cells]) for at in range(arms)))


def _one(heat: HeatMap, at: int, task: str, cell: HeatCell) -> HeatSquare:
    arm = heat.arms[at]
    got = "not judged" if cell.mean is None else f"mean {format_mean(cell.mean)}, {cell.passed} of {cell.scored} passed"
    return HeatSquare(cell.mean, f"{arm.label}, {task}: {got}", trials_link(arm, task=task))


def _several(heat: HeatMap, at: int, label: str, cells: Sequence[HeatCell]) -> HeatSquare:
    arm, judged = heat.arms[at], sum(cell.mean is not None for cell in cells)
    mean = mean_of(cell.mean for cell in cells)
    got = (
        f"not judged at {counted(len(cells), 'task')}"
        if mean is None
        else f"mean {format_mean(mean)} of {judged} judged"
    )
    return HeatSquare(mean, f"{arm.label}, {label}: {got}", trials_link(arm))


def _cells(row: HeatRow) -> tuple[PageCell, ...]:
    means = [number_cell(format_mean(each.mean), each.target) for each in row.squares]
    return (name_cell(row.label, row.target), *means)


# The section about reviews: how far people agree, and what they make of the verifier.


_VERIFIER = ("pass", "partial,fail,invalid_output,no_output")


def people_section(document: ReportDocument, report: AgreementReport) -> PageSection:
    """A few sentences, and the tables behind them."""
    overall, verifier = report.overall, report.overall.verifier
    several = trials_link(tag=REVIEWED_BY_SEVERAL)
    measures, agents = people.measures_table(overall), people.agents_table(report.agents, verifier)
    judged = [
        [trials_link(outcome=outcome, tag=people_mark(said)) for said in ("pass", "fail")] for outcome in _VERIFIER
    ]
    tables = [
        page_table("How far reviewers agree", measures, [[several] * 3 for _ in measures.rows]),
        page_table("The verifier against people", people.confusion_table(verifier), judged),
        page_table(
            "Pass rates, corrected by what people say", agents, [_agent(row[0], document.arms) for row in agents.rows]
        ),
    ]
    shown = tuple(table for table in tables if table.rows)
    return PageSection("people", "What do people say?", tuple(people.people_lines(report)), (), shown)


def judges_section(document: ReportDocument) -> PageSection:
    """A line for each judge: a rate where it may enter an aggregate, and else why it may not."""
    table = page_table("Judges and the labels of people", judges_table(document.judges))
    return PageSection("judges", "What do judges say?", tuple(judge_lines(document.judges)), (), (table,))


def _agent(name: str, arms: Sequence[Arm]) -> list[str]:
    """Where the numbers of an agent lead: its trials are those of one arm, or of several in as many jobs."""
    same = [arm for arm in arms if harmless(arm.agent) == name]
    wanted = {"agent": same[0].label if len(same) == 1 else same[0].agent} if same else {}
    judged = trials_link(None, **wanted, outcome=SCORED_OUTCOMES)
    reviewed = trials_link(None, **wanted, outcome=SCORED_OUTCOMES, tag=REVIEWED)
    return [judged, reviewed, reviewed, reviewed]


# The section about failures: what went wrong, how often, at which step; and what no agent is to blame for, apart.


_FAILED = "partial,fail,invalid_output,no_output"
_SHARES = "share of a task's judged trials", "share of a task's failed trials"
_TAG_HEAD = ("category", "said by", "agent", "trials", *_SHARES, "example")


def failures_section(document: ReportDocument) -> PageSection:
    """Tables of the taxonomy, each only where it says something."""
    arms = {arm.label: arm for arm in document.arms}
    found = document.taxonomy
    rest = (
        f"{counted(found.left_out, 'less frequent category', 'less frequent categories')} not shown."
        if found.left_out
        else ""
    )
    tables = [
        PageTable(
            "Judged trials that did not pass",
            ("agent", "judged", "failed", "of these unclassified"),
            _totals(found.totals, arms),
        ),
        PageTable("Failures by category", _TAG_HEAD, _tags(found.failures, arms), rest),
        page_table("What to do", worklist_table(document.work, _MOST_ROWS)),
        PageTable("First failing step", ("step", "agent", "trials", "example"), _steps(found.steps, arms)),
        PageTable("Observed beside the verdict, no failure by itself", _TAG_HEAD, _tags(found.evidence, arms)),
        PageTable(
            "Not judged, and no fault of an agent",
            ("reason", "outcome", "agent", "trials", "example"),
            _unjudged(found.unjudged, arms),
        ),
    ]
    said = "Shares are means over tasks with their intervals. A trial may be in several categories."
    shown = tuple(table for table in tables if table.rows)
    return PageSection("failures", "What goes wrong?", (said,), (), shown)


def behaviour_section(document: ReportDocument) -> PageSection:
    """What agents did, where `seatrial classify` has found out."""
    said = (
        "Shares of turns are means over tasks with their intervals. Rules and judges are different instruments; "
        f"compare agents by one of them. Turns with a confidence below {LOW} are counted all the same."
    )
    table = page_table("Behaviour by agent", behaviour_table(document.behaviour))
    return PageSection("behaviour", "What did agents do?", (said,), (), (table,))


def _totals(counts: Sequence[FailedCount], arms: dict[str, Arm]) -> tuple[tuple[PageCell, ...], ...]:
    return tuple(
        (
            name_cell(count.arm, trials_link(arms[count.arm])),
            number_cell(f"{count.scored:,}", trials_link(arms[count.arm], outcome=SCORED_OUTCOMES)),
            number_cell(f"{count.failed:,}", trials_link(arms[count.arm], outcome=_FAILED)),
            number_cell(
                f"{count.unclassified:,}", trials_link(arms[count.arm], tag=UNCLASSIFIED) if count.failed else None
            ),
        )
        for count in counts
    )


def _tags(counts: Sequence[TagCount], arms: dict[str, Arm]) -> tuple[tuple[PageCell, ...], ...]:
    return tuple(_tag(count, arms[count.arm]) for count in counts)


def _tag(count: TagCount, arm: Arm) -> tuple[PageCell, ...]:
    return (
        name_cell(count.category),
        name_cell(count.source),
        name_cell(count.arm),
        number_cell(f"{count.trials:,}", trials_link(arm, tag=count.category)),
        estimate_cell(count.of_scored, trials_link(arm, tag=count.category)),
        estimate_cell(count.of_failed, trials_link(arm, tag=count.category, outcome=_FAILED)),
        _example(arm, count.examples[0]),
    )


def _steps(counts: Sequence[StepCount], arms: dict[str, Arm]) -> tuple[tuple[PageCell, ...], ...]:
    return tuple(
        (
            name_cell(count.step),
            name_cell(count.arm),
            number_cell(f"{count.trials:,}", trials_link(arms[count.arm], tag=f"{STEP}{count.step}")),
            _example(arms[count.arm], count.example),
        )
        for count in counts
    )


def _unjudged(counts: Sequence[UnjudgedCount], arms: dict[str, Arm]) -> tuple[tuple[PageCell, ...], ...]:
    return tuple(
        (
            name_cell(count.reason),
            name_cell(count.outcome),
            name_cell(count.arm),
            number_cell(f"{count.trials:,}", trials_link(arms[count.arm], outcome=count.outcome)),
            _example(arms[count.arm], count.example),
        )
        for count in counts
    )


def _example(arm: Arm, trial_id: str) -> PageCell:
    return name_cell(trial_id, trials_link(arm, trial=trial_id))
