"""`seatrial lint PATH`: the checks of `tasks/lint.py` on every task below a path."""

import json
from collections import Counter

import click

from seatrial.cli.screen import show_problem
from seatrial.model.loaded_task import BrokenTask, Problem, Task
from seatrial.report.text import counted
from seatrial.tasks.lint import lint
from seatrial.tasks.load import scan


@click.command("lint")
@click.argument("path", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per problem and line.")
@click.option("--notes/--no-notes", default=False, help="Also show notes, which are no faults.")
@click.pass_context
def command(context: click.Context, path: str, as_json: bool, notes: bool) -> None:
    """Check the tasks below PATH. Exits with 1 when any check finds an error."""
    counts: Counter[str] = Counter()
    for task in scan(path):
        if not isinstance(task, Task | BrokenTask):
            continue
        counts["tasks"] += 1
        for problem in lint(task) if isinstance(task, Task) else task.problems:
            counts[problem.severity] += 1
            if problem.severity != "note" or notes:
                _show(task.id, problem, as_json)
    found = ", ".join(counted(counts[severity], severity) for severity in ("error", "warning", "note"))
    click.echo(f"{counted(counts['tasks'], 'task')}: {found}", err=True)
    context.exit(1 if counts["error"] else 0)


def _show(task_id: str, problem: Problem, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"task": task_id, **problem.model_dump(mode="json")}, ensure_ascii=False))
    else:
        show_problem(task_id, problem)
