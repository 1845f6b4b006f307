"""`seatrial env init NAME`: a new environment that runs, is tested and scores as it should."""

import keyword
import shlex
from pathlib import Path

import click

from seatrial.cli.init_command import filled_in, task_files, write_new_folder
from seatrial.cli.program import command_line
from seatrial.errors import UsageError

MEANS = {"single-turn": 2 / 3, "tool": 2 / 3, "multi-turn": 2 / 3, "harbor": 1.0, "cli-agent": 0.5}
"""The kinds of environments, and the mean reward that the script of each gets in place of a model."""

_SCRIPT = "script.json"
_TASK = "sensor-readings"


@click.group("env")
def command() -> None:
    """Make new environments, for `seatrial eval` and for trainers."""


@command.command("init", short_help="Make a new environment that works.")
@click.argument("name")
@click.option("--kind", type=click.Choice(list(MEANS)), default="single-turn", help="What a rollout is.  [single-turn]")
@click.option(
    *("-p", "--path"),
    "parent",
    type=click.Path(path_type=Path),
    default=Path(),
    metavar="DIR",
    help="Where the new folder goes.  [here]",
)
def init(name: str, kind: str, parent: Path) -> None:
    """Make a package for the environment NAME that works: change its parts one by one into yours.

    \b
    single-turn  a question and an answer
    tool         a conversation in which the model may call Python functions
    multi-turn   a conversation with an environment that answers
    harbor       an agent of yours on Harbor tasks, judged by their tests
    cli-agent    a command in a sandbox, judged by functions of yours

    A folder that holds something already is left as it is.
    """
    module = name.strip().replace("-", "_")
    if not module.isidentifier() or keyword.iskeyword(module) or not module.isascii():
        raise UsageError(f"{name!r} cannot be a module's name; use letters, digits and dashes, such as my-env")
    folder = parent / module
    write_new_folder(folder, _environment_files(module, kind), "choose a new name")
    place = str(folder) if folder.is_absolute() else f"./{folder}"
    click.echo(f"{folder} is an environment that works. Change {module}.py, and try it with:")
    click.echo(f"  {command_line('eval', place, '-m', 'scripted', '--upstream', f'scripted:{folder / _SCRIPT}')}")
    click.echo(f"  {command_line('eval', place, '-m', 'gpt-5-mini')}")
    click.echo(f"  pytest {shlex.quote(str(folder))}")


def _environment_files(module: str, kind: str) -> dict[str, bytes]:
    values = {"MODULE": module, "NAME": module.replace("_", "-"), "MEAN": repr(MEANS[kind])}
    values |= {"PACKED": "", "LISTED": ""}
    tasks: dict[str, bytes] = {}
    if kind == "harbor":
        values["PACKED"] = ', "tasks"'
        values["LISTED"] = "| `tasks/` | the tasks; `seatrial init tasks/NAME` makes more |\n"
        tasks = {f"tasks/{_TASK}/{path}": content for path, content in task_files(_TASK).items()}
    return filled_in("environment", values) | filled_in(kind, values) | tasks
