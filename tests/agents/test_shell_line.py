"""What a command line cannot start without; never more than is certain."""

import pytest

from seatrial.agents.shell_line import Needed, needed_by


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
