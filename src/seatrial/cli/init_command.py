"""`seatrial init TASK`: a new task that passes lint, is solved by its solution and by nothing else."""

import shlex
from pathlib import Path

import click

from seatrial.cli.init_files import new_task_files
from seatrial.errors import UsageError


@click.command("init")
@click.argument("task", type=click.Path(path_type=Path))
def command(task: Path) -> None:
    """Make a folder TASK with a small task that works: change its parts one by one into yours.

    It has an instruction, a verifier made with the verifier kit, a solution, and answers to try the verifier on. A
    folder that holds something already is left as it is.
    """
    if task.exists() and (not task.is_dir() or any(task.iterdir())):
        raise UsageError(f"{task}: is there already, and nothing in it is overwritten; name a new folder")
    for name, content in new_task_files(task.absolute().name).items():
        path = task / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o755 if path.suffix == ".sh" else 0o644)
    named = shlex.quote(str(task))
    click.echo(f"{task} is a task that works. Change instruction.md, tests/verify.py and solution/, and try it with:")
    click.echo(f"  seatrial lint {named}")
    click.echo(f"  seatrial run -p {named} -a oracle -a noop")
