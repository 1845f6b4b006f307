"""`seatrial init TASK`: a new task that passes lint, is solved by its solution and by nothing else."""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import click

from seatrial import verifier_kit
from seatrial.errors import UsageError


@click.command("init")
@click.argument("task", type=click.Path(path_type=Path))
def command(task: Path) -> None:
    """Make a folder TASK with a small task that works: change its parts one by one into yours.

    It has an instruction, a verifier made with the verifier kit, a solution, and answers to try the verifier on. A
    folder that holds something already is left as it is.
    """
    name = re.sub(r"[^a-z0-9]+", "-", task.absolute().name.lower()).strip("-") or "task"
    write_new_folder(task, task_files(name), "name a new folder")
    named = shlex.quote(str(task))
    click.echo(f"{task} is a task that works. Change instruction.md, tests/verify.py and solution/, and try it with:")
    click.echo(f"  seatrial lint {named}")
    click.echo(f"  seatrial run -p {named} -a oracle -a noop")


_TEMPLATES = Path(__file__).with_name("scaffolds")
_SUFFIX = ".template"


def filled_in(scaffold: str, values: Mapping[str, str]) -> dict[str, bytes]:
    """Every file of a scaffold by its path, with values in the place of `@NAME@` and the like, in paths too."""
    root = _TEMPLATES / scaffold
    paths = sorted(root.rglob(f"*{_SUFFIX}"))
    texts = {str(path.relative_to(root)).removesuffix(_SUFFIX): path.read_text(encoding="utf-8") for path in paths}
    return {_filled_in(path, values): _filled_in(text, values).encode() for path, text in texts.items()}


def _filled_in(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def task_files(name: str) -> dict[str, bytes]:
    """Every file of a new task. Its name is one of small letters, digits and dashes."""
    kit = {"tests/verifier_kit.py": Path(verifier_kit.__file__).read_bytes()}
    return filled_in("task", {"NAME": name}) | kit


def write_new_folder(folder: Path, files: Mapping[str, bytes], advice: str) -> None:
    """Write files into a folder that holds nothing yet. Raises UsageError, with the advice, for any other."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder}: is there already, and nothing in it is overwritten; {advice}")
    for path, content in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        file.chmod(0o755 if file.suffix == ".sh" else 0o644)
