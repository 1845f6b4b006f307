"""`seatrial tasks PATH`: what is there, where its output is expected, and what cannot be read."""

import json

import click

from seatrial.analysis.tables import Table
from seatrial.cli.screen import show_problem, show_table
from seatrial.model.loaded_task import BrokenTask, Task
from seatrial.report.text import counted
from seatrial.tasks.layout import digest_folder
from seatrial.tasks.load import Dataset, load_dataset


@click.command("tasks")
@click.argument("path", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print everything known about each task, with its digest.")
@click.option("--problems/--no-problems", default=True, help="List what looked odd while loading.")
def command(path: str, as_json: bool, problems: bool) -> None:
    """List the tasks below PATH: a task folder, or a folder of them at any depth."""
    dataset = load_dataset(path)
    if as_json:
        _print_json(dataset)
        return
    if dataset.tasks:
        columns = ("task", "output", "format", "known by", "image", "agent time")
        show_table(path, Table(columns, [*map(_row, dataset.tasks)]))
    if problems:
        _print_problems(dataset)
    click.echo(_summary(dataset), err=True)


def _row(task: Task) -> tuple[str, ...]:
    timeout = task.config.agent.timeout_sec
    steps = f" ({len(task.steps)} steps)" if task.steps else ""
    built = "environment/Dockerfile" if task.layout.dockerfile else "(default)"
    return (
        task.id + steps,
        task.output.path or "-",
        task.output.format or "-",
        task.output.source,
        task.config.environment.docker_image or built,
        f"{timeout:g} s" if timeout else "no limit",
    )


def _print_problems(dataset: Dataset) -> None:
    entries: list[BrokenTask | Task] = [*dataset.broken, *dataset.tasks]
    for task in entries:
        for problem in task.problems:
            show_problem(task.id, problem)
    for skipped in dataset.skipped:
        click.echo(f"{skipped.path}: skipped: {skipped.reason}")


def _summary(dataset: Dataset) -> str:
    return f"{counted(len(dataset.tasks), 'task')}, {len(dataset.broken)} broken, {len(dataset.skipped)} skipped"


def _print_json(dataset: Dataset) -> None:
    tasks = ({**task.model_dump(mode="json"), "digest": digest_folder(task.root)} for task in dataset.tasks)
    document = {
        "tasks": list(tasks),
        "broken": [task.model_dump(mode="json") for task in dataset.broken],
        "skipped": [folder.model_dump(mode="json") for folder in dataset.skipped],
    }
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))
