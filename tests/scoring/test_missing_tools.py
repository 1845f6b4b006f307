"""Which messages say that a verifier lacked a tool of its own, and which say something else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.scoring.missing_tools import missing_tools

SCRIPT = "#!/bin/bash\npytest /tests/test_it.py\n"


def named(line: str, script: str = SCRIPT, instruction: str = "Write the answer.") -> tuple[str, ...]:
    return missing_tools((b"", f"some output\n{line}\nmore\n".encode()), script, instruction)


@pytest.mark.parametrize(
    ("line", "tool"),
    [
        # the test script, by bash, dash and busybox
        ("/tests/test.sh: line 3: uv: command not found", "uv"),
        ("/tests/test.sh: 3: uvx: not found", "uvx"),
        ("/tests/test.sh: line 3: jq: not found", "jq"),
        ("/tests/run/checks.sh: line 12: node: command not found", "node"),
        ("/tests/test.sh: line 3: /usr/bin/python3: No such file or directory", "python3"),
        ("/tests/test.sh: line 9: /root/.local/bin/uvx: No such file or directory", "uvx"),
        ("/tests/test.sh: 4: exec: python3: not found", "python3"),
        # somebody else's shell, but a tool that is nobody else's
        ("pytest: command not found", "pytest"),
        ("uvx: not found", "uvx"),
        ("/bin/sh: 1: pytest: not found", "pytest"),
        ("bash: line 1: uv: command not found", "uv"),
        # Python
        ("/usr/bin/python3: No module named pytest", "pytest"),
        ("python3.12: No module named pytest.__main__", "pytest"),
        ("No module named pytest", "pytest"),
        ("ModuleNotFoundError: No module named 'pytest'", "pytest"),
        # the interpreter of the test script itself
        ("/bin/sh: 1: /tests/test.sh: not found", "bash"),
        ("/bin/sh: line 1: /tests/test.sh: cannot execute: required file not found", "bash"),
        ("/bin/sh: line 1: /tests/test.sh: /bin/bash: bad interpreter: No such file or directory", "bash"),
        ('OCI runtime exec failed: exec failed: exec: "pytest": executable file not found in $PATH', "pytest"),
    ],
)
def test_a_tool_that_the_verifier_lacked_is_named(line, tool):
    assert named(line) == (tool,)


@pytest.mark.parametrize(
    "line",
    [
        "env: 'python3': No such file or directory",
        "/usr/bin/env: \N{LEFT SINGLE QUOTATION MARK}python3\N{RIGHT SINGLE QUOTATION MARK}: No such file or directory",
        "env: can't execute 'python3': No such file or directory",
    ],
)
def test_an_interpreter_counts_where_the_test_script_asks_for_it(line):
    assert named(line, "#!/usr/bin/env -S python3 -u\n") == ("python3",)
    assert named(line, "#!/bin/sh\npython3 x\n") == ()  # then it is said of some other script


@pytest.mark.parametrize(
    "line",
    [
        # the agent's answer, not a tool
        "/tests/test.sh: line 3: /app/answer.txt: No such file or directory",
        "/tests/test.sh: line 3: ./run.sh: No such file or directory",
        "/tests/test.sh: line 3: answer.txt: No such file or directory",
        "/tests/test.sh: line 2: /root/.local/bin/env: No such file or directory",
        # the agent's own program
        "/app/run.sh: line 3: jq: command not found",
        "/app/tests/run.sh: line 3: jq: command not found",
        "/bin/sh: 1: frobnicate: not found",
        "make: jq: Command not found",
        "ModuleNotFoundError: No module named 'mypackage'",
        "/usr/bin/python3: No module named mypackage",
        # talk about it
        "the log says pytest: command not found, which is bad",
        "E       AssertionError: assert 'jq: command not found' in out",
        "AssertionError: /tests/test.sh: line 3: uv: command not found",
        "404: page not found",
        "key: not found",
        'exec: "frobnicate": executable file not found in $PATH',
        "",
    ],
)
def test_what_is_something_else_is_no_missing_tool(line):
    assert named(line) == ()


def test_a_tool_that_the_instruction_names_may_be_the_agents_to_provide():
    line = "/tests/test.sh: line 3: jq: command not found"
    assert named(line) == ("jq",)
    assert named(line, instruction="Build `jq` and install it.") == ()
    assert named(line, instruction="Build `jq-server`.") == ("jq",)
    assert named("/tests/test.sh: line 3: mytool: command not found") == (), "it may be what the agent was to make"
    runner = "/tests/test.sh: line 3: pytest: command not found"
    assert named(runner, instruction="It must pass under pytest.") == ("pytest",)


def test_tools_are_named_once_and_only_the_first_few():
    tools = ("jq", "curl", "git", "node", "go", "make", "wget")
    lines = "\n".join(f"/tests/test.sh: line {n}: {tools[n % 7]}: command not found" for n in range(100))
    assert missing_tools((lines.encode(), lines.encode()), SCRIPT, "") == tools[:5]


@given(st.binary(), st.text(), st.text())
def test_nothing_that_is_printed_makes_it_raise(printed, script, instruction):
    assert len(missing_tools((printed, printed), script, instruction)) <= 5


@given(st.sampled_from(["/tests/", "tests/", "sh: ", "env: ", "python3: "]), st.text(":/ .\"'1a", max_size=400))
def test_odd_lines_take_no_time(start, rest):
    named(start + rest)
