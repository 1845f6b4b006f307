"""The sections about agents: how good each is, and what that number rests on."""

from seatrial.analysis.arms import Arm
from seatrial.analysis.figures import Figures
from seatrial.analysis.leaderboard import LeaderboardRow
from seatrial.analysis.tally import OUTCOMES, Tally
from seatrial.model.record import Outcome
from seatrial.report.document import ReportDocument
from seatrial.report.headline import in_words
from seatrial.report.html.links import SCORED_OUTCOMES, trials_link
from seatrial.report.html.parts import (
    PageCell,
    PageFigure,
    PageSection,
    PageTable,
    estimate_cell,
    name_cell,
    number_cell,
)
from seatrial.report.pictures.forest import ForestRow, forest_picture
from seatrial.report.text import OUTCOME_WORDS, counted, doubts, format_cost, format_duration
from seatrial.stats.corrected import CorrectedMean

_MOST_ROWS = 60


def agents_section(document: ReportDocument) -> PageSection:
    """Means with their intervals, the highest first, as a picture and as a table."""
    level = f"{100 * document.options.level:g} %"
    drawn = document.leaderboard.rows[:_MOST_ROWS]
    caption = f"Each mean is over tasks; the line is its {level} interval."
    picture = forest_picture("forest", [_forest_row(row.arm, row.figures) for row in drawn])
    said = f"A trial passed with a reward of at least {' or '.join(f'{each:g}' for each in document.thresholds)}."
    figure = PageFigure(picture, caption, _table(document))
    return PageSection("agents", "How good is each agent?", (said, *_rank_words(document)), (figure,))


def _rank_words(document: ReportDocument) -> list[str]:
    """How ranks are to be read, where there are several, and what keeps some agents from having one."""
    board = document.leaderboard
    notes = [f"({number}) {note}" for number, note in enumerate(board.notes, start=1)]
    if board.compared == 0:
        return notes
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
    mean, target = figures.mean, trials_link(arm, outcome=SCORED_OUTCOMES)
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
        estimate_cell(figures.mean, judged),
        estimate_cell(figures.pass_rate, trials_link(arm, outcome="pass")),
        *(estimate_cell(each.get(most), judged) for each in several),
        number_cell(f"{stable.tasks:,}", judged),
        *(number_cell(f"{tasks:,}", judged) for tasks in (stable.always, stable.flaky, stable.never)),
        number_cell(format_duration(times.median if times else None), trials_link(arm) if times else None),
        number_cell(format_cost(figures.cost_per_solved), trials_link(arm) if figures.solved else None),
    )


def denominators_section(document: ReportDocument) -> PageSection:
    """What became of every planned trial, and what the mean would be otherwise."""
    seen = [outcome for outcome in OUTCOMES if any(arm.tally.counts.get(outcome) for arm in document.arms)]
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
    tally = arm.tally
    return (
        name_cell(arm.label, trials_link(arm)),
        number_cell(f"{tally.planned:,}", trials_link(arm)),
        number_cell(f"{tally.finished:,}", trials_link(arm)),
        number_cell(f"{tally.scored:,}", trials_link(arm, outcome=SCORED_OUTCOMES)),
        *(_outcome(arm, tally, outcome) for outcome in seen),
    )


def _outcome(arm: Arm, tally: Tally, outcome: Outcome) -> PageCell:
    count = tally.counts.get(outcome, 0)
    return number_cell(f"{count:,}", trials_link(arm, outcome=outcome) if count else None)


def _means(arm: Arm, figures: Figures, corrected: CorrectedMean | None) -> tuple[PageCell, ...]:
    tally, mean = arm.tally, figures.mean
    judged, every = trials_link(arm, outcome=SCORED_OUTCOMES), trials_link(arm)
    alone = f"{mean.effective:.1f} independent trials" if mean else "-"
    return (
        name_cell(arm.label, trials_link(arm)),
        estimate_cell(mean, judged),
        number_cell("-" if tally.trial_mean is None else f"{tally.trial_mean:.3f}", judged),
        estimate_cell(corrected.lowest if corrected else None, every),
        estimate_cell(corrected.highest if corrected else None, every),
        number_cell(f"{mean.groups:,}" if mean else "0", judged),
        number_cell(alone, judged),
    )


def _doubts(document: ReportDocument) -> list[str]:
    return [f"{arm.label}: {line}." for arm in document.arms for line in doubts(arm.tally)]
