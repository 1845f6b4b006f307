"""A leaderboard as a table, lines and Markdown."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from seatrial.analysis.figures import Figures
from seatrial.analysis.leaderboard import Leaderboard, LeaderboardRow
from seatrial.analysis.tables import Row, Table
from seatrial.report.markdown import markdown_table, md_name, md_prose
from seatrial.report.tables import attempts_table, dollars, estimate_cells, share_cells
from seatrial.report.text import counted, harmless, interval_line, p_text

_MOST_NAMED = 3


def leaderboard_table(board: Leaderboard) -> Table:
    """The table for a screen: what a pass costs where that is known, else over how many tasks a mean is.

    Both do not fit 80 columns; tasks that are missing have a note.
    """
    names = [row.arm.label + _marks(row) for row in board.rows]
    return _table(board, names, ("USD/pass",) if _is_priced(board) else ("tasks",))


def _table(board: Leaderboard, names: Sequence[str], last: Row) -> Table:
    columns = ("rank", "tie", "agent", "mean", "95 % interval", "pass@1", "its interval", *last)
    return Table(columns, [_cells(row, name, last) for row, name in zip(board.rows, names, strict=True)], names=3)


def _is_priced(board: Leaderboard) -> bool:
    return any(row.figures.cost_per_solved is not None for row in board.rows)


def _cells(row: LeaderboardRow, name: str, last: Row) -> Row:
    more = {"tasks": f"{len(row.arm.rewards):,}", "USD/pass": dollars(row.figures.cost_per_solved)}
    numbers = *estimate_cells(row.figures.estimate), *share_cells(row.figures.pass_estimate)
    return rank_text(row), row.tie or "-", name, *numbers, *(more[column] for column in last)


def _marks(row: LeaderboardRow) -> str:
    return "".join(f" [{note}]" for note in row.notes)


def rank_text(row: LeaderboardRow) -> str:
    """The ranks that an arm may have, a dash for none."""
    if row.rank is None:
        return "-"
    return str(row.rank.best) if row.rank.best == row.rank.worst else f"{row.rank.best}-{row.rank.worst}"


def leaderboard_answer(board: Leaderboard) -> str:
    """Who is ahead, and whether that is certain, in one sentence."""
    if board.ranking.too_few:
        return f"No ranks: {too_few_words(board)}"
    ranked = [(harmless(row.arm.label), row.rank) for row in board.rows if row.rank]
    if not ranked:
        return "No agent has a mean that could be ranked."
    (name, rank), *others = ranked
    if not others:
        return f"{name} is alone: there is nobody to rank it with."
    if rank.worst == 1:
        return f"{name} is first: better than every other, beyond chance."
    alone = all(other.mean < rank.mean for _, other in others)
    highest = f"{name} {'has' if alone else 'and others have'} the highest mean"
    if rank.behind:
        better = f"{_named(rank.behind)} {'is' if len(rank.behind) == 1 else 'are'} better"
        return f"No clear winner: {highest}, but {better}, beyond chance, at tasks that both have."
    return (
        f"No clear winner: {highest}, and {'' if alone else f'{name} '}cannot be told apart from {_named(rank.even)}."
    )


def too_few_words(board: Leaderboard) -> str:
    """Why no arm has a rank."""
    holm = f" after Holm for {board.compared:,} pairs" if board.compared > 1 else ""
    return (
        "so few common tasks cannot tell any two agents apart, however large their differences: with all of the tasks "
        f"won, {p_text(board.ranking.least_p)}{holm}."
    )


def _named(labels: Sequence[str]) -> str:
    more = f" and {len(labels) - _MOST_NAMED:,} more" if labels[_MOST_NAMED:] else ""
    return ", ".join(map(harmless, labels[:_MOST_NAMED])) + more


def leaderboard_lines(board: Leaderboard) -> Iterator[str]:
    """What the table means, and what must be known of some of its rows."""
    for number, note in enumerate(board.notes, start=1):
        yield f"[{number}] {note}"
    if line := interval_line(row.figures for row in board.rows):
        yield line
    if board.compared and not board.ranking.too_few:
        pairs = counted(board.compared, "pair")
        yield (
            f"a rank is the range that an agent may have: {pairs} compared on the tasks that both were judged on, by "
            f"sign-flip tests after Holm at {100 * (1 - board.level):g} %; agents with the same letter cannot be told "
            "apart from the first of them"
        )


def leaderboard_figures(board: Leaderboard) -> dict[str, Figures]:
    """The figures of the arms by their labels, in the order of the board."""
    return {row.arm.label: row.figures for row in board.rows}


def leaderboard_markdown(board: Leaderboard) -> str:
    """The table as Markdown, with pass^k and what the footnotes say below it."""
    names = [md_name(row.arm.label) + _marks(row) for row in board.rows]
    parts = [markdown_table(_table(board, names, ("tasks", "USD/pass") if _is_priced(board) else ("tasks",)), "spaced")]
    attempts = attempts_table(leaderboard_figures(board))
    if attempts.rows:
        rows = [(md_name(name), *cells) for name, *cells in attempts.rows]
        parts.append(markdown_table(replace(attempts, rows=rows), "spaced"))
    parts.append("\n".join(f"- {md_prose(line)}" for line in leaderboard_lines(board)))
    return "\n\n".join(parts) + "\n"
