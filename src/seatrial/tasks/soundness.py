"""Whether lint may find errors in a task, while a job of thousands is planned: most test scripts show that it cannot.

What a script has to say for that is also what lint looks for.
"""

import posixpath
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import PurePosixPath

from seatrial.model.task import TaskConfig
from seatrial.tasks.layout import TaskFiles, read_file
from seatrial.tasks.outline import TaskOutline
from seatrial.untrusted.json import decode

SCRIPT_SUFFIXES = frozenset(
    {"", ".sh", ".py", ".js", ".mjs", ".ts", ".rb", ".pl", ".go", ".rs", ".bats", ".bat", ".cmd", ".ps1"}
)
MAX_SCRIPT_BYTES = 2**20
REWARD_NAMES = ("reward.json", "reward.txt")


def is_sound(task: TaskOutline, files: TaskFiles | None = None) -> bool:
    """Whether none of lint's errors is possible: a test script starts and names its reward, no output is declared.

    `files` are those just found in the folder, which learn what was read of them.
    """
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


def names_reward(scripts: Iterable[str], config: TaskConfig) -> bool:
    """Whether any script names a file that is read as the reward, or the program that writes one."""
    declared = posixpath.basename(config.verifier.reward_path)
    return any(name in text for text in scripts for name in (*REWARD_NAMES, declared, "rewardkit"))


def has_crlf_interpreter(script: str) -> bool:
    """Whether the system would look for an interpreter with a carriage return in its name, which nobody has."""
    first, _, _ = script.partition("\n")
    return first.startswith("#!") and first.endswith("\r")
