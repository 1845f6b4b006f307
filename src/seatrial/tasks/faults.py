"""The errors that lint would find in a task, found while a job of thousands of tasks is planned.

A sound task shows that it is one by its test script alone; only a task that does not is looked at by lint itself.
"""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import PurePosixPath

from seatrial.model.task import Problem
from seatrial.tasks.layout import TaskFiles, decode, read_file
from seatrial.tasks.lint import lint
from seatrial.tasks.lint_tests import MAX_SCRIPT_BYTES, SCRIPT_SUFFIXES, has_crlf_interpreter, names_reward
from seatrial.tasks.outline import TaskOutline


def errors_of(task: TaskOutline, files: TaskFiles | None = None) -> list[Problem]:
    """What lint calls an error. `files` are those just found in the folder, which learn what was read of them."""
    if _is_sound(task, files):
        return []
    return [problem for problem in lint(task.task()) if problem.severity == "error"]


def _is_sound(task: TaskOutline, files: TaskFiles | None) -> bool:
    """Whether none of lint's errors is possible: a test script starts and names its reward, no output is declared."""
    config = task.config
    declared = [config.output.path, config.verifier.expected_output_path]
    declared += [step.verifier.expected_output_path for step in config.steps]
    if any(path is not None for path in declared):
        return False
    scripts = [step.layout.test_script for step in task.steps] or [task.layout.test_script]
    return all(script is not None and _speaks(task, script, files) for script in dict.fromkeys(scripts))


def _speaks(task: TaskOutline, script: str, files: TaskFiles | None) -> bool:
    text = _read(task, script, files)
    if script.endswith(".sh") and has_crlf_interpreter(text):
        return False
    return names_reward([text], task.config) or names_reward(_others(task, script, files), task.config)


def _others(task: TaskOutline, script: str, files: TaskFiles | None) -> Iterator[str]:
    """The scripts beside a test script, one by one: most often the first of them writes the reward."""
    folder = script.rpartition("/")[0] + "/"
    for path in sorted(files.regular) if files else ():
        if path != script and path.startswith((folder, "tests/")) and PurePosixPath(path).suffix in SCRIPT_SUFFIXES:
            yield _read(task, path, files)


def _read(task: TaskOutline, path: str, files: TaskFiles | None) -> str:
    """The text of a script; none of one that nobody would read, as in lint."""
    try:
        content, executable = read_file(f"{task.root}/{path}", MAX_SCRIPT_BYTES)
    except ValueError:
        return ""
    if files is not None:
        files.read[path] = executable, sha256(content).digest()
    return decode(content, "replace")
