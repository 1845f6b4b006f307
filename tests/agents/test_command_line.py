"""A command that takes a file of this machine for one of the sandbox is told so, with words that work."""

import re
import shlex

import pytest

from seatrial.agents.command_line import Needed, check_command, needed_by, scripts_in
from seatrial.errors import JobError
from seatrial.model.job import AgentFiles, AgentOptions


@pytest.mark.parametrize(
    ("command", "scripts"),
    [
        ("python3 my/agent.py --fast x.py", ["python3", "my/agent.py"]),
        ("KEY=1 ./run.sh", ["./run.sh"]),
        ("cd /app && bash -eu go.sh | tee log.txt", ["cd", "bash", "go.sh", "tee"]),
        ("python3 -m agent data.py", ["python3"]),
        ("/usr/bin/python3.11 -u a.py", ["/usr/bin/python3.11", "a.py"]),
        ("python3 - <<'END'\nprint('x')\nEND", ["python3"]),
        ("echo 'never closed", []),
        ("", []),
        ("timeout -k 5 60s uv run my/agent.py x.py", ["my/agent.py"]),
        ("A=1 exec env B=2 python3 -u go.py", ["python3", "go.py"]),
    ],
)
def test_what_a_command_starts(command, scripts):
    assert scripts_in(command)[: len(scripts)] == scripts


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder to stand in, with a script in it and one below."""
    (tmp_path / "my agent").mkdir()
    for name in ("agent.py", "my agent/agent.py", "data.txt"):
        (tmp_path / name).write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def agent(command: str, *files: str) -> AgentOptions:
    return AgentOptions(name="command", command=command, files=tuple(AgentFiles(source=each) for each in files))


@pytest.mark.parametrize("script", ["agent.py", "./agent.py", "my agent/agent.py"])
def test_a_script_of_this_machine_is_noticed_and_the_advice_works(here, script):
    command = f"python3 {shlex.quote(script)}"
    with pytest.raises(JobError) as raised:
        check_command(agent(command))
    message = str(raised.value)
    assert message.startswith(f"{script} is on this machine, not in the sandbox; add --agent-files ")
    words = shlex.split(re.split(r"; add | and write |\. If a file", message, maxsplit=3)[1])
    (rewritten,) = re.findall(r"write --command (.*)\. If a file", message)
    assert words[0] == "--agent-files"
    check_command(agent(shlex.split(rewritten)[0], words[1]))
    assert (here / words[1]).exists()
    assert "/agent/agent.py" in rewritten


def test_files_that_are_brought_already_are_called_by_where_they_lie(here):
    with pytest.raises(JobError, match=r"sandbox; write --command 'python3 /agent/agent.py'"):
        check_command(agent(f"python3 {here}/agent.py", "agent.py"))


@pytest.mark.parametrize(
    "command", ["python3 /agent/agent.py", "python3 other.py", "cat data.txt", "python3", "my-agent", "agent"]
)
def test_everything_else_is_the_sandbox_s_business(here, command):
    check_command(agent(command))


def shell(line: str) -> Needed | None:
    return needed_by(("/bin/sh", "-c", line))


@pytest.mark.parametrize(
    ("line", "needed"),
    [
        ("my-agent", Needed("my-agent")),
        ('my-agent --task "$HARBOR_INSTRUCTION_PATH"', Needed("my-agent")),
        ("python3 -u agent.py --n 4", Needed("python3", "agent.py")),
        ("/usr/bin/python3.11 '/app/agent.py' > log 2>&1", Needed("/usr/bin/python3.11", "/app/agent.py")),
        ("bash -e run.sh && echo done", Needed("bash", "run.sh")),
        ("python3 -m agent", Needed("python3")),
        ("python3 -X dev agent.py", Needed("python3")),
        ("perl -e print agent.pl", Needed("perl")),
        ("python3 2>errors.py agent", Needed("python3")),
        ("timeout 60 python3 missing.py", Needed("timeout")),
        ("cd /app && python3 agent.py", Needed("cd")),
        ('python3 "$HOME/agent.py"', Needed("python3")),
    ],
)
def test_what_is_needed(line, needed):
    assert shell(line) == needed


@pytest.mark.parametrize(
    "line",
    [
        "missing || real-agent",
        "missing; real-agent",
        "missing | real-agent",
        "missing & real-agent",
        "missing\nreal-agent",
        "KEY=1 agent",
        "$AGENT --now",
        '"$HOME/bin/agent"',
        "`which agent`",
        "~/agent",
        "(missing)",
        "echo 'unfinished",
        "",
        "cat <<END\nEND",
    ],
)
def test_what_cannot_be_told(line):
    assert shell(line) is None


def test_a_command_without_a_shell():
    assert needed_by(("python3", "a.py")) == Needed("python3", "a.py")
