"""The first failing step: which outputs are errors, what counts as recovering, and which step is the first."""

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.messages import ToolCall, ToolResult
from seatrial.model.trace import ModelCall
from seatrial.trajectories.first_failure import ToolStep, error_of, first_failure, subject_of
from seatrial.trajectories.threads import find_threads

NOON = dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)
Use = tuple[str, dict[str, Any], str]
"""A tool, its arguments, and what it gave back."""


def calls(uses: Sequence[Use]) -> list[ModelCall]:
    """A conversation in which an agent uses one tool after the other."""
    messages: list[Any] = [{"role": "user", "content": "mend it"}]
    made = []
    for index, (tool, arguments, output) in enumerate([*uses, ("done", {}, "")]):
        block = {"type": "tool_use", "id": f"use-{index}", "name": tool, "input": arguments}
        said = {"role": "assistant", "content": [block]}
        made.append(
            ModelCall(
                index=index,
                dialect="anthropic",
                path="/v1/messages",
                started_at=NOON,
                duration_sec=1.0,
                messages=[*messages],
                response=said,
            )
        )
        result = {"type": "tool_result", "tool_use_id": f"use-{index}", "content": output.removeprefix("!")}
        messages += [said, {"role": "user", "content": [{**result, "is_error": output.startswith("!")}]}]
    return made


def found(*uses: Use) -> ToolStep | None:
    return first_failure(find_threads(calls(uses)))


def shell(command: str, output: str) -> Use:
    return "bash", {"command": command}, output


def test_the_first_error_that_stays_is_found_where_it_was_told():
    step = found(shell("ls", "a b"), shell("python3 a.py", "!boom"), shell("make", "!boom"))
    assert step == ToolStep(1, 2, 0, "bash", "python3", "the tool says that it failed")


def test_an_error_is_recovered_by_the_same_program_later():
    assert found(shell("cd /app && pytest -q", "exit code: 1"), shell("A=1 pytest", "2 passed\nexit code: 0")) is None
    step = found(shell("pytest", "exit code: 1"), shell("ls", "a"), shell("pytest", "exit code: 1"))
    assert step is not None
    assert step.call == 0


def test_what_worked_before_recovers_nothing():
    step = found(shell("pytest", "ok"), shell("pytest", "exit code: 1"))
    assert step is not None
    assert (step.call, step.error) == (1, "exit status 1")


def test_files_are_told_apart():
    edits = [("edit", {"path": "/a/../b.py"}, "!no match"), ("edit", {"path": "/c.py"}, "done")]
    step = found(*edits)
    assert step is not None
    assert step.subject == "/b.py"
    assert found(*edits, ("edit", {"path": "/b.py"}, "done")) is None


def test_a_conversation_without_errors_has_none():
    assert found(shell("ls", "a"), shell("cat a", "exit code: 0")) is None
    assert first_failure([]) is None


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("exit code: 2", "exit status 2"),
        ("Process exited with code 127", "exit status 127"),
        ("<returncode>1</returncode>\n<output>x</output>", "exit status 1"),
        ('{"output": "", "metadata": {"exit_code": -9}}', "exit status -9"),
        ("a\n" * 5000 + "exit status 3", "exit status 3"),
        ("Traceback (most recent call last):\n  File\nKeyError: 1", "a traceback"),
        ("Error: no such tool", "it begins with an error"),
        ("fatal error: stdio.h not found", "it begins with an error"),
        ("exit code: 0\nTraceback (most recent call last):", None),
        ("x" * 3000 + " exit code: 1 " + "x" * 3000, None),
        ("an error was found in the data", None),
        ("errors: 0", None),
        ("", None),
    ],
)
def test_what_an_output_says_of_itself(text, error):
    assert error_of(ToolResult("1", (text,), "bash")) == error


@pytest.mark.parametrize(
    ("arguments", "subject"),
    [
        ({"command": "cd /x && FOO=1 /usr/bin/python3 a.py | tail"}, "python3"),
        ({"command": ["bash", "-lc", "make all"]}, "make"),
        ({"cmd": ["/bin/ls", "-l"]}, "ls"),
        ('{"file_path": "a//b"}', "a/b"),
        ({"command": "cd /x"}, ""),
        ({"command": 7}, ""),
        ("not JSON", ""),
        (None, ""),
    ],
)
def test_what_a_tool_is_used_on(arguments, subject):
    assert subject_of(ToolCall("1", "bash", arguments)) == subject


@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_strangers_arguments_never_raise(arguments):
    assert isinstance(subject_of(ToolCall("1", "bash", arguments)), str)
    assert isinstance(subject_of(ToolCall("1", "bash", {"command": arguments, "path": arguments})), str)
