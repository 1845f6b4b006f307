"""`seatrial env init NAME`: a new environment that runs, is tested and scores as it should."""

import keyword
import shlex
from pathlib import Path

import click

from seatrial.cli.env_files import SCRIPT, new_environment_files
from seatrial.cli.env_modules import KINDS
from seatrial.cli.program import command_line
from seatrial.errors import UsageError


@click.group("env")
def command() -> None:
    """Make new environments, for `seatrial eval` and for trainers."""


@command.command("init", short_help="Make a new environment that works.")
@click.argument("name")
@click.option("--kind", type=click.Choice(list(KINDS)), default="single-turn", help="What a rollout is.  [single-turn]")
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
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder}: is there already, and nothing in it is overwritten; choose a new name")
    for path, content in new_environment_files(module, kind).items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        file.chmod(0o755 if file.suffix == ".sh" else 0o644)
    place = str(folder) if folder.is_absolute() else f"./{folder}"
    click.echo(f"{folder} is an environment that works. Change {module}.py, and try it with:")
    click.echo(f"  {command_line('eval', place, '-m', 'scripted', '--upstream', f'scripted:{folder / SCRIPT}')}")
    click.echo(f"  {command_line('eval', place, '-m', 'gpt-5-mini')}")
    click.echo(f"  pytest {shlex.quote(str(folder))}")
