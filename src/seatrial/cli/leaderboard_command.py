"""`seatrial leaderboard JOB...`: the agents of jobs in the order of their means, with the ranks they may have."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from seatrial.analysis.arms import arms_of
from seatrial.analysis.figures_json import figures_json
from seatrial.analysis.leaderboard import Leaderboard, rank_arms
from seatrial.analysis.loaded import Filter, load_jobs
from seatrial.cli.analysis_options import SEED, where_option
from seatrial.cli.job_view import warn_of_uncounted
from seatrial.cli.screen import show_line, show_table
from seatrial.errors import JobError, UsageError
from seatrial.report.leaderboard import (
    leaderboard_answer,
    leaderboard_figures,
    leaderboard_lines,
    leaderboard_markdown,
    leaderboard_table,
)
from seatrial.report.tables import attempts_table


@click.command("leaderboard")
@click.argument("jobs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="JOB...")
@where_option("Rank by")
@SEED
@click.option("--json", "as_json", is_flag=True, help="Print all of it as one JSON object.")
@click.option("--markdown", is_flag=True, help="Print it as Markdown.")
def command(jobs: tuple[Path, ...], where: Filter, seed: int, as_json: bool, markdown: bool) -> None:
    """Rank the agents of the jobs in folders JOB: means with intervals, and the ranks that each may have."""
    if not where.is_planned:
        raise UsageError(
            f"--where {where}: trials that are chosen by what became of them cannot be ranked; choose tasks"
        )
    if as_json and markdown:
        raise UsageError("--json and --markdown: choose one of them")
    loaded = load_jobs(jobs, where)
    warn_of_uncounted(loaded)
    arms = arms_of(loaded)
    if not arms:
        raise JobError(f"no trial is as asked for by --where {where}; `seatrial show {jobs[0]}` lists them")
    board = rank_arms(arms, seed=seed)
    if as_json:
        click.echo(json.dumps(_document(board), indent=2))
    elif markdown:
        click.echo(leaderboard_markdown(board), nl=False)
    else:
        _show(board)


def _show(board: Leaderboard) -> None:
    show_line(leaderboard_answer(board))
    show_table("", leaderboard_table(board))
    for line in leaderboard_lines(board):
        show_line(line)
    attempts = attempts_table(leaderboard_figures(board))
    if attempts.rows:
        show_table("attempts", attempts)


def _document(board: Leaderboard) -> dict[str, Any]:
    rows = [
        {
            "label": row.arm.label,
            "folder": str(row.arm.job.path),
            "job": row.arm.job.name,
            "agent": row.arm.agent,
            "rank": asdict(row.rank) if row.rank else None,
            "tie": row.tie,
            "notes": list(row.notes),
            "figures": figures_json(row.figures),
        }
        for row in board.rows
    ]
    reference = board.reference.label if board.reference else None
    told: dict[str, Any] = {"notes": list(board.notes), "reference": reference, "compared": board.compared}
    told |= {"too_few": board.ranking.too_few, "least_p": board.ranking.least_p}
    return {"rows": rows, **told, "level": board.level, "seed": board.seed}
