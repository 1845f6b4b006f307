"""Who finds what where: an agent its instruction and nothing of the tests, a verifier fresh folders of its own."""

import inspect

import pytest

from seatrial.model.record import AgentResult
from seatrial.verify.stage import stage_tests
from tests.sandbox.embedded.support import needs_python, needs_root
from tests.trial.support import ANSWER, INSTRUCTION, SHELL_TEST, python_command, write_task

pytestmark = [needs_root, needs_python]

# Split where they are searched for, so that the search does not find itself.
TESTS_MARK, SOLUTION_MARK = "zebra-in-tests", "zebra-in-solution"
SEARCH = """
import os, sys
mark = ("zebra" + "-in-").encode()
seen = set()
SYSTEM = ("usr", "etc", "opt", "proc", "sys")
def look(path):
    try:
        status = os.stat(path)
        if (status.st_dev, status.st_ino) in seen or status.st_size > 2**20:
            return
        seen.add((status.st_dev, status.st_ino))
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if mark in (file.read(2**20) or b""):
                print("found in", path)
    except OSError:
        pass
roots = [f"/{name}" for name in os.listdir("/") if name not in SYSTEM and not os.path.islink(f"/{name}")]
for name in os.listdir("/proc"):
    if name.isdigit():
        for folder in ("app", "tests", "solution", "logs", "tmp", "task", "dev/shm"):
            roots.append(f"/proc/{name}/root/{folder}")
        roots += [f"/proc/{name}/cwd"]
        for kind in ("fd", "map_files"):
            try:
                for entry in os.listdir(f"/proc/{name}/{kind}"):
                    look(f"/proc/{name}/{kind}/{entry}")
            except OSError:
                pass
        for kind in ("environ", "cmdline", "mounts", "mountinfo"):
            look(f"/proc/{name}/{kind}")
for root in roots:
    for folder, _, files in os.walk(root):
        for file in files:
            look(os.path.join(folder, file))
print("looked at", len(seen) > 10)
"""
MARKED = {
    "tests/test.sh": f"{SHELL_TEST}# {TESTS_MARK}\n",
    "tests/data/deep.txt": TESTS_MARK,
    f"tests/{TESTS_MARK}.txt": "",
    "solution/solve.sh": f"#!/bin/sh\n# {SOLUTION_MARK}\necho right > {ANSWER}\n",
    "solution/notes.md": SOLUTION_MARK,
}


def test_an_agent_that_searches_everything_finds_nothing_of_tests_or_solution(desk):
    ran = desk.attack(python_command(SEARCH), files=MARKED)
    assert ran.agent.exit_code == 0, ran.text("agent/stderr.txt")
    assert ran.text("agent/stdout.txt") == "looked at True\n"


def test_the_search_would_find_it(desk):
    ran = desk.attack(f"mkdir /tests; echo zebra-in-x > /tests/x\n{python_command(SEARCH)}", files=MARKED)
    assert "found in /tests/x" in ran.text("agent/stdout.txt")


def test_an_agent_sees_its_instruction_without_canary_and_its_task_file(desk, tmp_path):
    root = write_task(tmp_path / "task")
    ran = desk.run(root, "cd /task && find . -type f | sort && cat instruction.md task.toml")
    expected = INSTRUCTION.partition("\n")[2] + (root / "task.toml").read_text()
    assert ran.text("agent/stdout.txt") == f"./instruction.md\n./task.toml\n{expected}"


@pytest.mark.parametrize("leave", ["", "rmdir /logs/verifier", "mkdir /logs/verifier/mine"])
def test_an_agent_finds_empty_log_folders_and_an_empty_one_is_no_change(desk, leave):
    """That for the verifier is not the verifier's own."""
    look = "ls -d /tests /solution 2>/dev/null; cd /logs; find . -mindepth 1 | sort; stat -c %a *"
    test = f"#!/bin/sh\nls /logs/verifier/* && exit\n{SHELL_TEST}"
    ran = desk.attack(f"{look}; echo right > {ANSWER}; {leave}", files={"tests/test.sh": test})
    assert ran.text("agent/stdout.txt").split() == ["./agent", "./artifacts", "./verifier", "777", "777", "777"]
    assert (ran.reward, ran.tags, ran.changes.removed) == (1.0, set(), ())


@pytest.mark.parametrize("where", ["/logs/verifier/reward.txt", "/tests/test.sh"])
def test_what_an_agent_puts_where_the_verifier_keeps_its_own_is_named_and_not_met(desk, where):
    ran = desk.attack(f"mkdir -p /tests; echo wrong > {ANSWER}; echo 1 > {where}")
    assert (ran.reward, ran.tags) == (0.0, {"planted_verifier_files"})


def test_only_the_oracle_is_given_the_solution(desk, tmp_path):
    listing = f"#!/bin/sh\nls /solution > {ANSWER}\n"
    root = write_task(tmp_path / "task", files={**MARKED, "solution/solve.sh": listing})
    desk.run(root, "oracle", keep="snapshot")
    ran = desk.run(root, "oracle")
    assert ran.agent.exit_code == 0
    assert ran.changes.added == (ANSWER,)
    assert desk.run(root, "ls /solution").agent.exit_code != 0


def test_the_solution_is_not_there_for_the_verifier_of_another_agent(desk):
    test = "#!/bin/sh\nif [ -e /solution ]; then echo 0; else echo 1; fi > /logs/verifier/reward.txt\n"
    assert desk.attack(f"echo x > {ANSWER}", files={**MARKED, "tests/test.sh": test}).reward == 1.0


def test_a_verifier_finds_its_tests_and_empty_logs(desk):
    test = "#!/bin/sh\ncd /logs/verifier; ls -A > /app/logs; ls -R /tests > tests; cp /app/logs .\n"
    ran = desk.attack(
        "mkdir -p /tests /logs/verifier; touch /tests/mine /logs/verifier/mine", files={**MARKED, "tests/test.sh": test}
    )
    assert "deep.txt" in ran.text("verifier/files/tests")
    assert "mine" not in ran.text("verifier/files/tests")
    assert ran.text("verifier/files/logs") == ""


def test_staging_for_the_verifier_takes_the_agents_result():
    """The wrong order does not type-check: before the agent has run there is nothing to pass."""
    assert AgentResult in [parameter.annotation for parameter in inspect.signature(stage_tests).parameters.values()]


DECLARED = f'[output]\npath = "{ANSWER}"\n'


@pytest.mark.parametrize("target", ["/etc/passwd", "/dev/zero", "/proc/self/environ"])
def test_a_linked_answer_is_not_followed(desk, target):
    ran = desk.attack(
        f"ln -s {target} {ANSWER}",
        files={"tests/test.sh": "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n"},
        toml=DECLARED,
    )
    assert ran.record.outcome == "invalid_output"
    assert ran.reward == 0.0
    assert any("a symbolic link" in line for line in ran.evaluation.validity.errors)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (f"mkfifo {ANSWER}", "a device, socket or pipe"),
        (f"mkdir {ANSWER}", "a directory"),
        (f"truncate -s 3G {ANSWER}", " bytes"),
    ],
)
def test_an_answer_that_is_no_file_of_reasonable_size_is_no_answer(desk, command, said):
    files = {"tests/test.sh": "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n"}
    ran = desk.attack(command, files=files, toml=DECLARED)
    assert (ran.record.outcome, ran.reward) == ("invalid_output", 0.0)
    assert any(said in line for line in ran.evaluation.validity.errors)
