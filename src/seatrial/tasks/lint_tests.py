"""Lint of a verifier's scripts: does it exist, will it write a reward, does it look where the instruction points?"""

import difflib
import os
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from seatrial.model.loaded_task import Problem, Severity, TaskLayout
from seatrial.model.output import OutputSpec, format_of
from seatrial.model.task import TaskConfig
from seatrial.tasks.layout import files_below, read_text
from seatrial.tasks.lint_image import APTS_PYTEST, missing_in_image
from seatrial.tasks.lint_verdict import Verifier, caught_assertions, ends_early, unread_verdicts
from seatrial.tasks.soundness import (
    MAX_SCRIPT_BYTES,
    REWARD_NAMES,
    SCRIPT_SUFFIXES,
    has_crlf_interpreter,
    names_reward,
)

_KIT = "verifier_kit.py"
_NAMED = 3
_LOGS_DIR = "/logs/verifier"
_FILE_NAME = re.compile(r"(?<![\w-])[\w-]{4,9}\.(?:json|jsn|txt|text)\b", re.IGNORECASE)
_REWARD_PATH = re.compile(r"(?<![\w.$}/)~-])/(?:[\w.-]+/)*reward\.(?:json|txt)\b")
_PATH = re.compile(r"(?<![\w/.])/[\w.@%+~/-]+\.\w+")


@dataclass(frozen=True)
class Unit:
    """What one verifier judges by: its scripts by relative path, and the output it is about."""

    scripts: Mapping[str, str]
    folder: str
    layout: TaskLayout
    output: OutputSpec
    config: TaskConfig
    dockerfile: str | None = None
    """Of the image that the verifier runs in; None where that is not built from one."""

    @property
    def entry(self) -> str:
        """The text of the test script, empty when there is none."""
        return self.scripts.get(self.layout.test_script or "", "")

    @cached_property
    def verifier(self) -> Verifier | None:
        """The test script as its commands; None where it is missing or for another shell."""
        script = self.layout.test_script
        is_asked = self.output.source in ("declared", "inferred")
        if script is None or script.endswith(".bat"):
            return None
        return Verifier.read(script, self.scripts, self.output.path if is_asked else None)

    @property
    def own(self) -> dict[str, str]:
        """The scripts the author wrote: all but the verifier kit."""
        return {path: text for path, text in self.scripts.items() if posixpath.basename(path) != _KIT}


def read_unit(root: Path, folders: tuple[str, ...], layout: TaskLayout, output: OutputSpec, config: TaskConfig) -> Unit:
    """Read the scripts below some folders of a task; one behind a link that leads out of it is none of its own."""
    scripts = {}
    for path in files_below(root, folders):
        if posixpath.splitext(path)[1] in SCRIPT_SUFFIXES:
            with suppress(ValueError):  # too long for a script, or no file
                text = read_text(root / path, MAX_SCRIPT_BYTES, "replace")
                scripts[os.fsencode(path).decode("utf-8", "backslashreplace")] = text
    return Unit(scripts, folders[-1], layout, output, config)


def new_problem(code: str, severity: Severity, file: str, message: str, fix: str, key: str | None = None) -> Problem:
    return Problem(code=code, severity=severity, file=file, key=key, message=message, fix=fix)


def _missing_test_script(unit: Unit) -> Iterator[Problem]:
    environment = unit.config.verifier.environment
    image = environment.docker_image if environment else None
    bundled = image or unit.layout.verifier_dockerfile or unit.layout.verifier_compose_file
    if unit.layout.test_script or bundled or unit.layout.rubric:
        return
    other = unit.config.extra.get("verifier.command")
    found = sorted(path for path in unit.own if path.startswith(f"{unit.folder}/"))
    message, fix = "no test script", "add one that writes a reward, or a rubric.toml that a judge answers"
    if other:
        message += f", though [verifier] command says {other!r}"
    elif found:
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        message += f", though there is {', '.join(found[:_NAMED])}{more}"
    yield new_problem("missing-test-script", "error", f"{unit.folder}/test.sh", message, fix)


def _reward_near_miss(unit: Unit) -> Iterator[Problem]:
    right = {*REWARD_NAMES, posixpath.basename(unit.config.verifier.reward_path)}
    spoken = names_reward(unit.scripts.values(), unit.config)
    for path, text in unit.own.items():
        for name in sorted(set(_FILE_NAME.findall(text)) - right):
            meant = difflib.get_close_matches(name.lower(), REWARD_NAMES, n=1, cutoff=0.88)
            if meant and not (spoken and f"{_LOGS_DIR}/{name}" not in text):  # else the tests may well mean it
                # Only a file that is certainly written where the reward belongs is certainly a mistake.
                severity: Severity = "error" if not spoken and f"{_LOGS_DIR}/{name}" in text else "warning"
                message = f"names {name}, which is never read"
                yield new_problem("reward-near-miss", severity, path, message, f"call it {meant[0]}")


def _reward_elsewhere(unit: Unit) -> Iterator[Problem]:
    """A reward that lies where nothing reads it, and none where one would be read."""
    folders = (_LOGS_DIR, posixpath.dirname(unit.config.verifier.reward_path))
    if any(folder in text for text in unit.scripts.values() for folder in folders):
        return
    for path, text in unit.own.items():
        for found in sorted(set(_REWARD_PATH.findall(text))):
            message = f"names {found}, which is never read"
            yield new_problem("reward-near-miss", "warning", path, message, f"write the reward below {_LOGS_DIR}/")


def _no_reward_written(unit: Unit) -> Iterator[Problem]:
    speaks_otherwise = unit.config.verifier.verdict == "exit_status"
    if unit.layout.test_script and not speaks_otherwise and not names_reward(unit.scripts.values(), unit.config):
        message = "no script below tests/ names a reward file"
        fix = "write /logs/verifier/reward.json; the verifier kit does it safely"
        yield new_problem("no-reward-written", "warning", unit.layout.test_script, message, fix)


def _output_path_differs(unit: Unit) -> Iterator[Problem]:
    expected = unit.output.path
    everything = "\n".join(unit.own.values())
    is_known = unit.output.source in ("declared", "inferred") and unit.output.format is not None
    if expected is None or not is_known or not everything or posixpath.basename(expected) in everything:
        return
    folder = posixpath.dirname(expected)
    read = {path for path in _PATH.findall(everything) if posixpath.dirname(path) == folder or _alike(path, expected)}
    others = sorted(path for path in read if format_of(path) == unit.output.format)
    if others:
        # Nobody loses a reward over a path that was not declared, nor over a file that may be an input.
        sure = unit.output.source == "declared" and any(_alike(path, expected) for path in others)
        severity: Severity = "error" if sure else "warning"
        message = f"reads {', '.join(others)}, but the expected output is {expected} ({unit.output.reason})"
        fix = "make the instruction and the tests name the same path, or declare it in [output]"
        yield new_problem("output-path-differs", severity, unit.layout.test_script or "tests/", message, fix)


def _alike(path: str, expected: str) -> bool:
    names = posixpath.basename(path), posixpath.basename(expected)
    return difflib.SequenceMatcher(None, *names).ratio() >= 0.8


def _swallowed_errors(unit: Unit) -> Iterator[Problem]:
    fix = "have the reward depend on it: a check that cannot fail says nothing about the agent"
    if unit.verifier:
        for line, wrong in unread_verdicts(unit.verifier):
            yield new_problem("swallowed-errors", "warning", unit.verifier.path, f"line {line}: {wrong}", fix)
    for path, text in unit.own.items():
        if path.endswith(".py"):
            for line in caught_assertions(text):
                message = f"line {line} catches the assertions above it and does nothing, so they always hold"
                yield new_problem("swallowed-errors", "warning", path, message, fix)


def _ends_before_reward(unit: Unit) -> Iterator[Problem]:
    if unit.verifier and (found := ends_early(unit.verifier)):
        line, check = found
        message = f"line {line}: where {check} fails, `set -e` ends the script before it writes a reward"
        fix = f"write `if {check} …; then … else … fi`, or write the reward in `trap … EXIT`"
        yield new_problem("set-e", "warning", unit.verifier.path, message, fix)


def _cannot_start(unit: Unit) -> Iterator[Problem]:
    script = unit.layout.test_script
    if not script or not script.endswith(".sh"):
        return
    if "\r\n" in unit.entry:
        message = "has Windows line ends, which a Linux shell cannot run"
        severity: Severity = "error" if has_crlf_interpreter(unit.entry) else "warning"
        yield new_problem("crlf-script", severity, script, message, "save it with Unix line ends")
    if not unit.entry.startswith("#!"):
        yield new_problem(
            "no-shebang", "note", script, "has no #! line; it is run by /bin/sh", "start it with #!/bin/sh"
        )


def _missing_tools(unit: Unit) -> Iterator[Problem]:
    if not unit.layout.test_script or unit.dockerfile is None:
        return
    for tool in missing_in_image(unit.entry, "\n".join(unit.scripts.values()), unit.dockerfile):
        message = f"runs {tool}, which neither the Dockerfile nor the tests install"
        fix = f"install {tool} in environment/Dockerfile or in the test script"
        if tool == "pytest" and APTS_PYTEST in unit.dockerfile:
            message = f"runs pytest as apt's {APTS_PYTEST} does not bring it on this image"
            fix = "install it with pip, or run `/usr/bin/python3 -m pytest`"
        yield new_problem("missing-tool", "warning", unit.layout.test_script, message, fix)


TESTS_CHECKS: tuple[Callable[[Unit], Iterator[Problem]], ...] = (
    _missing_test_script,
    _reward_near_miss,
    _reward_elsewhere,
    _no_reward_written,
    _output_path_differs,
    _swallowed_errors,
    _ends_before_reward,
    _cannot_start,
    _missing_tools,
)
